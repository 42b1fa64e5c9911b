//! One daemon for one project. The lock is the host's, since `fmail store copy` keeps daemons away with it.

pub use fmail_host::daemon_lock::{RootLock, UseLock, holder};
