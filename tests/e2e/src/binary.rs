//! Which `fmail` and which `forged` are tested.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The program under test: `FMAIL_TEST_BIN`, else the one that cargo builds beside the test's own executable.
///
/// A program that is missing or older than its sources is built first: these tests do not link it, so cargo does not
/// keep it fresh for them, and a test of yesterday's program proves nothing.
pub fn fmail_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| fresh("FMAIL_TEST_BIN", "fmail", "fmail-cli"))
}

/// The daemon under test: `FORGED_TEST_BIN`, else as [`fmail_binary`].
pub fn forged_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| fresh("FORGED_TEST_BIN", "forged", "forged"))
}

/// fmail as a mail script: `FMAIL_GC_MAIL_TEST_BIN`, else as [`fmail_binary`].
pub fn gc_mail_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| fresh("FMAIL_GC_MAIL_TEST_BIN", "fmail-gc-mail", "fmail-cli"))
}

/// The program that checks plugins: `FMAIL_PLUGIN_CHECK`, else as [`fmail_binary`].
pub fn plugin_check_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| fresh("FMAIL_PLUGIN_CHECK", "fmail-plugin-check", "fmail-plugin-check"))
}

fn fresh(variable: &str, name: &str, package: &str) -> PathBuf {
    match std::env::var_os(variable) {
        Some(path) => std::fs::canonicalize(&path).unwrap_or_else(|error| panic!("{variable} {path:?}: {error}")),
        None => {
            let path = profile_directory().join(name);
            if is_stale(&path) {
                cargo_build(&["--package", package, "--bin", name]);
            }
            path
        }
    }
}

/// `target/<profile>`: the test executable lies in its `deps`.
pub(crate) fn profile_directory() -> PathBuf {
    let executable = std::env::current_exe().expect("a test knows its own path");
    executable.ancestors().nth(2).expect("target/<profile>/deps/<test>").to_path_buf()
}

fn is_stale(path: &Path) -> bool {
    let Ok(built) = path.metadata().and_then(|metadata| metadata.modified()) else { return true };
    let crates = ["fmail-api", "fmail-core", "backends", "transports", "fmail-host", "fmail-cli", "forged"];
    let of_plugins = ["abi/src", "chat-file/src", "check/src", "mcp/src", "templates", "examples"]
        .map(|name| workspace().join("plugins").join(name));
    let sources = crates.iter().map(|name| workspace().join(name).join("src"));
    sources.chain(of_plugins).any(|directory| newest(&directory) > Some(built))
}

/// When a file below a directory was last changed.
pub(crate) fn newest(directory: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(directory).ok()?;
    let time_of = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => newest(&entry.path()),
        _ => entry.metadata().and_then(|metadata| metadata.modified()).ok(),
    };
    entries.flatten().filter_map(time_of).max()
}

/// Builds this in the test's own profile.
pub(crate) fn cargo_build(what: &[&str]) {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace()).args(["build", "--quiet"]).args(what);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "`cargo build {}` failed", what.join(" "));
}

/// The workspace: this crate is `tests/e2e` in it.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("tests/e2e lies in the workspace")
}

/// The library of a plugin, by the name of its package, built when it is missing or older than its sources.
pub fn plugin_library(package: &str) -> PathBuf {
    let path = profile_directory().join(format!("lib{}.so", package.replace('-', "_")));
    let name = package.trim_start_matches("fmail-");
    let built = path.metadata().and_then(|metadata| metadata.modified()).ok();
    let sources = ["plugins/sdk", "plugins/abi", "fmail-api", &format!("plugins/{name}")].map(String::from);
    if built.is_none() || sources.iter().any(|source| newest(&workspace().join(source).join("src")) > built) {
        cargo_build(&["--package", package, "--lib"]);
    }
    path
}
