//! `fmail reply`

use std::path::PathBuf;

use clap::Args;
use fmail_api::{ReplyRequest, Request, Response};

use super::send;
use crate::body::Source;
use crate::examples::{Example, example, help};
use crate::identity;
use crate::output::Outcome;
use crate::session::{Place, now, unexpected};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail reply 0042 \"done\"", "to the sender, in the same thread"),
    example("fmail reply 0042 --all -f answer.md", "to everyone who has the message"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Reply {
    /// The message that you answer: its id, or the end of its id
    id: String,

    /// The message; JSON becomes a JSON value, everything else is text. Without it, standard input is read
    message: Option<String>,

    /// Read the message from a file; - is standard input
    #[arg(short, long)]
    file: Option<PathBuf>,

    /// Another title than Re: and the one of the message
    #[arg(short, long)]
    subject: Option<String>,

    /// Also to everyone else who has the message, and to its topic
    #[arg(long)]
    all: bool,

    /// How urgent it is: low, normal or high
    #[arg(short, long, default_value = "normal")]
    priority: String,

    /// Label the message; repeatable, or separated by commas
    #[arg(short, long, value_delimiter = ',')]
    tag: Vec<String>,

    /// Ask for an acknowledgement
    #[arg(long)]
    ack_required: bool,

    /// Of no use after this time (1h, 2d, or a time)
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,

    /// Take the message as text, even where it is JSON
    #[arg(long)]
    text: bool,

    /// Print the stored message as JSON
    #[arg(long)]
    json: bool,
}

impl Reply {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let limit = place.settings.mail.max_message_bytes;
        let (argument, file) = (self.message.as_deref(), self.file.as_deref());
        let request = ReplyRequest {
            id: self.id,
            body: Source { argument, file, text: self.text, limit }.read()?,
            subject: send::title(self.subject),
            all: self.all,
            priority: self.priority.parse()?,
            tags: self.tag,
            ack_required: self.ack_required,
            expires: self.expires.as_deref().map(|text| send::expiry(text, now())).transpose()?,
            key: None,
        };
        let agent = identity::writer(&place.environment)?;
        match place.session(agent)?.call(Request::Reply(Box::new(request)))?.head {
            Response::Sent(sent) => send::told_and_printed(&sent, self.json),
            _ => Err(unexpected().into()),
        }
    }
}
