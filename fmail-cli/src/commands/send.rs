//! `fmail send`

use std::path::PathBuf;

use clap::Args;
use fmail_api::{AgentName, Error, ErrorKind, Message, Request, Response, Result, SendRequest, Sent};

use crate::body::Source;
use crate::connected::{self, read_back};
use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, Stop, note};
use crate::session::{Place, unexpected};
use crate::{identity, names};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail send task \"implement auth\"", "to a topic"),
    example("fmail send @reviewer \"please check PR #42\"", "to an agent"),
    example("cat spec.md | fmail send docs", "from standard input"),
    example("fmail send task --reply-to 0042 \"done\"", "the end of an id is enough"),
    example("fmail send task '{\"action\":\"build\"}'", "JSON stays JSON"),
    example("fmail send task -- -1", "a message that starts with a hyphen"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Send {
    /// A topic, or @ and the name of an agent
    #[arg(value_name = "TOPIC|@AGENT")]
    to: String,

    /// The message; JSON becomes a JSON value, everything else is text. Without it, standard input is read
    message: Option<String>,

    /// Read the message from a file; - is standard input
    #[arg(short, long)]
    file: Option<PathBuf>,

    /// The message that this one answers: its id, or the end of its id
    #[arg(short, long, value_name = "ID")]
    reply_to: Option<String>,

    /// How urgent it is: low, normal or high
    #[arg(short, long, default_value = "normal")]
    priority: String,

    /// Label the message; repeatable, or separated by commas
    #[arg(short, long, value_delimiter = ',')]
    tag: Vec<String>,

    /// Take the message as text, even where it is JSON
    #[arg(long)]
    text: bool,

    /// Refuse an agent that nobody in this project has seen, instead of warning
    #[arg(long)]
    strict: bool,

    /// Print the stored message as JSON
    #[arg(long)]
    json: bool,
}

impl Send {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let mail = &place.settings.mail;
        let to = names::target(&self.to)?;
        let priority = self.priority.parse()?;
        let (argument, file) = (self.message.as_deref(), self.file.as_deref());
        let body = Source { argument, file, text: self.text, limit: mail.max_message_bytes }.read()?;
        let mut request = SendRequest {
            reply_to: self.reply_to,
            priority,
            tags: self.tag,
            strict: self.strict || mail.strict_recipients,
            ..SendRequest::new(to, body)
        };
        let agent = identity::writer(&place.environment)?;
        let sent = match connected::send(place, &agent, &mut request)? {
            Some(sent) if self.json => {
                Sent { message: read_back(place, sent.message.id).unwrap_or(sent.message), ..sent }
            }
            Some(sent) => sent,
            None => standalone(place, agent, request)?,
        };
        // All that is known is told first: whether somebody reads the id must not decide whether it is told.
        tell(&sent);
        let durable = sent.not_durable.as_deref().map_or(Ok(()), |reason| Err(not_durable(reason).into()));
        match print(&sent.message, self.json) {
            Err(Stop::Failed(error)) if durable.is_ok() => Err(not_printed(&sent.message, &error).into()),
            Err(Stop::Failed(error)) => {
                note(not_printed(&sent.message, &error).message());
                durable
            }
            Ok(()) | Err(Stop::ReaderGone) => durable,
        }
    }
}

fn print(message: &Message, json: bool) -> Outcome {
    let mut output = Output::stdout();
    if json {
        output.json(message)?;
    } else {
        output.line(&message.id.to_string())?;
    }
    output.flush()
}

/// Stores the message in this process.
fn standalone(place: &Place, agent: AgentName, request: SendRequest) -> Result<Sent> {
    match place.session(agent)?.call(Request::Send(Box::new(request)))?.head {
        Response::Sent(sent) => Ok(*sent),
        _ => Err(unexpected()),
    }
}

/// What the sender should know although the message is stored.
fn tell(sent: &Sent) {
    for unknown in &sent.unknown {
        let near: Vec<String> = unknown.near.iter().map(|name| format!("@{name}")).collect();
        let meant = if near.is_empty() { String::new() } else { format!(" (did you mean {}?)", near.join(" or ")) };
        note(&format!("stored, but nobody in this project has used the name @{} yet{meant}", unknown.name));
    }
    if let Some(agent) = &sent.namesake {
        note(&format!("stored in the topic `{agent}`; to reach the agent write @{agent}"));
    }
    if let (true, Some(id)) = (sent.reply_to_unknown, sent.message.reply_to) {
        note(&format!("stored, but no message that you can read has the id {id}"));
    }
    if let Some(reason) = &sent.agent_not_tracked {
        note(&format!("stored, but the record of {} was not kept up to date: {reason}", sent.message.from));
    }
}

fn not_durable(reason: &str) -> Error {
    Error::new(
        ErrorKind::DurabilityUnknown,
        format!("stored, but it is not known whether the message would survive a power cut: {reason}"),
    )
    .help("do not send it again, it is there; look at the disk")
}

/// The message is there although its id could not be printed. Whoever tries again what failed would send it twice, so
/// this is no failure that may pass.
fn not_printed(message: &Message, error: &Error) -> Error {
    Error::internal(format!("stored as {}, but {error}; do not send it again", message.id))
        .help("the message is there; repair where standard output leads to")
}
