//! `fmail send`

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use fmail_api::{
    AgentName, Error, ErrorKind, Message, Request, Response, Result, SendRequest, Sent, Target, Timestamp, check_key,
    parse_duration,
};
use fmail_host::Route;

use crate::body::Source;
use crate::connected::{self, read_back};
use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, Stop, note};
use crate::render::{self, Style, ago_in_words};
use crate::session::{Place, Session, now, unexpected};
use crate::wait::{Effect, WaitFor, wait};
use crate::{identity, names, since};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail send task \"implement auth\"", "to a topic"),
    example("fmail send @reviewer \"please check PR #42\"", "to an agent"),
    example("cat spec.md | fmail send docs", "from standard input"),
    example("fmail send task --reply-to 0042 \"done\"", "the end of an id is enough"),
    example("fmail send task '{\"action\":\"build\"}'", "JSON stays JSON"),
    example("fmail send @lead -s \"Question\" \"merge now?\" --wait-for reply --timeout 5m", "ask and wait"),
    example("fmail send task -- -1", "a message that starts with a hyphen"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Send {
    /// A topic, or @ and the name of an agent; several separated by commas share one message
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

    /// A title
    #[arg(short, long)]
    subject: Option<String>,

    /// The conversation that it belongs to; an answer joins the one of what it answers
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,

    /// Keep this agent or topic informed; repeatable, or separated by commas
    #[arg(long, value_name = "TOPIC|@AGENT", value_delimiter = ',')]
    cc: Vec<String>,

    /// Ask the recipients for an acknowledgement (`fmail ack`)
    #[arg(long)]
    ack_required: bool,

    /// Of no use after this time (1h, 2d, or a time): then it is no unread mail any more
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,

    /// Sent twice with the same key, the message is stored once: to the same recipients, within a day
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    key: Option<String>,

    /// Stay until every recipient has retrieved, read or acknowledged it, or somebody has answered it
    #[arg(long, value_name = "EFFECT", value_enum)]
    wait_for: Option<WaitFor>,

    /// How long to stay (90s, 5m); the message is stored, and its id printed, in any case
    #[arg(long, value_name = "TIME", default_value = "2m", requires = "wait_for")]
    timeout: String,

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
        let (to, recipients) = targets(&self.to)?;
        let cc = self.cc.iter().map(|text| names::target(text)).collect::<Result<Vec<_>>>()?;
        let timeout = parse_duration(&self.timeout)?;
        let expires = self.expires.as_deref().map(|text| expiry(text, now())).transpose()?;
        check_wait(self.wait_for, to.is_direct() || recipients.iter().any(Target::is_direct))?;
        let priority = self.priority.parse()?;
        let (argument, file) = (self.message.as_deref(), self.file.as_deref());
        let body = Source { argument, file, text: self.text, limit: mail.max_message_bytes }.read()?;
        let mut request = SendRequest {
            reply_to: self.reply_to,
            priority,
            tags: self.tag,
            subject: title(self.subject),
            thread: self.thread.as_deref().map(thread).transpose()?,
            recipients,
            cc,
            ack_required: self.ack_required,
            expires,
            key: self.key,
            strict: self.strict || mail.strict_recipients,
            ..SendRequest::new(to, body)
        };
        // Here and not only by who stores it, so that the answer is the same whoever that is.
        request.key.as_deref().map_or(Ok(()), check_key)?;
        let keyed = request.key.is_some();
        let agent = identity::writer(&place.environment)?;
        // What can be read here need not come over the connection.
        let reads_back = self.json && place.settings.route() == Route::Direct;
        request.echo = self.json && !reads_back;
        let sent = match connected::send(place, &agent, &mut request)? {
            Some(sent) if reads_back => {
                Sent { message: read_back(place, sent.message.id).unwrap_or(sent.message), ..sent }
            }
            Some(sent) => sent,
            None => standalone(place, agent.clone(), request)?,
        };
        if keyed && sent.duplicate {
            note(&format!("its key was used before: nothing new was stored, it is {}", sent.message.id));
        }
        told_and_printed(&sent, self.json)?;
        match self.wait_for {
            Some(effect) => waited(&place.session(agent)?, &sent.message, effect, timeout, self.json),
            None => Ok(()),
        }
    }
}

/// The recipients that a text names, separated by commas.
fn targets(text: &str) -> Result<(Target, Vec<Target>)> {
    let mut targets = text.split(',').map(names::target).collect::<Result<Vec<_>>>()?;
    let first = targets.remove(0);
    Ok((first, targets))
}

/// A title; an empty one is none.
pub(crate) fn title(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

/// The name of a thread. An empty one leads to no thread: it is what a shell makes of a variable that is not set.
fn thread(text: &str) -> Result<String> {
    if text.trim().is_empty() {
        return Err(Error::invalid("the name of the thread is empty")
            .help("name one with --thread NAME, or leave the option out; an answer joins the thread of its message"));
    }
    Ok(text.into())
}

/// When a message is of no use any more: in so long, or at a time.
pub(crate) fn expiry(text: &str, now: Timestamp) -> Result<Timestamp> {
    match parse_duration(text) {
        Ok(time) => Ok(now.after(time).whole_seconds()),
        Err(_) => text.trim().parse::<Timestamp>().map_err(|_| {
            Error::invalid(format!(
                "`{}` is {}neither a length of time nor a time",
                text.escape_debug(),
                since::negative(text)
            ))
            .help("write 90s, 30m, 1h, 2d, or RFC 3339 (2026-01-10T15:30:00Z)")
        }),
    }
}

/// A topic has no recipients that could be waited for.
fn check_wait(wait: Option<WaitFor>, direct: bool) -> Result<()> {
    match wait {
        Some(effect) if effect != WaitFor::Reply && !direct => {
            Err(Error::invalid(format!("nobody in particular has to have {} a message to a topic", effect.as_str()))
                .help("send it to @agents, or wait for a reply"))
        }
        _ => Ok(()),
    }
}

/// Stays until the message has had an effect, and prints what it was.
fn waited(session: &Session, message: &Message, effect: WaitFor, timeout: Duration, json: bool) -> Outcome {
    let mut output = Output::stdout();
    match wait(session, message, effect, timeout)? {
        Effect::Receipt(receipt) if json => output.json(&*receipt)?,
        Effect::Receipt(receipt) => {
            let names: Vec<String> =
                receipt.recipients.iter().filter(|one| !one.cc).map(|one| format!("@{}", one.agent)).collect();
            note(&format!("{} by {}", effect.as_str(), names.join(", ")));
        }
        Effect::Reply(reply) => {
            let style = if json { Style::Json } else { Style::Plain };
            output.line(&render::message(&reply, style, now()))?;
        }
    }
    output.flush()
}

/// Says what became of a message, and prints it or its id.
pub(crate) fn told_and_printed(sent: &Sent, json: bool) -> Outcome {
    // All that is known is told first: whether somebody reads the id must not decide whether it is told.
    tell(sent);
    let durable = sent.not_durable.as_deref().map_or(Ok(()), |reason| Err(not_durable(reason).into()));
    match print(&sent.message, json) {
        Err(Stop::Failed(error)) if durable.is_ok() => Err(not_printed(&sent.message, &error).into()),
        Err(Stop::Failed(error)) => {
            note(not_printed(&sent.message, &error).message());
            durable
        }
        Ok(()) | Err(Stop::ReaderGone | Stop::Nothing) => durable,
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
        note(&format!(
            "stored, but nobody in this project has used the name @{} yet{meant}",
            names::shown(&unknown.name)
        ));
    }
    for behind in &sent.backlog {
        let seen = ago_in_words(now().since(behind.last_seen));
        let name = names::shown(&behind.name);
        note(&format!("stored; @{name} has {} unread, last seen {seen}", behind.unread));
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

/// The message is there, and nobody can say for how long.
pub(crate) fn not_durable(reason: &str) -> Error {
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
