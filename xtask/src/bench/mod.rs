//! `cargo xtask bench`: what fmail costs, beside what it could cost.
//!
//! Every comparison is made inside one run, with the things compared taking turns: machines differ and drift, ratios
//! much less. Figures are medians. A goal that is missed is shown as missed and fails nothing.

mod daemon;
mod latency;
mod mail;
mod mcp;
mod plugins;
mod relay;
mod report;
mod scale;
mod send;
mod stage;
mod timing;
mod writers;

use fmail_api::Result;

use report::{Report, Section};
use stage::Stage;

/// Measure sending, watching, scale, mail, the daemon, plugins, MCP and relaying, with ratios
#[derive(Debug, clap::Args)]
pub struct Bench {
    /// How often each thing is measured
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Few rounds, for a first look
    #[arg(long)]
    quick: bool,
    /// Only what concerns the daemon
    #[arg(long)]
    daemon: bool,
    /// Only what concerns mailboxes
    #[arg(long, conflicts_with_all = ["daemon", "write"])]
    mail: bool,
    /// Only plugins: what the boundary costs, and the sqlite store beside the files
    #[arg(long, conflicts_with_all = ["daemon", "mail"])]
    plugins: bool,
    /// Only MCP: agents that write to each other all at once, beside the raw protocol
    #[arg(long, conflicts_with_all = ["daemon", "mail", "plugins", "rounds"])]
    mcp: bool,
    /// Only relaying: from a send on one host to a watcher on another, beside NATS
    #[arg(long, conflicts_with_all = ["daemon", "mail", "plugins", "mcp"])]
    relay: bool,
    /// Measure what the tests use, without optimisation: to see whether the measurement works
    #[arg(long, hide = true, conflicts_with = "write")]
    unoptimised: bool,
    /// Put the table into docs/benchmarks.md
    #[arg(long, conflicts_with = "daemon")]
    write: bool,
}

impl Bench {
    /// Builds what is measured, measures, prints the table.
    pub fn run(&self) -> Result<()> {
        let rounds = self.rounds.unwrap_or(if self.quick { 30 } else { 200 }).max(1);
        if self.plugins {
            return self.plugins(rounds);
        }
        if self.mcp {
            return self.mcp();
        }
        if self.relay {
            return self.relay(rounds);
        }
        let stage = Stage::set()?;
        let mut report = Report::default();
        if self.mail {
            mail::measure(&stage, rounds, &mut report)?;
            print!("{}", report.text(&stage, rounds));
            return Ok(());
        }
        if !self.daemon {
            send::measure(&stage, rounds, &mut report)?;
            latency::measure(&stage, rounds, &mut report)?;
            writers::measure(&stage, rounds, &mut report)?;
            scale::measure(&stage, rounds, &mut report)?;
            mail::measure(&stage, rounds, &mut report)?;
        }
        daemon::measure(&stage, rounds, &mut report)?;
        let text = report.text(&stage, rounds);
        print!("{text}");
        if self.write { report::write(&text, Section::Main) } else { Ok(()) }
    }

    fn mcp(&self) -> Result<()> {
        let stage = if self.unoptimised { Stage::set_unoptimised()? } else { mcp::build()? };
        let mut report = Report::default();
        let turns = mcp::measure(&stage, self.quick, &mut report)?;
        let text = report.text(&stage, turns);
        print!("{text}");
        if self.write { report::write(&text, Section::Mcp) } else { Ok(()) }
    }

    fn relay(&self, rounds: usize) -> Result<()> {
        let stage = if self.unoptimised { Stage::set_unoptimised()? } else { Stage::set()? };
        let mut report = Report::default();
        relay::measure(&stage, rounds, &mut report)?;
        let text = report.text(&stage, rounds);
        print!("{text}");
        if self.write { report::write(&text, Section::Relay) } else { Ok(()) }
    }

    fn plugins(&self, rounds: usize) -> Result<()> {
        let stage = if self.unoptimised { Stage::set_unoptimised()? } else { plugins::build()? };
        let mut report = Report::default();
        plugins::measure(&stage, rounds, self.quick, &mut report)?;
        let text = report.text(&stage, rounds);
        print!("{text}");
        if self.write { report::write(&text, Section::Plugins) } else { Ok(()) }
    }
}
