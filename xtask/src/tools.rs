//! The programs that the tests call beside our own.

use std::path::{Path, PathBuf};
use std::process::Command;

use fmail_api::{Error, ErrorKind, Result};

use crate::cargo;

/// A program and the Debian packages that bring it.
struct Tool {
    program: &'static str,
    packages: &'static [&'static str],
    why: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool { program: "git", packages: &["git"], why: "project discovery is tested in real repositories" },
    Tool { program: "jq", packages: &["jq"], why: "SPEC.md's examples use it" },
    Tool { program: "strace", packages: &["strace"], why: "fault injection and the idle test look at system calls" },
    Tool { program: "cc", packages: &["gcc", "libc6-dev"], why: "plugins in C are built, good ones and hostile ones" },
    Tool { program: "c++", packages: &["g++"], why: "the header of the plugin boundary is C++ too" },
    Tool { program: "make", packages: &["make"], why: "the C template is built as its README says" },
    Tool { program: "python3", packages: &["python3"], why: "plugins in Python are run" },
];

/// Makes sure that everything the tests call is there, installing it where that is possible without asking.
pub fn provide() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().flat_map(|tool| tool.packages).copied().collect();
    if may_install() {
        eprintln!("installing {} with apt-get, for the tests", packages.join(", "));
        install(&packages)?;
    }
    let missing = self::missing();
    if missing.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = missing.iter().map(|tool| format!("{} ({})", tool.program, tool.why)).collect();
    Err(Error::new(ErrorKind::NotFound, format!("the tests need programs that are not installed: {}", list.join("; ")))
        .help(format!("on Debian or Ubuntu: sudo apt-get install {}", packages.join(" "))))
}

/// What the tests of relaying use where it can be had: network namespaces, and rules that cut them off. Without it they run on
/// loopback and say so, which is no reason to fail.
pub fn provide_networks() {
    for (program, package) in [("ip", "iproute2"), ("nft", "nftables")] {
        if let Err(error) = obtain(program, &[package], "hosts in networks that fail") {
            eprintln!("{program} is not there, so that hosts are tested on loopback: {error}");
        }
    }
}

/// Where a program is that only one task needs; installed where that is possible without asking, else nothing.
pub fn obtain(program: &str, packages: &[&str], why: &str) -> Result<Option<PathBuf>> {
    if find(program).is_none() {
        install_where_allowed(packages, why)?;
    }
    Ok(find(program))
}

/// Installs Debian packages where that is possible without asking; elsewhere nothing happens.
pub fn install_where_allowed(packages: &[&str], why: &str) -> Result<()> {
    if !may_install() {
        return Ok(());
    }
    eprintln!("installing {} with apt-get, for {why}", packages.join(", "));
    install(packages)
}

fn may_install() -> bool {
    rustix::process::geteuid().is_root() && find("apt-get").is_some()
}

fn missing() -> Vec<&'static Tool> {
    TOOLS.iter().filter(|tool| find(tool.program).is_none()).collect()
}

fn install(packages: &[&str]) -> Result<()> {
    // The package lists may be missing in a fresh container, and out of date elsewhere; a failure to renew them is not
    // a failure to install.
    let _ = cargo::run(apt_get().args(["update", "--quiet", "--quiet"]));
    cargo::run(apt_get().args(["install", "--yes", "--quiet", "--quiet", "--no-install-recommends"]).args(packages))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").stdin(std::process::Stdio::null());
    command
}

/// Where a program is on the search path.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}
