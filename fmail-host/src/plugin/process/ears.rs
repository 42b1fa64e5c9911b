//! Hears a child for an instance: answers go to the table of our calls, its own calls to what serves them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use fmail_abi::{Calls, Level, Peer, Served, status};
use fmail_api::Result;
use futures::FutureExt;

use super::{Listener, Process, Program};
use crate::plugin::library;
use crate::plugin::{Carrier, Upward};

/// The host, as the children of one instance see it, one after the other.
struct Ears {
    name: String,
    calls: Arc<Calls>,
    upward: Option<Upward>,
    /// Where answers go; weak, because the process holds its listener.
    process: OnceLock<Weak<Process>>,
    /// What serves the child that runs.
    serving: Mutex<Option<Serving>>,
}

/// What one child asks. The next one begins anew, with the same numbers.
struct Serving {
    served: Arc<Served>,
    child: Arc<Child>,
}

/// The way to one child, for as long as it runs.
struct Child {
    process: Weak<Process>,
    runs: AtomicBool,
}

/// Starts a program whose calls go through `calls`, and what it asks to `upward`.
pub(super) fn carrier(program: Program, calls: Arc<Calls>, upward: Option<Upward>) -> Result<Arc<dyn Carrier>> {
    let name = program.name.clone();
    let ears = Arc::new(Ears { name, calls, upward, process: OnceLock::new(), serving: Mutex::default() });
    let process = Arc::new(Process::start(program, ears.clone())?);
    // Nobody else sets it. A program that asks something before that is not served; it has not been made yet.
    let _ = ears.process.set(Arc::downgrade(&process));
    Ok(process)
}

/// Starts a program only to hear what it is. It is ended when the result is dropped.
pub(super) fn greeted(program: Program) -> Result<Process> {
    let (name, calls) = (program.name.clone(), Arc::new(Calls::new()));
    Process::start(
        program,
        Arc::new(Ears { name, calls, upward: None, process: OnceLock::new(), serving: Mutex::default() }),
    )
}

impl Ears {
    fn serving(&self) -> MutexGuard<'_, Option<Serving>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What serves the child, made with its first call.
    fn served(&self) -> Option<Arc<Served>> {
        let upward = self.upward.as_ref()?;
        let process = self.process.get()?;
        let mut serving = self.serving();
        let serving = serving.get_or_insert_with(|| {
            let child = Arc::new(Child { process: process.clone(), runs: AtomicBool::new(true) });
            let served = Served::new(child.clone(), upward.service.clone(), upward.spawner.clone());
            Serving { served, child }
        });
        Some(serving.served.clone())
    }
}

impl Listener for Ears {
    fn log(&self, level: Level, target: &str, message: &str, fields: &[u8]) {
        library::say(&self.name, level as u32, target.as_bytes(), message.as_bytes(), fields);
    }

    fn lost(&self) {
        let lost = self.serving().take();
        if let (Some(Serving { served, child }), Some(upward)) = (lost, &self.upward) {
            child.runs.store(false, Ordering::Release);
            upward.spawner.spawn(served.close().boxed());
        }
    }
}

impl Peer for Ears {
    fn call(&self, id: u64, method: &str, context: &[u8], request: &[u8]) {
        match self.served() {
            Some(served) => served.call(id, method.as_bytes(), context, request),
            None => {
                if let Some(process) = self.process.get().and_then(Weak::upgrade) {
                    process.done(id, status::UNSUPPORTED, b"a store asks nothing of the host");
                }
            }
        }
    }

    fn pull(&self, id: u64, credits: u32) {
        if let Some(served) = self.served() {
            served.pull(id, credits);
        }
    }

    fn cancel(&self, id: u64) {
        if let Some(served) = self.served() {
            served.cancel(id);
        }
    }

    fn done(&self, id: u64, status: i32, body: &[u8]) {
        self.calls.done(id, status, body);
    }

    fn item(&self, id: u64, body: &[u8]) -> bool {
        self.calls.item(id, body)
    }
}

impl Child {
    fn reached(&self) -> Option<Arc<Process>> {
        self.process.upgrade().filter(|_| self.runs.load(Ordering::Acquire))
    }
}

/// Only answers go this way: our own calls are the carrier's.
impl Peer for Child {
    fn call(&self, _id: u64, _method: &str, _context: &[u8], _request: &[u8]) {}

    fn pull(&self, _id: u64, _credits: u32) {}

    fn cancel(&self, _id: u64) {}

    fn done(&self, id: u64, status: i32, body: &[u8]) {
        if let Some(process) = self.reached() {
            process.done(id, status, body);
        }
    }

    fn item(&self, id: u64, body: &[u8]) -> bool {
        self.reached().is_some_and(|process| process.item(id, body))
    }
}
