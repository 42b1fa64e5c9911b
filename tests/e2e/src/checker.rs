//! Finds out whether everything that was acknowledged is there, once, whole and in order.
//!
//! It lists `.fmail/` and parses the files by itself, with nothing but the standard library and a JSON parser: what our
//! own code reads is not asked, because our own code is what is examined. It gives everything that is wrong, in words.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use serde_json::Value;

mod files;
#[cfg(test)]
mod tests;
mod watches;

use files::Found;

/// What identifies a message, and a digest of its body. Every body is sent once only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The id.
    pub id: String,
    /// Who sent it.
    pub from: String,
    /// The mailbox: a topic, or `@` and an agent.
    pub to: String,
    /// [`digest`] of the body: a long run would not fit into memory with the bodies themselves.
    pub body: u64,
}

impl Message {
    /// The message in a JSON object, as it stands in a file and on a watch.
    pub fn of(value: &Value) -> Result<Message, String> {
        let text = |field: &str| match value[field].as_str() {
            Some(text) => Ok(text.to_string()),
            None => Err(format!("has no `{field}`: {value}")),
        };
        let body = value.get("body").ok_or_else(|| format!("has no `body`: {value}"))?;
        Ok(Message { id: text("id")?, from: text("from")?, to: text("to")?, body: digest(body) })
    }
}

/// A number that stands for a JSON value.
pub fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

/// How a message came into the project, and what is promised about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A program of ours acknowledged it. Of one sender, ids ascend; every watch gets them in this order.
    Acknowledged,
    /// Written into the directory by hand, with an id of its time. Every watch gets it.
    ByHand,
    /// Written by hand with an id of the past: a watch that must go on behind an id does not get it.
    ByHandDatedBack,
    /// Written by hand, so old that `gc` has to remove it.
    Outdated,
}

/// What one sender did, in its order.
#[derive(Debug, Clone)]
pub struct Journal {
    /// How its messages came in.
    pub origin: Origin,
    /// Its messages.
    pub sent: Vec<Message>,
}

/// What one watch showed, in its order.
#[derive(Debug, Clone)]
pub struct Watched {
    /// Its name in what is reported.
    pub name: String,
    /// On whose behalf it watched.
    pub agent: String,
    /// The mailbox that it watched; without one, all topics and the agent's own.
    pub target: Option<String>,
    /// What it showed.
    pub seen: Vec<Message>,
}

impl Watched {
    fn covers(&self, mailbox: &str) -> bool {
        match (&self.target, mailbox.strip_prefix('@')) {
            (Some(target), _) => target == mailbox,
            (None, Some(agent)) => agent == self.agent,
            (None, None) => true,
        }
    }
}

/// All messages that were sent, by id.
type Sent<'a> = BTreeMap<&'a str, (&'a Message, Origin)>;

/// Compares the files of a project with what was sent and with what was seen. Gives everything that is wrong.
pub fn check(store: &Path, journals: &[Journal], watches: &[Watched]) -> Vec<String> {
    let mut wrong = Vec::new();
    let found = files::read(store, &mut wrong);
    let sent = all_sent(journals, &mut wrong);
    check_files(&sent, &found, &mut wrong);
    watches.iter().for_each(|watched| watches::check(watched, &sent, &mut wrong));
    wrong
}

/// What is wrong, for a reader: one mistake can lead to thousands of lines.
pub fn summary(wrong: &[String]) -> String {
    let shown = &wrong[..wrong.len().min(30)];
    format!("{} things are wrong, among them:\n{}", wrong.len(), shown.join("\n"))
}

/// Puts the journals together. A sender that waits for each answer gets ascending ids.
fn all_sent<'a>(journals: &'a [Journal], wrong: &mut Vec<String>) -> Sent<'a> {
    let mut sent = Sent::new();
    for journal in journals {
        for message in &journal.sent {
            if sent.insert(&message.id, (message, journal.origin)).is_some() {
                wrong.push(format!("{} was acknowledged for two messages", message.id));
            }
        }
        if journal.origin == Origin::Acknowledged {
            for pair in journal.sent.windows(2).filter(|pair| pair[0].id >= pair[1].id) {
                wrong.push(format!("disordered: {} got {} and then {}", pair[0].from, pair[0].id, pair[1].id));
            }
        }
    }
    sent
}

fn check_files(sent: &Sent<'_>, found: &[Found], wrong: &mut Vec<String>) {
    let mut bodies: HashMap<u64, &Found> = HashMap::new();
    let mut ids: HashMap<&str, &Found> = HashMap::new();
    for file in found {
        if let Some(other) = ids.insert(&file.message.id, file) {
            wrong.push(format!("doubled: one id in {} and {}", other.place, file.place));
        }
        if let Some(other) = bodies.insert(file.message.body, file) {
            wrong.push(format!("doubled: one body in {} and {}", other.place, file.place));
        }
        match sent.get(file.message.id.as_str()) {
            None => wrong.push(format!("nobody sent {}", file.place)),
            Some((message, _)) if **message != file.message => {
                wrong.push(format!("changed: {} is {:?}, sent was {message:?}", file.place, file.message));
            }
            Some((_, Origin::Outdated)) => wrong.push(format!("gc left {}", file.place)),
            Some(_) => {}
        }
    }
    let there: BTreeSet<&str> = found.iter().map(|file| file.message.id.as_str()).collect();
    for (id, (message, origin)) in sent {
        if *origin != Origin::Outdated && !there.contains(id) {
            wrong.push(format!("lost: {id} from {} to {} ({origin:?})", message.from, message.to));
        }
    }
}
