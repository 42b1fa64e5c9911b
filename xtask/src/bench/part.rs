//! What `cargo xtask bench` consists of: each part measures by itself and has a table of its own.

use fmail_api::Result;

use super::report::Report;
use super::stage::Stage;
use super::{Extent, commands, daemon, mail, mcp, million, plugins, relay};
use crate::cargo;

/// A part, by the name that `--only` knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Part {
    /// Commands as whole processes: sending, watching, eight writers
    Commands,
    /// The daemon beside Redis and NATS
    Daemon,
    /// From host to host, beside NATS
    Relay,
    /// Agents that write to each other over MCP
    Mcp,
    /// What the boundary to a plugin costs, and stores beside each other
    Plugins,
    /// Mailboxes with very many messages in them
    Mail,
    /// A million messages beside a thousand, and beside SQLite
    Million,
}

impl Part {
    /// All of them. Those that time single messages come before those that fill the disk.
    pub const ALL: [Part; 7] =
        [Part::Commands, Part::Daemon, Part::Relay, Part::Mcp, Part::Plugins, Part::Mail, Part::Million];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Commands => "commands",
            Part::Daemon => "daemon",
            Part::Relay => "relay",
            Part::Mcp => "mcp",
            Part::Plugins => "plugins",
            Part::Mail => "mail",
            Part::Million => "million",
        }
    }

    /// The line in docs/benchmarks.md behind which its table stands.
    pub fn mark(self) -> String {
        format!("<!-- written by `cargo xtask bench`, part `{}` -->\n", self.name())
    }

    /// Adds its rows.
    pub(super) fn measure(self, stage: &Stage, extent: &Extent, report: &mut Report) -> Result<()> {
        match self {
            Part::Commands => commands::measure(stage, extent, report),
            Part::Daemon => daemon::measure(stage, extent.rounds, report),
            Part::Relay => relay::measure(stage, extent.rounds, report),
            Part::Mcp => mcp::measure(stage, extent, report),
            Part::Plugins => plugins::measure(stage, extent, report),
            Part::Mail => mail::measure(stage, extent, report),
            Part::Million => million::measure(stage, extent, report),
        }
    }

    /// The packages that it needs beside `fmail`.
    const fn packages(self) -> &'static [&'static str] {
        match self {
            Part::Commands | Part::Mail => &[],
            Part::Daemon | Part::Relay => &["forged"],
            Part::Mcp => &["forged", "fmail-http"],
            Part::Plugins => &["fmail-cost", "fmail-sqlite", "fmail-example-rust"],
            Part::Million => &["forged", "fmail-cost", "fmail-sqlite"],
        }
    }
}

/// Builds what these parts need.
pub fn build(parts: &[Part]) -> Result<std::path::PathBuf> {
    let mut packages: Vec<&str> = parts.iter().flat_map(|part| part.packages()).copied().collect();
    packages.sort_unstable();
    packages.dedup();
    // Each by itself, as everywhere: together they would get the features that only the others ask for.
    for package in packages {
        cargo::run(&mut cargo::cargo(&["build", "--release", "--package", package]))?;
    }
    cargo::build_release_of(&["fmail-cli"])
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_part_is_measured_and_has_the_name_that_the_command_line_knows() {
        assert_eq!(Part::value_variants(), Part::ALL);
        for part in Part::ALL {
            assert_eq!(part.to_possible_value().unwrap().get_name(), part.name());
        }
    }
}
