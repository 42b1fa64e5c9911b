//! `fmail chat`

mod file;
mod follow;
mod printer;
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
    example("fmail chat watch --from-start --timeout 0s notes.md", "everything in another file, then end"),
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
}

impl Chat {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        match self.action {
            Action::Watch(watch) => watch.run(place),
        }
    }
}
