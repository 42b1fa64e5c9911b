//! `fmail chat`

mod archive;
mod bridge;
mod file;
mod follow;
mod printer;
mod store;
mod watch;

use clap::{Args, Subcommand};

use crate::examples::{Example, example, help};
use crate::output::Outcome;
use crate::session::Place;

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail chat watch", "messages in .workplace/chat.md as they come, one JSON object a line"),
    example(
        "fmail chat watch --for $FMAIL_AGENT -c 1 --timeout 5m",
        "wait for the next one to you, or that you shall see",
    ),
    example("fmail chat watch --since-line 42", "what came after line 42, then what comes"),
    example("fmail chat watch --once notes.md", "what is in another file, then end"),
    example("fmail chat archive --keep 200", "move all but the last 200 messages to .workplace/memory"),
    example("fmail chat bridge", "chat-file agents and fmail agents talk to each other while this runs"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Chat {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print the messages of a chat file as they are written, one JSON object a line
    ///
    /// Each object has timestamp (when the message was seen), sender, recipient, broadcast, message and line_number, and is
    /// printed as soon as its line is in the file. What is no message is skipped. The file may be missing, truncated, moved
    /// away, deleted or saved by an editor: the watch goes on, and repeats nothing. Ends with 0 on timeout, when the count
    /// is reached, and when interrupted.
    Watch(watch::Watch),
    /// Move old messages out of a chat file, to .workplace/memory
    ///
    /// Prints the path of the archive. Others may append meanwhile, with fmail or with `echo >>`: nothing is lost. What
    /// stands above the first message stays; continuation lines and comments below a message go with it.
    Archive(archive::Archive),
    /// Keep a chat file and this project in step, both ways
    ///
    /// Lines of the file become direct messages of the project, and direct messages become lines, so that a team can move
    /// from one to the other one agent at a time. Topics are not brought over. Runs until it is interrupted; it may be
    /// killed and started again at any time. Needs the plugin `chat`.
    Bridge(bridge::BridgeCommand),
}

impl Chat {
    pub(crate) fn run(self, place: &Place, set: &[String]) -> Outcome {
        match self.action {
            Action::Watch(watch) => watch.run(place),
            Action::Archive(archive) => archive.run(place, set),
            Action::Bridge(bridge) => bridge.run(place, set),
        }
    }
}
