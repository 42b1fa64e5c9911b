//! A million messages beside a thousand: what has to stay as cheap as it was, and what SQLite takes for the same.

mod beside;
mod commands;
mod daemon;
mod rebuild;

use std::path::{Path, PathBuf};
use std::process::Command;

use fmail_api::{Error, Result};

use super::Extent;
use super::report::{Report, thousands};
use super::stage::{Stage, succeed};
use crate::fixture::OWNER;

const FEW: usize = 1_000;
const MANY: usize = 1_000_000;
/// What a first look takes instead.
const QUICK: usize = 10_000;

/// So many messages are unread in the mailbox of the fixture's owner.
const UNREAD: usize = 20;

/// No command may have more of it resident.
const MEGABYTES: f64 = 64.0;

/// Two projects that differ in nothing but their number of messages.
struct Projects {
    few: PathBuf,
    many: PathBuf,
    messages: usize,
}

impl Projects {
    /// The number of messages in the large one, as people write it.
    fn count(&self) -> String {
        thousands(self.messages)
    }
}

/// Adds the rows of these measurements.
pub fn measure(stage: &Stage, extent: &Extent, report: &mut Report) -> Result<()> {
    let messages = if extent.quick { QUICK } else { MANY };
    let projects = Projects { few: project(stage, "few", FEW)?, many: project(stage, "many", messages)?, messages };
    commands::measure(stage, &projects, extent.rounds, report)?;
    beside::measure(stage, &projects, extent.rounds, report)?;
    daemon::measure(stage, &projects, report)?;
    rebuild::measure(stage, &projects, extent, report)
}

/// A project with this many messages, of which a mailbox has a few that are unread.
fn project(stage: &Stage, name: &str, messages: usize) -> Result<PathBuf> {
    let root = stage.project(name, messages)?;
    succeed(&mut owner(stage, &root, &["archive", "--all"]))?;
    for number in 0..UNREAD {
        succeed(&mut stage.fmail(&root, &["send", &format!("@{OWNER}"), &format!("unread {number}")]))?;
    }
    rustix::fs::sync();
    Ok(root)
}

/// A command of the mailbox's owner.
fn owner(stage: &Stage, project: &Path, arguments: &[&str]) -> Command {
    let mut command = stage.fmail(project, arguments);
    command.env("FMAIL_AGENT", OWNER);
    command
}

/// What the command has resident at most, in megabytes.
fn peak(command: &mut Command) -> Result<f64> {
    let output = command.output().map_err(|error| Error::io("measuring the peak memory", &error))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let kilobytes = text.lines().last().and_then(|line| line.trim().parse::<f64>().ok());
    match kilobytes {
        Some(kilobytes) if output.status.success() => Ok(kilobytes / 1_024.0),
        _ => Err(Error::internal(format!("a command whose memory was measured failed: {}", text.trim()))),
    }
}

/// A row with the peak memory of a command, and its goal.
fn add_peak(report: &mut Report, what: &str, megabytes: f64) {
    report.figure(format!("{what}, peak resident memory"), format!("{megabytes:.1} MB"));
    report.goal(&format!("under {MEGABYTES:.0} MB"), megabytes < MEGABYTES);
}
