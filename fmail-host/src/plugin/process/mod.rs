//! A plugin in a child process.
//!
//! [`Process`] carries the calls of an instance as lines to a program, and what the program prints back. The program may
//! do whatever a program can do, end, hang, print nonsense, flood us, and the worst that happens is an error on the calls
//! that it had under way. The next call starts it again.
//!
//! | file | holds |
//! |---|---|
//! | `program.rs` | what is run |
//! | `spawn.rs` | how it is started |
//! | `child.rs` | one that runs: its pipes, its end |
//! | `lines.rs`, `said.rs` | what it prints: lines of the protocol, lines for the log |
//! | `outbox.rs` | what waits to be written |
//! | `backoff.rs` | when it is started again |
//! | `link.rs` | what callers and the keeper share; the [`Carrier`] |
//! | `keeper.rs` | the thread that does all the waiting |

mod backoff;
mod child;
mod keeper;
mod lines;
mod link;
mod listener;
mod outbox;
mod program;
mod said;
mod spawn;

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use fmail_abi::{Calls, Peer};
use fmail_api::{Error, Result};

pub use listener::Listener;
pub use program::Program;

use self::keeper::Keeper;
use self::link::Link;
use self::listener::Host;
use super::{Carrier, Upward};

/// A program that is started, and started again when it ended. Dropped, it is ended.
pub struct Process {
    link: Arc<Link>,
    manifest: Vec<u8>,
}

impl Process {
    /// Starts the program and waits until it has said what it is; `listener` hears what it says from then on.
    pub fn start(program: Program, listener: Arc<dyn Listener>) -> Result<Process> {
        let name = format!("plugin {}", program.name);
        let link = Arc::new(Link::new(program, listener)?);
        let (first, greeting) = sync_channel(1);
        let kept = link.clone();
        std::thread::Builder::new()
            .name(name)
            .spawn(move || Keeper::run(kept, &first))
            .map_err(|error| Error::io("cannot start a thread", &error))?;
        let greeting = greeting.recv().map_err(|_| Error::internal("the keeper of a child ended without a word"))?;
        let manifest =
            greeting.map_err(|error| error.context("plugin", format_args!("the plugin `{}`", link.program.name)))?;
        Ok(Process { link, manifest })
    }

    /// What carries the calls of a new instance. `upward` serves what the program asks of the host, which is refused as
    /// unsupported without it.
    pub fn carrier(program: Program, calls: Arc<Calls>, upward: Option<Upward>) -> Result<Arc<dyn Carrier>> {
        let host = Host::new(&program.name, calls, upward);
        Ok(Arc::new(Process::start(program, Arc::new(host))?))
    }

    /// Starts the program only to hear what it is.
    pub fn greeted(program: Program) -> Result<Process> {
        let host = Host::new(&program.name, Arc::default(), None);
        Process::start(program, Arc::new(host))
    }

    /// What the program said about itself: a JSON object.
    pub fn manifest(&self) -> &[u8] {
        &self.manifest
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.link.abandon();
    }
}

impl Peer for Process {
    fn call(&self, id: u64, method: &str, context: &[u8], request: &[u8]) {
        self.link.call(id, method, context, request);
    }

    fn pull(&self, id: u64, credits: u32) {
        self.link.pull(id, credits);
    }

    fn cancel(&self, id: u64) {
        self.link.cancel(id);
    }

    fn done(&self, id: u64, status: i32, body: &[u8]) {
        self.link.done(id, status, body);
    }

    fn item(&self, id: u64, body: &[u8]) -> bool {
        self.link.item(id, body)
    }
}

impl Carrier for Process {
    fn create(&self, id: u64, envelope: &[u8]) {
        self.link.create(id, envelope);
    }

    fn destroy(&self, id: u64) {
        self.link.destroy(id);
    }

    fn stuck(&self) -> Option<String> {
        self.link.stuck()
    }
}
