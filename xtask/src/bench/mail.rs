//! Looking at mail in a small and in a large mailbox: the many messages are archived or read; twenty are unread.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fmail_api::Result;

use super::Extent;
use super::report::{Report, shown, thousands};
use super::stage::{Stage, succeed};
use super::timing::{medians, ratio, time};
use crate::fixture::{self, OWNER};
use crate::install::doing;

const SMALL: usize = 1_000;
const LARGE: usize = 100_000;
/// What a first look takes instead.
const QUICK: usize = 2_000;
const UNREAD: usize = 20;

/// What was done with the many messages, and the command that does it.
const PLACES: [(&str, &str); 2] = [("archived", "archive"), ("read", "mark-read")];

/// Adds the rows of this measurement.
pub fn measure(stage: &Stage, extent: &Extent, report: &mut Report) -> Result<()> {
    let large = if extent.quick { QUICK } else { LARGE };
    let count = thousands(large);
    for (place, mark) in PLACES {
        let (few, _) = project(stage, &format!("mail-{place}-few"), SMALL, mark)?;
        let (many, taken) = project(stage, &format!("mail-{place}-many"), large, mark)?;
        report.figure(format!("`fmail {mark} --all` of {count} messages"), shown(taken));
        let to = format!("@{OWNER}");
        let commands: [(&str, &[&str]); 4] = [
            ("inbox", &["inbox"]),
            ("count", &["count"]),
            ("check", &["check"]),
            ("send to it", &["send", &to, "one more"]),
        ];
        for (what, arguments) in commands {
            let pair = [owner(stage, &few, arguments), owner(stage, &many, arguments)];
            let [little, much] = medians(extent.rounds, pair)?;
            report.figure(format!("`fmail {what}`, 20 unread, 1,000 {place}"), shown(little));
            let grown = ratio(much, little);
            report.compared(format!("`fmail {what}`, 20 unread, {count} {place}"), shown(much), grown, "with 1,000");
            report.goal("at most 2 x", grown <= 2.0);
        }
    }
    Ok(())
}

/// A command of the mailbox's owner; a message to it comes from somebody else.
fn owner(stage: &Stage, project: &Path, arguments: &[&str]) -> std::process::Command {
    let mut command = stage.fmail(project, arguments);
    if arguments[0] != "send" {
        command.env("FMAIL_AGENT", OWNER);
    }
    command
}

/// A project with a mailbox of so many messages, and how long it took to mark them all.
fn project(stage: &Stage, name: &str, messages: usize, mark: &str) -> Result<(PathBuf, Duration)> {
    let root = stage.directory().join(name);
    std::fs::create_dir_all(&root).map_err(doing("creating", &root))?;
    fixture::copy_mailbox(messages, &root)?;
    // The first call indexes what is there.
    succeed(owner(stage, &root, &["count"]).env("FMAIL_ROOT", &root))?;
    let taken = time(&mut owner(stage, &root, &[mark, "--all"]))?;
    for number in 0..UNREAD {
        succeed(&mut owner(stage, &root, &["send", &format!("@{OWNER}"), &number.to_string()]))?;
    }
    rustix::fs::sync();
    Ok((root, taken))
}
