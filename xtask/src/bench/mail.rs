//! Looking at mail in a small and in a large project: the many messages are in topics, or archived or read in the
//! mailbox itself; twenty are unread.

use std::path::{Path, PathBuf};

use fmail_api::Result;

use super::report::{Report, shown};
use super::stage::{Stage, succeed};
use super::timing::{medians, ratio, time};
use crate::fixture::{self, OWNER};
use crate::install::doing;

const SMALL: usize = 1_000;
const LARGE: usize = 100_000;
const UNREAD: usize = 20;

/// Where the many messages are, and the command that puts them there.
const PLACES: [(&str, &str); 3] = [("in topics", "archive"), ("archived", "archive"), ("read", "mark-read")];

/// Adds the rows of this measurement.
pub fn measure(stage: &Stage, rounds: usize, report: &mut Report) -> Result<()> {
    for (number, (place, mark)) in PLACES.iter().enumerate() {
        let mailbox = number > 0;
        let few = project(stage, &format!("mail-{number}-few"), SMALL, mailbox, mark, None)?;
        let many = project(stage, &format!("mail-{number}-many"), LARGE, mailbox, mark, Some(&mut *report))?;
        let to = format!("@{OWNER}");
        let commands: [(&str, &[&str]); 4] = [
            ("inbox", &["inbox"]),
            ("count", &["count"]),
            ("check", &["check"]),
            ("send to it", &["send", &to, "one more"]),
        ];
        for (what, arguments) in commands {
            let [little, much] = medians(rounds, [owner(stage, &few, arguments), owner(stage, &many, arguments)])?;
            report.figure(format!("`fmail {what}`, 20 unread, 1,000 {place}"), shown(little));
            let grown = ratio(much, little);
            report.compared(format!("`fmail {what}`, 20 unread, 100,000 {place}"), shown(much), grown, "with 1,000");
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

fn project(
    stage: &Stage,
    name: &str,
    messages: usize,
    mailbox: bool,
    mark: &str,
    report: Option<&mut Report>,
) -> Result<PathBuf> {
    let root = stage.directory().join(name);
    std::fs::create_dir_all(&root).map_err(doing("creating", &root))?;
    if mailbox {
        fixture::copy_mailbox(messages, &root)?
    } else {
        fixture::copy(messages, &root)?
    }
    // The first call indexes what is there.
    succeed(owner(stage, &root, &["count"]).env("FMAIL_ROOT", &root))?;
    let taken = time(&mut owner(stage, &root, &[mark, "--all"]))?;
    if let Some(report) = report.filter(|_| mailbox) {
        report.figure(format!("`fmail {mark} --all` of 100,000 messages"), shown(taken));
    }
    for number in 0..UNREAD {
        succeed(&mut owner(stage, &root, &["send", &format!("@{OWNER}"), &number.to_string()]))?;
    }
    rustix::fs::sync();
    Ok(root)
}
