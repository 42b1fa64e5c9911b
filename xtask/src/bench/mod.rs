//! `cargo xtask bench`: what fmail costs, beside what it could cost.
//!
//! Every comparison is made inside one run, with the things compared taking turns: machines differ and drift, ratios
//! much less. Figures are medians. A goal that is missed is shown as missed and fails nothing.

mod commands;
mod daemon;
mod latency;
mod mail;
mod mcp;
mod million;
mod part;
mod plugins;
mod relay;
mod report;
mod send;
mod stage;
mod timing;
mod writers;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fmail_api::{Error, Result};

pub use part::Part;
use report::Report;
use stage::{Stage, settle};

use crate::cargo;

/// Measure everything beside its rivals, with ratios, and put the tables into docs/benchmarks.md
#[derive(Debug, clap::Args)]
pub struct Bench {
    /// Only these parts; the others keep the tables that they have
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Few rounds and small projects, for a first look; writes nothing
    #[arg(long)]
    quick: bool,
    /// How often each thing that is timed one by one is measured
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Print the tables and leave docs/benchmarks.md as it is
    #[arg(long)]
    no_write: bool,
    /// Part `daemon`
    #[arg(long)]
    daemon: bool,
    /// Part `mail`
    #[arg(long)]
    mail: bool,
    /// Part `plugins`
    #[arg(long)]
    plugins: bool,
    /// Part `mcp`
    #[arg(long)]
    mcp: bool,
    /// Part `relay`
    #[arg(long)]
    relay: bool,
    /// Measure what the tests use, without optimisation: to see whether the measurement works; writes nothing
    #[arg(long, hide = true)]
    unoptimised: bool,
}

/// How much is measured.
pub(crate) struct Extent {
    /// How often what is timed one by one is measured.
    rounds: usize,
    /// How often those whose throughput is compared take turns.
    turns: usize,
    /// Small projects.
    quick: bool,
}

impl Bench {
    /// Builds what is measured, measures part by part, prints and writes the tables.
    ///
    /// A part that fails leaves its table as it is and does not keep the others from being measured; the run fails in the
    /// end.
    pub fn run(&self) -> Result<()> {
        let rounds = self.rounds.unwrap_or(if self.quick { 30 } else { 200 }).max(1);
        let extent = Extent { rounds, turns: if self.quick { 1 } else { 5 }, quick: self.quick };
        let parts = self.parts();
        let fmail = if self.unoptimised { cargo::build_debug()? } else { part::build(&parts)? };
        let (mut missed, mut failed, begun) = (Vec::new(), Vec::new(), Instant::now());
        // Removed when all is measured: a file system may be busy for minutes with what was removed.
        let mut stages = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let name = part.name();
            eprintln!("== {name} ({} of {}, {})", number + 1, parts.len(), shown(begun.elapsed()));
            match self.measure(*part, &fmail, &extent, &mut stages) {
                Ok(report) => missed.extend(report.missed().into_iter().map(|row| format!("{name}: {row}"))),
                Err(error) => {
                    eprintln!("error: {name}: {error}");
                    failed.push(name);
                }
            }
        }
        eprintln!("== measured in {}", shown(begun.elapsed()));
        missed.iter().for_each(|row| eprintln!("goal missed: {row}"));
        match failed.is_empty() {
            true => Ok(()),
            false => Err(Error::internal(format!("these parts could not be measured: {}", failed.join(", ")))),
        }
    }

    /// What was asked for, in the order in which it is measured; everything when nothing was.
    fn parts(&self) -> Vec<Part> {
        let flags = [
            (self.daemon, Part::Daemon),
            (self.mail, Part::Mail),
            (self.plugins, Part::Plugins),
            (self.mcp, Part::Mcp),
            (self.relay, Part::Relay),
        ];
        let chosen = |part: &Part| self.only.contains(part) || flags.contains(&(true, *part));
        let parts: Vec<Part> = Part::ALL.into_iter().filter(chosen).collect();
        if parts.is_empty() { Part::ALL.into() } else { parts }
    }

    /// Measures one part in a place of its own.
    fn measure(&self, part: Part, fmail: &Path, extent: &Extent, stages: &mut Vec<Stage>) -> Result<Report> {
        let stage = stages.push_mut(Stage::with(PathBuf::from(fmail))?);
        // What earlier parts have left to be written is not this one's.
        settle();
        let (mut report, begun) = (Report::default(), Instant::now());
        part.measure(stage, extent, &mut report)?;
        let text = report.text(stage, extent, begun.elapsed());
        println!("## {}\n\n{text}", part.name());
        if !(self.no_write || self.quick || self.unoptimised) {
            report::write(&text, part)?;
        }
        Ok(report)
    }
}

/// A long time.
fn shown(time: Duration) -> String {
    format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: Bench,
    }

    #[test]
    fn everything_is_measured_unless_parts_are_named_one_way_or_the_other() {
        let parts = |words: &[&str]| Line::parse_from([&["bench"], words].concat()).bench.parts();
        assert_eq!(parts(&[]), Part::ALL);
        assert_eq!(parts(&["--quick"]), Part::ALL);
        assert_eq!(parts(&["--mcp"]), [Part::Mcp]);
        assert_eq!(parts(&["--only", "million,commands", "--relay"]), [Part::Commands, Part::Relay, Part::Million]);
        assert!(Line::try_parse_from(["bench", "--only", "nothing"]).is_err());
    }
}
