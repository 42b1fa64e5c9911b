//! What a case is, and what it runs on.

use std::fmt;
use std::process::Command;
use std::sync::Arc;

use fmail_api::{Error, ErrorKind, Filters, Result, Store};

use crate::Work;

/// One promise of a store.
pub struct Case {
    /// The rule of [`Store`] or of its [`Mailbox`](fmail_api::Mailbox) that it checks, for example `A1`.
    pub rule: &'static str,
    /// The promise, as a name.
    pub name: &'static str,
    /// What the store must claim for the promise to apply.
    pub needs: &'static [Need],
    /// Checks the promise on a fresh project.
    pub check: fn(&Bench) -> Verdict,
}

/// What a store must claim for a case to apply.
#[derive(Debug, Clone, Copy)]
pub enum Need {
    /// `import`.
    Import,
    /// `remove`.
    Remove,
    /// `durable`.
    Durable,
    /// `topics`: the case tells topics and mailboxes apart. All others make do with mailboxes.
    Topics,
    /// `shared`: two instances are not the same one.
    Shared,
    /// These parts of a query, evaluated by the store itself.
    Filters(&'static str, fn(&Filters) -> bool),
    /// The mailbox facet: the store keeps the states of mail itself.
    Mailbox,
    /// No such facet: fmail keeps the states of mail in the store's records.
    States,
}

impl Need {
    /// Why the store cannot be held to the case, if it cannot.
    pub fn missing(self, store: &dyn Store) -> Option<String> {
        let capabilities = store.capabilities();
        let name = &capabilities.name;
        let (claimed, what) = match self {
            Need::Import => (capabilities.import, "import"),
            Need::Remove => (capabilities.remove, "remove"),
            Need::Durable => (capabilities.durable, "durable"),
            Need::Topics => (capabilities.topics, "topics"),
            Need::Shared => (capabilities.shared, "shared"),
            Need::Filters(name, claims) => (claims(&capabilities.filters), name),
            Need::Mailbox => (store.mailbox().is_some(), "mailbox"),
            Need::States => {
                let text = || format!("the store `{name}` keeps the states of mail itself: B1 to B7 hold it to them");
                return store.mailbox().map(|_| text());
            }
        };
        (!claimed).then(|| format!("the store `{name}` does not claim `{what}`"))
    }
}

/// One project of the store under test. It is empty when the factory hands it out, and gone when it is dropped.
pub trait Subject: Send + Sync {
    /// An instance on the project's data. Each call gives a fresh one; a store that keeps its data in the instance
    /// gives the same one again.
    fn open(&self) -> Result<Arc<dyn Store>>;

    /// A process that opens the project and calls [`write_until_killed`](crate::write_until_killed) with this work.
    /// A store that claims `durable` has to offer it.
    fn writer(&self, work: Work) -> Option<Command> {
        let _ = work;
        None
    }
}

/// Makes a fresh subject for each case.
pub type Factory = Arc<dyn Fn() -> Result<Box<dyn Subject>> + Send + Sync>;

/// What a case works with.
pub struct Bench {
    subject: Box<dyn Subject>,
    factory: Factory,
}

impl Bench {
    /// A bench with a fresh project.
    pub fn new(factory: Factory) -> Result<Self> {
        Ok(Bench { subject: factory()?, factory })
    }

    /// An instance on the case's project.
    pub fn open(&self) -> Result<Arc<dyn Store>> {
        self.subject.open()
    }

    /// Another project of the same kind of store.
    pub fn another(&self) -> Result<Bench> {
        Bench::new(self.factory.clone())
    }

    /// A process that writes to the case's project.
    pub fn writer(&self, work: Work) -> Option<Command> {
        self.subject.writer(work)
    }
}

/// How a case ended: the promise holds, or how it was broken.
pub type Verdict<T = ()> = std::result::Result<T, Failure>;

/// How a promise was broken, in a sentence.
#[derive(Clone)]
pub struct Failure {
    sentence: String,
    /// What ended the case is that the store cannot do something, and says so.
    pub(crate) unsupported: bool,
}

impl Failure {
    /// A broken promise.
    pub fn new(sentence: impl Into<String>) -> Self {
        Failure { sentence: sentence.into(), unsupported: false }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let unsupported = error.kind() == ErrorKind::Unsupported;
        Failure { sentence: format!("unexpected error: {error:?}"), unsupported }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::new(format!("the suite itself failed: {error}"))
    }
}

/// Ends the case unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($sentence:tt)+) => {
        if !$condition {
            return Err($crate::Failure::new(format!($($sentence)+)));
        }
    };
}

/// Ends the case unless both sides are equal; shows both.
macro_rules! ensure_eq {
    // A match and not a let: what the sides borrow from lives as long as they are compared.
    ($found:expr, $expected:expr, $($sentence:tt)+) => {
        match (&$found, &$expected) {
            (found, expected) => {
                if found != expected {
                    let sentence = format!($($sentence)+);
                    let sides = format!("  found    {found:?}\n  expected {expected:?}");
                    return Err($crate::Failure::new(format!("{sentence}\n{sides}")));
                }
            }
        }
    };
}

pub(crate) use {ensure, ensure_eq};
