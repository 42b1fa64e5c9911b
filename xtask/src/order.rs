//! `cargo xtask order`: which functions of `fmail` lie side by side.
//!
//! The kernel maps a program in pieces when they are touched, so that it starts the faster the closer together lies what a
//! command runs. What that is, valgrind tells: it names every function that was entered. The names go into a linker script
//! that `fmail-cli/build.rs` uses, without the hashes in them, which differ from compiler to compiler.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use fmail_api::{Error, ErrorKind, Result};

use crate::{cargo, tools};

/// Write fmail-cli/startup.ld, the functions that fmail's everyday commands run
#[derive(Debug, clap::Args)]
pub struct Order {}

/// What agents run all day, the most frequent first.
const COMMANDS: &[&[&str]] = &[
    &["send", "task", "implement user auth"],
    &["send", "@agent", "on it"],
    &["log", "task", "-n", "20"],
    &["log", "--json"],
    &["inbox"],
    &["check"],
    &["topics"],
    &["who"],
    &["status", "working"],
    &["watch", "--timeout", "1ms"],
];

/// Where the order is kept.
const SCRIPT: &str = "fmail-cli/startup.ld";

impl Order {
    /// Builds, looks at each command, writes.
    pub fn run(&self) -> Result<()> {
        let missing = || {
            Error::new(ErrorKind::NotFound, "valgrind is not installed, which sees the functions that a program runs")
                .help("on Debian or Ubuntu: sudo apt-get install valgrind")
        };
        let valgrind = tools::obtain("valgrind", &["valgrind"], "the order of functions")?.ok_or_else(missing)?;
        let fmail = cargo::build_release_of(&["fmail-cli"])?;
        let project = tempfile::tempdir().map_err(|error| Error::io("a directory for a project", &error))?;
        let mut known = BTreeSet::new();
        let mut patterns = Vec::new();
        for command in COMMANDS {
            let profile = project.path().join("profile");
            entered(&valgrind, &fmail, command, project.path(), &profile)?;
            let text = std::fs::read_to_string(&profile).map_err(|error| Error::io("valgrind's profile", &error))?;
            let run: BTreeSet<String> = text.lines().filter_map(function).map(pattern).collect();
            patterns.extend(run.into_iter().filter(|pattern| known.insert(pattern.clone())));
        }
        let path = cargo::workspace().join(SCRIPT);
        std::fs::write(&path, script(&patterns)).map_err(|error| Error::io(path.display(), &error))?;
        println!("{SCRIPT}: {} functions", patterns.len());
        Ok(())
    }
}

/// Runs a command of fmail under valgrind.
fn entered(valgrind: &Path, fmail: &Path, command: &[&str], project: &Path, profile: &Path) -> Result<()> {
    let mut run = Command::new(valgrind);
    run.args(["--quiet", "--tool=callgrind", "--demangle=no"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(fmail)
        .args(command)
        .env("FMAIL_ROOT", project)
        .env("FMAIL_AGENT", "agent")
        .env("HOME", project)
        .stdout(Stdio::null());
    cargo::run(&mut run)
}

/// The name of a function that a line of the profile brings up first. Valgrind counts calls of itself behind a quote.
fn function(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("fn=(").or_else(|| line.strip_prefix("cfn=("))?;
    let name = rest.split_once(") ")?.1;
    let name = name.split_once('\'').map_or(name, |(name, _)| name);
    (name.starts_with("_ZN") || name.starts_with("_R")).then_some(name)
}

/// What stands for this function, whatever compiler and whatever features gave it its hash: `17h` and sixteen digits at its
/// end, or `Cs`, some characters and `_` before the name of each crate.
fn pattern(name: &str) -> String {
    if let Some((path, _)) = name.strip_suffix('E').and_then(|name| name.rsplit_once("17h")) {
        return format!("{path}17h*E");
    }
    let mut pattern = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("Cs") {
        pattern.push_str(before);
        pattern.push_str("Cs");
        rest = after;
        // A hash ends at `_`, and the length of the crate's name follows.
        if let Some((hash, behind)) = after.split_once('_')
            && hash.chars().all(|c| c.is_ascii_alphanumeric())
            && behind.starts_with(|c: char| c.is_ascii_digit())
        {
            pattern.push_str("*_");
            rest = behind;
        }
    }
    pattern + rest
}

/// The linker script: it adds to the one that the linker has. What a command runs that those before it do not lies behind
/// theirs. What the compiler takes for rarely used stands in `.text.unlikely`.
fn script(patterns: &[String]) -> String {
    let mut text = String::from(
        "/* What fmail's everyday commands run, side by side; see build.rs. Written by `cargo xtask order`. */\n\
         SECTIONS {\n  .text.startup : {\n",
    );
    for pattern in patterns {
        text.push_str(&format!("    *(.text*.{pattern})\n"));
    }
    text + "  }\n}\nINSERT BEFORE .text;\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_from_a_profile() {
        assert_eq!(
            function("fn=(12) _ZN3std2rt10lang_start17h0123456789abcdefE"),
            Some("_ZN3std2rt10lang_start17h0123456789abcdefE")
        );
        assert_eq!(function("cfn=(7) _RNvC4core3abc'2"), Some("_RNvC4core3abc"));
        for other in ["fn=(12)", "fn=(3) memcpy", "calls=1 0", "fl=(1) ???"] {
            assert_eq!(function(other), None, "{other}");
        }
    }

    #[test]
    fn a_pattern_has_no_hash_of_one_compiler() {
        assert_eq!(pattern("_ZN3std2rt10lang_start17h0123456789abcdefE"), "_ZN3std2rt10lang_start17h*E");
        assert_eq!(
            pattern("_RINvNtCsgEmfK2I1SDS_4core3ptr13drop_in_placeNtNtCsjrHSEGnQ3l9_3std2io5errorEBM_"),
            "_RINvNtCs*_4core3ptr13drop_in_placeNtNtCs*_3std2io5errorEBM_"
        );
    }

    #[test]
    fn the_script_adds_to_the_linkers_own() {
        let text = script(&["_ZN1a17h*E".to_string()]);
        assert!(text.contains("    *(.text*._ZN1a17h*E)\n") && text.ends_with("INSERT BEFORE .text;\n"), "{text}");
    }
}
