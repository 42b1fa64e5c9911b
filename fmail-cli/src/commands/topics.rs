//! `fmail topics`

use clap::Args;
use fmail_api::{Request, Response};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note};
use crate::session::{Place, now, unexpected};
use crate::{identity, render, table};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail topics", "each topic, how much is in it, when the last came"),
    example("fmail topics --json", "a JSON array"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Topics {
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

impl Topics {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let session = place.session(identity::anyone(&place.environment)?)?;
        let Response::Topics(topics) = session.call(Request::Topics)?.head else {
            return Err(unexpected().into());
        };
        let mut output = Output::stdout();
        if self.json {
            output.json(&topics)?;
        } else if topics.is_empty() {
            note("no topic has a message yet");
        } else {
            let now = now();
            let row = |topic: &fmail_api::TopicView| {
                [topic.name.clone(), topic.messages.to_string(), render::ago(now.since(topic.last_activity))]
            };
            let rows: Vec<[String; 3]> = topics.iter().map(row).collect();
            for line in table::lines(["TOPIC", "MESSAGES", "LAST ACTIVITY"], &rows) {
                output.line(&line)?;
            }
        }
        output.flush()?;
        if topics.is_empty() {
            place.note_uncopied(&session);
        }
        Ok(())
    }
}
