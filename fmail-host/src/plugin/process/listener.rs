//! Who hears what a child says.

use std::sync::{Arc, Mutex, PoisonError};

use fmail_abi::{Calls, Level, Peer, Served, status};

use crate::plugin::Upward;
use crate::plugin::library::log;

/// The host as a child sees it: where its answers, its own calls and its log go.
///
/// None of its functions blocks, and none is called under a lock of ours.
pub trait Listener: Send + Sync {
    /// A child was started. What it asks is answered through this; whatever goes there once it is gone has no effect.
    fn started(&self, child: Arc<dyn Peer>);
    /// It is about to be told to end: what it has asked, and what it still asks, is answered with `CANCELLED`.
    fn leaving(&self);
    /// It is gone, and so are its own calls.
    fn lost(&self);
    /// It answers a call of the host.
    fn done(&self, id: u64, status: i32, body: &[u8]);
    /// It sends an item of a stream that the host asked for.
    fn item(&self, id: u64, body: &[u8]);
    /// It calls the host.
    fn call(&self, id: u64, method: &str, context: &[u8], request: &[u8]);
    /// It can take more items of such a call.
    fn pull(&self, id: u64, credits: u32);
    /// It gives such a call up.
    fn cancel(&self, id: u64);
    /// A line of its log, or about it.
    fn log(&self, level: Level, target: &str, message: &str, fields: &[u8]);
    /// A line on its standard error.
    fn said(&self, line: &str) {
        self.log(Level::Warn, "stderr", line, b"");
    }
}

/// The host proper: answers go to the table of calls, calls of the child to whoever serves them.
pub(super) struct Host {
    name: String,
    calls: Arc<Calls>,
    upward: Option<Upward>,
    /// The child there is.
    child: Mutex<Option<Asking>>,
}

/// A child that may ask something, and who runs it.
#[derive(Clone)]
struct Asking {
    child: Arc<dyn Peer>,
    served: Option<Arc<Served>>,
}

impl Host {
    pub(super) fn new(name: &str, calls: Arc<Calls>, upward: Option<Upward>) -> Self {
        Host { name: name.into(), calls, upward, child: Mutex::default() }
    }

    fn child(&self) -> Option<Asking> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn served(&self) -> Option<Arc<Served>> {
        self.child()?.served
    }
}

impl Listener for Host {
    fn started(&self, child: Arc<dyn Peer>) {
        let serve = |Upward { service, spawner }: &Upward| Served::new(child.clone(), service.clone(), spawner.clone());
        let served = self.upward.as_ref().map(serve);
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = Some(Asking { child, served });
    }

    fn leaving(&self) {
        if let (Some(served), Some(upward)) = (self.served(), &self.upward) {
            // Work that is under way may take a while to notice. Nobody waits for that here.
            upward.spawner.spawn(Box::pin(served.close()));
        }
    }

    fn lost(&self) {
        self.leaving();
        self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn done(&self, id: u64, status: i32, body: &[u8]) {
        self.calls.done(id, status, body);
    }

    fn item(&self, id: u64, body: &[u8]) {
        // A program cannot be told to stop by the answer to an item; its credit and `cancel` do that.
        self.calls.item(id, body);
    }

    fn call(&self, id: u64, method: &str, context: &[u8], request: &[u8]) {
        match self.child() {
            Some(Asking { served: Some(served), .. }) => served.call(id, method.as_bytes(), context, request),
            Some(Asking { child, served: None }) => {
                child.done(id, status::UNSUPPORTED, b"the host serves no calls of this plugin");
            }
            None => {}
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

    fn log(&self, level: Level, target: &str, message: &str, fields: &[u8]) {
        log::say(&self.name, level as u32, target.as_bytes(), message.as_bytes(), fields);
    }
}
