//! `fmail chat watch`

use std::path::PathBuf;

use clap::Args;
use fmail_api::{Error, ErrorKind, Result, parse_duration};
use fmail_chat_file::line::is_name_byte;
use fmail_chat_file::{FollowOptions, Follower, Start};

use super::file;
use super::follow::{Until, follow};
use super::printer::Printer;
use crate::output::Outcome;
use crate::session::Place;

#[derive(Args)]
pub(crate) struct Watch {
    /// The chat file; without it .workplace/chat.md, here or in a directory above up to the project's root
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// First print what is in the file already
    #[arg(long)]
    from_start: bool,

    /// First print what is in the file after this line
    #[arg(long, value_name = "N", conflicts_with = "from_start")]
    since_line: Option<u64>,

    /// Print what is in the file, from its start or after --since-line, and end
    #[arg(long)]
    once: bool,

    /// Print only messages that this agent is the recipient of, or a target
    #[arg(long = "for", value_name = "AGENT")]
    only_for: Option<String>,

    /// Join a message with the indented lines below it; it is printed when the next message comes or the file rests
    #[arg(long)]
    multiline: bool,

    /// End after this time (90s, 5m, 1h); without it, never
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,

    /// End after this many messages
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

impl Watch {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let timeout = self.timeout.as_deref().map(parse_duration).transpose()?;
        let only_for = self.only_for.as_deref().map(agent).transpose()?;
        let path = file::path(place, self.file.as_deref());
        let start = match self.since_line {
            Some(line) => Start::After(line),
            None if self.from_start || self.once => Start::Beginning,
            None => Start::End,
        };
        let settings = &place.settings.mail;
        let defaults = FollowOptions::default();
        let options = FollowOptions {
            start,
            events: settings.watch.events,
            interval: settings.watch.poll_interval,
            // Room for the largest message, whatever stands around it.
            max_line: defaults.max_line.max(settings.max_message_bytes.saturating_mul(2)),
            ..defaults
        };
        let joined = self.multiline.then_some(options.max_line);
        let follower = Follower::open(&path, options)?;
        if self.once && !follower.is_open() {
            let text = format!("{} does not exist", path.display());
            return Err(Error::not_found(text).help("without --once it is waited for").into());
        }
        let until = Until { caught_up: self.once, timeout };
        let count = self.count;
        follow(follower, move || Printer::new(&path, only_for, joined, count), until)
    }
}

/// The name as chat files have it; capitals stay what they are.
fn agent(text: &str) -> Result<String> {
    let name = text.strip_prefix('@').unwrap_or(text);
    if name.is_empty() || !name.bytes().all(is_name_byte) {
        let text = format!("`{}` is no name of a chat file", text.escape_debug());
        return Err(Error::new(ErrorKind::InvalidAgent, text).help("names have letters, digits, - and _ only"));
    }
    Ok(name.to_string())
}
