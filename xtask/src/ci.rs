//! `cargo xtask ci`: what has to hold before a change is taken.

use std::process::{Command, Stdio};

use fmail_api::{Error, Result};

use crate::{cargo, test::Test, tools};

/// Check the formatting, lints, documentation and dependencies, then run all tests
#[derive(Debug, clap::Args)]
pub struct Ci {
    /// Run the slow forms of the tests too
    #[arg(long)]
    full: bool,
}

impl Ci {
    /// Runs every step, also after one has failed, so that one run tells everything.
    pub fn run(&self) -> Result<()> {
        let steps: [(&str, &dyn Fn() -> Result<()>); 5] = [
            ("formatting", &formatting),
            ("lints", &lints),
            ("documentation", &documentation),
            ("dependencies", &dependencies),
            ("tests", &|| Test { full: self.full, strict: true }.run()),
        ];
        let mut failed = Vec::new();
        for (name, step) in steps {
            eprintln!("== {name}");
            if let Err(error) = step() {
                eprintln!("error: {error}");
                if let Some(help) = error.help_text() {
                    eprintln!("  help: {help}");
                }
                failed.push(name);
            }
        }
        if failed.is_empty() {
            return Ok(());
        }
        Err(Error::internal(format!("these steps failed: {}", failed.join(", "))))
    }
}

fn formatting() -> Result<()> {
    component("fmt", "rustfmt")?;
    cargo::run(&mut cargo::cargo(&["fmt", "--all", "--check"]))
}

fn lints() -> Result<()> {
    component("clippy", "clippy")?;
    cargo::run(&mut cargo::cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

/// Builds the documentation twice: with everything in it, for those who work here, and of the crates that others read
/// with only what they can see, so that no link of theirs leads into the private part.
fn documentation() -> Result<()> {
    let everything: &[&str] = &["doc", "--no-deps", "--workspace", "--document-private-items"];
    let public: &[&str] =
        &["doc", "--no-deps", "--package", "fmail-api", "--package", "fmail-conformance", "--package", "fmail-plugin"];
    let private_links_allowed = "-D warnings -A rustdoc::private-intra-doc-links";
    cargo::run(cargo::cargo(everything).env("RUSTDOCFLAGS", private_links_allowed))?;
    cargo::run(cargo::cargo(public).env("RUSTDOCFLAGS", "-D warnings"))
}

fn dependencies() -> Result<()> {
    if tools::find("cargo-deny").is_none() {
        // Compiling it would take longer than everything else here together.
        eprintln!("skipped: cargo-deny is not installed (licences and advisories of dependencies are not checked)");
        return Ok(());
    }
    cargo::run(&mut cargo::cargo(&["deny", "check", "bans", "licenses", "sources"]))?;
    // The advisories come over the network, which not every machine that builds has.
    let checked = cargo::cargo(&["deny", "check", "advisories"])
        .output()
        .map_err(|error| Error::io("cargo-deny cannot be run", &error))?;
    let said = String::from_utf8_lossy(&checked.stderr);
    if !checked.status.success() && said.contains("failed to fetch") {
        eprintln!("skipped: the advisories could not be fetched");
        return Ok(());
    }
    eprint!("{said}");
    match checked.status.success() {
        true => Ok(()),
        false => Err(Error::internal("there are advisories about dependencies")),
    }
}

/// Adds a part of the toolchain that a minimal installation leaves out.
fn component(subcommand: &str, name: &str) -> Result<()> {
    let there = cargo::cargo(&[subcommand, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if there {
        return Ok(());
    }
    cargo::run(Command::new("rustup").args(["component", "add", name]).current_dir(cargo::workspace()))
        .map_err(|error| error.help(format!("install the toolchain's component `{name}`")))
}
