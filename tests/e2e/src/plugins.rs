//! The plugins that are tested: built when that is needed, and installed as a user would.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::Sandbox;
use crate::binary::{cargo_build, newest, profile_directory, workspace};

/// The packages that are libraries of Rust.
const PACKAGES: [&str; 8] = [
    "fmail-sqlite",
    "fmail-exec",
    "fmail-chat",
    "fmail-ws",
    "fmail-http",
    "fmail-mirror",
    "fmail-example-rust",
    "fmail-desk",
];

/// A directory with every plugin, as `mail.plugins.path` may name it: `sqlite`, `exec`, `chat`, `ws`, `http`,
/// `mirror`, `example-rust`, `example-c`, `desk`, which keeps the states of mail itself, and the program `example-python`.
///
/// They are built first if they are missing or older than their sources: no test links them, so cargo does not keep them
/// fresh. `FMAIL_TEST_PLUGINS` names a directory with others.
pub fn plugins() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| match std::env::var_os("FMAIL_TEST_PLUGINS") {
        Some(path) => fs::canonicalize(&path).unwrap_or_else(|error| panic!("FMAIL_TEST_PLUGINS {path:?}: {error}")),
        None => built(),
    })
}

impl Sandbox {
    /// Writes the user's configuration, with the place of the plugins: a project's own file may not name programs and
    /// paths. `mail` are the lines of the section `mail`, `rest` are further sections.
    pub fn configure(&self, mail: &str, rest: &str) {
        let directory = self.home().join(".config/fmail");
        fs::create_dir_all(&directory).expect("own directory");
        let text = format!("[mail]\n{mail}\n[mail.plugins]\npath = [{:?}]\n{rest}\n", plugins());
        fs::write(directory.join("config.toml"), text).expect("own file");
    }
}

fn built() -> PathBuf {
    let libraries: Vec<PathBuf> = PACKAGES.iter().map(|package| profile_directory().join(library(package))).collect();
    if libraries.iter().any(|library| is_stale(library)) {
        let packages: Vec<&str> = PACKAGES.iter().flat_map(|package| ["--package", package]).collect();
        cargo_build(&packages);
    }
    let directory = profile_directory().join("plugins-of-tests");
    fs::create_dir_all(&directory).expect("own directory");
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).expect("own directory");
    for library in &libraries {
        install(library, &directory);
    }
    install(&compiled(), &directory);
    install(&workspace().join("plugins/examples/python-memory/fmail-plugin-example-python"), &directory);
    directory
}

/// The example in C, compiled as its Makefile does it.
fn compiled() -> PathBuf {
    let library = profile_directory().join("libfmail_example_c.so");
    let source = workspace().join("plugins/examples/c-memory");
    let header = workspace().join("plugins/sdk/include");
    let time = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    if time(&library) < newest(&source).max(newest(&header)) {
        // Another test may do the same: each has a file of its own, and the last one stays.
        let own = library.with_extension(format!("so.{}", std::process::id()));
        let status = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .args(["-shared", "-fPIC", "-std=c99", "-fvisibility=hidden", "-O2", "-I"])
            .arg(header)
            .arg("-o")
            .arg(&own)
            .arg(source.join("store.c"))
            .arg("-pthread")
            .status()
            .expect("a C compiler is needed by these tests");
        assert!(status.success(), "the example in C cannot be compiled");
        fs::rename(own, &library).expect("own file");
    }
    library
}

/// The name of a package's library.
fn library(package: &str) -> String {
    format!("lib{}.so", package.replace('-', "_"))
}

fn is_stale(library: &Path) -> bool {
    let Ok(built) = library.metadata().and_then(|metadata| metadata.modified()) else { return true };
    let sources = ["plugins/abi", "plugins/sdk", "plugins/sqlite", "plugins/exec", "plugins/ws", "plugins/mirror"];
    let more = ["plugins/examples/rust-memory", "tests/plugins/desk", "backends", "fmail-api", "fmail-core"];
    let of_mcp = ["plugins/http", "plugins/mcp"];
    let sources = sources.iter().chain(&more).chain(&of_mcp);
    sources.map(|name| newest(&workspace().join(name).join("src"))).max().flatten() > Some(built)
}

/// Copies a file so that only its owner can write it, and nobody sees half of it.
fn install(file: &Path, directory: &Path) {
    let name = file.file_name().expect("a file has a name").to_string_lossy().into_owned();
    let (own, place) = (directory.join(format!(".{name}.{}", std::process::id())), directory.join(&name));
    fs::copy(file, &own).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    fs::set_permissions(&own, Permissions::from_mode(0o755)).expect("own file");
    fs::rename(own, place).expect("own directory");
}
