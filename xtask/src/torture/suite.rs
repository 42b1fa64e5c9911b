//! The fault suites: which test programs each is made of.

use std::fmt;

use clap::ValueEnum;

/// A suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Suite {
    /// kill -9 of senders, daemons and readers at any moment
    Kills,
    /// every operation on the disk fails in turn
    Faults,
    /// every state in which a power cut can leave the disk
    Power,
    /// everything at once on two hosts, for ten minutes
    Soak,
    /// schedules of faults between hosts that relay
    Relay,
}

/// A test program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The package that it belongs to.
    pub package: &'static str,
    /// Its name.
    pub test: &'static str,
}

const fn program(package: &'static str, test: &'static str) -> Program {
    Program { package, test }
}

impl Suite {
    /// All of them, in the order in which they run: the shortest first.
    pub const ALL: [Suite; 5] = [Suite::Faults, Suite::Power, Suite::Kills, Suite::Soak, Suite::Relay];

    /// Whether `--minutes` bounds it.
    pub const fn is_bounded(self) -> bool {
        matches!(self, Suite::Kills | Suite::Soak | Suite::Relay)
    }

    /// What it is made of.
    pub const fn programs(self) -> &'static [Program] {
        const KILLS: &[Program] =
            &[program("fmail-e2e", "kill"), program("fmail-e2e", "daemon_kill"), program("fmail-e2e", "mail_kill")];
        const FAULTS: &[Program] =
            &[program("fmail-backends", "faults"), program("fmail-backends", "groups"), program("fmail-e2e", "strace")];
        const POWER: &[Program] = &[program("fmail-backends", "power")];
        const SOAK: &[Program] = &[program("fmail-e2e", "soak")];
        const RELAY: &[Program] =
            &[program("fmail-transports", "relay_simulation"), program("fmail-relay-tests", "schedules")];
        match self {
            Suite::Kills => KILLS,
            Suite::Faults => FAULTS,
            Suite::Power => POWER,
            Suite::Soak => SOAK,
            Suite::Relay => RELAY,
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Suite::Kills => "kills",
            Suite::Faults => "faults",
            Suite::Power => "power",
            Suite::Soak => "soak",
            Suite::Relay => "relay",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo;

    #[test]
    fn every_program_is_there_and_reports() {
        let directories = ["backends", "tests/e2e", "tests/relay", "transports"];
        for suite in Suite::ALL {
            for Program { package, test } in suite.programs() {
                let manifest = |directory: &&str| {
                    let text = std::fs::read_to_string(cargo::workspace().join(directory).join("Cargo.toml")).unwrap();
                    text.contains(&format!("name = \"{package}\""))
                };
                let directory = directories.iter().find(|directory| manifest(directory)).unwrap();
                let tests = cargo::workspace().join(directory).join("tests");
                let text = sources(&tests.join(format!("{test}.rs"))) + &sources(&tests.join(test));
                assert!(!text.is_empty(), "{package} has no test program {test}");
                assert!(text.contains(&format!("torture {suite}/")) || text.contains("report("), "{test} is silent");
            }
        }
    }

    fn sources(path: &std::path::Path) -> String {
        let Ok(entries) = std::fs::read_dir(path) else { return std::fs::read_to_string(path).unwrap_or_default() };
        entries.map(|entry| sources(&entry.unwrap().path())).collect()
    }
}
