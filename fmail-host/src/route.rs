//! How a command gets at the project's store.

use crate::{Settings, registry};

/// The way from a command to the messages. The configuration decides it, before anything is opened or connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The store is opened in this process, which is cheap, and any number of processes may. A daemon makes sending and
    /// watching quicker, and nothing depends on it.
    Direct,
    /// Only through the project's daemon: the store lives in its process.
    Daemon,
    /// Through the project's daemon when one answers, which has the store open already. Otherwise the store is opened in
    /// this process; only then is it known whether other processes see what it holds, and it is refused if not.
    DaemonFirst,
}

impl Settings {
    /// How a command gets at the store that is configured.
    pub fn route(&self) -> Route {
        match registry::is_shared(&self.mail.store) {
            Some(true) => Route::Direct,
            Some(false) => Route::Daemon,
            None => Route::DaemonFirst,
        }
    }
}
