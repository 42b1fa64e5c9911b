//! Who calls where other machines can: over which connection, and who was turned away.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fmail_api::{Clock, Strangers};

use crate::peer::Traffic;

/// The longest reason that is kept.
const REASON: usize = 200;

/// The callers of all listeners of a daemon. Bounded by the connections that are open: of those who were turned away, only
/// their number and the last one is kept.
pub struct Callers {
    clock: Arc<dyn Clock>,
    open: Mutex<HashMap<String, Arc<Caller>>>,
    strangers: Mutex<Option<Strangers>>,
    numbers: AtomicU64,
}

/// One connection.
pub struct Caller {
    callers: Arc<Callers>,
    /// Where it comes from.
    pub address: SocketAddr,
    /// What has crossed it, as it is on the network.
    pub traffic: Arc<Traffic>,
    encrypted: AtomicBool,
    turned_away: AtomicBool,
}

impl Callers {
    /// Nobody has called yet.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let (open, strangers) = (Mutex::default(), Mutex::default());
        Arc::new(Callers { clock, open, strangers, numbers: AtomicU64::new(0) })
    }

    /// The connection with this session, as long as it is open.
    pub fn caller(&self, session: &str) -> Option<Arc<Caller>> {
        locked(&self.open).get(session).cloned()
    }

    /// Those who were turned away.
    pub fn strangers(&self) -> Option<Strangers> {
        locked(&self.strangers).clone()
    }

    /// Somebody calls from there.
    pub(crate) fn calls(self: &Arc<Self>, address: SocketAddr) -> Arc<Caller> {
        Arc::new(Caller {
            callers: self.clone(),
            address,
            traffic: Arc::default(),
            encrypted: AtomicBool::new(false),
            turned_away: AtomicBool::new(false),
        })
    }
}

impl Caller {
    /// Whether the connection is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.encrypted.load(Ordering::Relaxed)
    }

    pub(crate) fn encrypted(&self) {
        self.encrypted.store(true, Ordering::Relaxed);
    }

    /// A number that no other connection has, whichever listener it came to.
    pub(crate) fn number(&self) -> u64 {
        self.callers.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The caller is turned away, or some of what it says. Counted once for a connection: whoever sends a million broken
    /// lines is one caller.
    pub(crate) fn turned_away(&self, reason: &str) {
        let reason: String = reason.chars().take(REASON).map(|c| if c.is_control() { '?' } else { c }).collect();
        let (address, at) = (self.address.to_string(), self.callers.clock.now());
        let new = !self.turned_away.swap(true, Ordering::Relaxed);
        if new {
            tracing::info!(address, reason, "a caller was turned away");
        }
        let mut strangers = locked(&self.callers.strangers);
        let count = strangers.as_ref().map_or(0, |known| known.count) + u64::from(new);
        *strangers = Some(Strangers { count, address, reason, at });
    }
}

/// A connection that is open under a session, until this is dropped.
pub(crate) struct OnTheLine {
    caller: Arc<Caller>,
    session: String,
}

impl OnTheLine {
    pub(crate) fn new(caller: Arc<Caller>, session: String) -> Self {
        locked(&caller.callers.open).insert(session.clone(), caller.clone());
        OnTheLine { caller, session }
    }
}

impl Drop for OnTheLine {
    fn drop(&mut self) {
        locked(&self.caller.callers.open).remove(&self.session);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
