//! The stores that the cases run on.

use std::fs;

use fmail_e2e::Sandbox;

/// A store, and how commands get at it.
pub struct Setup {
    /// What it is called in the names of the tests.
    pub name: &'static str,
    /// Whether a daemon runs while the case does.
    pub served: bool,
    /// Puts in place what the store needs, and gives the variables that commands and daemon have.
    pub prepare: fn(&Sandbox) -> Vec<(String, String)>,
}

/// The first is what the others are compared with.
pub const SETUPS: &[Setup] = &[
    Setup { name: "files", served: false, prepare: nothing },
    Setup { name: "files_through_forged", served: true, prepare: nothing },
    Setup { name: "memory", served: true, prepare: memory },
];

fn nothing(_: &Sandbox) -> Vec<(String, String)> {
    Vec::new()
}

fn memory(sandbox: &Sandbox) -> Vec<(String, String)> {
    configure(sandbox, "[mail]\nstore = \"memory\"\n");
    Vec::new()
}

/// Writes the user's configuration: a project's own file may not name programs and paths.
fn configure(sandbox: &Sandbox, text: &str) {
    let directory = sandbox.home().join(".config/fmail");
    fs::create_dir_all(&directory).expect("own directory");
    fs::write(directory.join("config.toml"), text).expect("own file");
}
