//! The stores that the cases run on. Nothing but the configuration differs between them.

use fmail_e2e::Sandbox;

/// A store, and how commands get at it.
pub struct Setup {
    /// What it is called in the names of the tests.
    pub name: &'static str,
    /// Whether a daemon runs while the case does.
    pub served: bool,
    /// Whether every case runs, or one of each kind unless `FMAIL_TEST_FULL` is set.
    pub every: bool,
    /// `mail.store`; nothing leaves it at what it is by itself.
    store: Option<&'static str>,
    /// `isolation` of the section of the store.
    isolation: Option<&'static str>,
}

/// The first is what the others are compared with. A store that only one process can see needs a daemon.
pub const SETUPS: &[Setup] = &[
    Setup { name: "files", served: false, every: true, store: None, isolation: None },
    Setup { name: "files_through_forged", served: true, every: true, store: None, isolation: None },
    Setup { name: "memory", served: true, every: true, store: Some("memory"), isolation: None },
    Setup { name: "sqlite", served: false, every: true, store: Some("sqlite"), isolation: None },
    Setup { name: "sqlite_through_forged", served: true, every: true, store: Some("sqlite"), isolation: None },
    apart("sqlite_apart", "sqlite", false),
    apart("sqlite_apart_through_forged", "sqlite", true),
    example("rust", "example-rust"),
    apart("rust_apart", "example-rust", true),
    example("c", "example-c"),
    apart("c_apart", "example-c", true),
    // A program is always a process of its own.
    example("python", "example-python"),
];

/// An example, in the daemon's process if it can be.
const fn example(name: &'static str, store: &'static str) -> Setup {
    Setup { name, served: true, every: false, store: Some(store), isolation: None }
}

/// A library in a process of its own.
const fn apart(name: &'static str, store: &'static str, served: bool) -> Setup {
    Setup { name, served, every: false, store: Some(store), isolation: Some("process") }
}

impl Setup {
    /// Writes the user's configuration.
    pub fn prepare(&self, sandbox: &Sandbox) {
        let Some(store) = self.store else { return };
        let section = self.isolation.map(|isolation| format!("[mail.plugin.{store}]\nisolation = {isolation:?}"));
        sandbox.configure(&format!("store = {store:?}"), &section.unwrap_or_default());
    }
}
