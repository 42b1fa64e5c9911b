//! `fmail chat archive`

use std::path::{Path, PathBuf};

use clap::Args;
use fmail_api::{Error, Event, Query, Result, Since, Timestamp};
use fmail_chat_file::archive::{Archived, Job, Which, archive};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::json;

use super::{file, store};
use crate::output::{Outcome, Output, note};
use crate::session::{Place, now};
use crate::since;

/// How many messages stay unless something else is said.
const KEPT: u64 = 100;
/// Where archives go, beside the file.
const MEMORY: &str = "memory";

#[derive(Args)]
pub(crate) struct Archive {
    /// The chat file; without it .workplace/chat.md, here or in a directory above up to the project's root
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Keep the last N messages; without it and without --before, 100
    #[arg(long, value_name = "N", conflicts_with = "before")]
    keep: Option<u64>,

    /// Move the messages that are older than this: a length of time (2d), a date or a time. The lines of a chat file
    /// have no times; those of the chat store's sidecar are asked
    #[arg(long, value_name = "TIME")]
    before: Option<String>,

    /// The directory to move them to; without it, memory beside the file
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,

    /// Only tell what would be moved
    #[arg(long)]
    dry_run: bool,

    /// Print what was done as a JSON object
    #[arg(long)]
    json: bool,
}

impl Archive {
    pub(crate) fn run(self, place: &Place, set: &[String]) -> Outcome {
        let path = file::path(place, self.file.as_deref());
        if !path.exists() {
            let text = format!("{}: there is no such chat file", path.display());
            return Err(Error::new(fmail_api::ErrorKind::NotFound, text)
                .help("name it: `fmail chat archive FILE`")
                .into());
        }
        let into = match &self.into {
            Some(into) => place.environment.cwd.join(into),
            None => path.with_file_name(MEMORY),
        };
        let which = match &self.before {
            Some(text) => Which::First(older(place, set, &path, point(text)?)?),
            None => Which::AllBut(self.keep.unwrap_or(KEPT)),
        };
        let stamp = stamp(now());
        let timeout = place.settings.mail.lock_timeout;
        let job = Job { file: &path, into: &into, stamp: &stamp, which, dry_run: self.dry_run, timeout };
        let done = archive(&job)?;
        self.tell(&path, &done)
    }

    fn tell(&self, path: &Path, done: &Archived) -> Outcome {
        if let Some(who) = &done.still_open {
            note(&format!(
                "{who} still has the old file open; what it writes there comes over with the next archiving"
            ));
        }
        if self.json {
            let mut output = Output::stdout();
            let shown = |path: &Path| path.display().to_string();
            output.json(&json!({
                "file": shown(path), "archive": done.archive.as_deref().map(shown), "moved": done.moved, "kept": done.kept,
                "late_bytes": done.late, "dry_run": self.dry_run,
            }))?;
            return output.flush();
        }
        let messages = |count: u64| if count == 1 { "1 message".to_string() } else { format!("{count} messages") };
        let (moved, kept) = (messages(done.moved), messages(done.kept));
        match &done.archive {
            Some(archive) => {
                let mut output = Output::stdout();
                output.line(&archive.display().to_string())?;
                output.flush()?;
                note(&format!("moved {moved} from {}, {kept} stay", path.display()));
            }
            None if self.dry_run => note(&format!("would move {moved} from {}, {kept} stay", path.display())),
            None => note(&format!("nothing to move: {} has {kept}", path.display())),
        }
        Ok(())
    }
}

/// The point in time that was named.
fn point(text: &str) -> Result<Timestamp> {
    match since::parse(text, now())? {
        Since::Time(time) => Ok(time),
        _ => Err(Error::invalid(format!("`{text}` is not a point in time")).help("use 2d, 2026-01-10, or `now`")),
    }
}

/// How many messages of the file the chat store has known since before this time. They stand at the top of the file.
fn older(place: &Place, set: &[String], path: &Path, time: Timestamp) -> Result<u64> {
    let chat = store::open(place, set, path)?;
    block_on(async {
        let mut messages = chat.scan(Query { before: Some(time), ..Query::default() }).await?.messages;
        let mut count = 0;
        while let Some(event) = messages.next().await {
            count += u64::from(matches!(event?, Event::Message(_)));
        }
        chat.close().await?;
        Ok(count)
    })
}

/// The time in the archive's name: 20260110-153000.
fn stamp(time: Timestamp) -> String {
    let text = fmail_api::MessageId::at(time).to_string();
    text.get(..15).unwrap_or(&text).to_string()
}
