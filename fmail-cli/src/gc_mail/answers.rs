//! What each operation does, and what it prints.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use fmail_api::{
    AgentName, Error, ErrorKind, Folder, InboxRequest, Mail, MailCount, Mark, MarkRequest, Message, MessageId,
    ReadRequest, Request, Response, SendRequest, Target,
};
use serde::Serialize;

use super::Failure;
use super::input::{self, Written};
use super::letter::{Letter, recipient};
use super::office::Office;
use super::usage::Operation;
use crate::commands::send;
use crate::output::notice;
use crate::session::unexpected;

type Answer<T = String> = Result<T, Failure>;

/// Runs an operation; what it prints.
pub(super) fn answer(office: &Office, operation: Operation, argument: &str) -> Answer {
    match operation {
        Operation::EnsureRunning => office.known().map(|_| String::new()).map_err(Failure::from),
        Operation::Send => sent(office, AgentName::from_foreign(argument)?, None),
        Operation::Reply => replied(office, &meant(office, argument)?.message),
        Operation::Get => got(office, &meant(office, argument)?),
        Operation::Read => read(office, &meant(office, argument)?),
        Operation::MarkRead => marked(office, &meant(office, argument)?, Mark::Read),
        Operation::MarkUnread => marked(office, &meant(office, argument)?, Mark::Unread),
        Operation::Archive => marked(office, &meant(office, argument)?, Mark::Archived),
        Operation::Inbox | Operation::Check => listed(office, argument, Folder::Unread),
        Operation::All => listed(office, argument, Folder::Open),
        Operation::Thread => conversation(office, argument),
        Operation::Count => counted(office, argument),
    }
}

/// A message, and for whom something is to be done with it.
struct Meant {
    message: Arc<Message>,
    /// Nobody, when it stands in topics only.
    recipient: Option<AgentName>,
}

impl Meant {
    fn recipient(&self) -> Result<&AgentName, Error> {
        let to_nobody = || {
            let what =
                format!("{} is a message of the topic `{}`, in nobody's mailbox", self.message.id, self.message.to);
            Error::invalid(what)
                .help("`get` shows it; what an agent has done with it is noted by `fmail read` and `fmail ack`")
        };
        self.recipient.as_ref().ok_or_else(to_nobody)
    }
}

/// The message that is meant by an id, or by an id with `@` and a recipient behind it. What is no id of fmail's is no
/// message.
fn meant(office: &Office, text: &str) -> Answer<Meant> {
    let no_message = || {
        let what = format!("there is no message `{}`", text.escape_debug());
        Failure::NoMessage(Error::not_found(what).help("ids are written in full, as `inbox` and `all` print them"))
    };
    let (id, copy) = text.split_once('@').map_or((text, None), |(id, copy)| (id, Some(copy)));
    let id: MessageId = id.parse().map_err(|_| no_message())?;
    let message = office.message(id)?.ok_or_else(no_message)?;
    let recipient = match copy {
        None => recipient(&message),
        Some(name) => {
            let named = message.targets().into_iter().filter_map(|target| target.agent().cloned());
            Some(named.into_iter().find(|agent| agent.as_str() == name).ok_or_else(no_message)?)
        }
    };
    Ok(Meant { message, recipient })
}

fn sent(office: &Office, to: AgentName, above: Option<&Arc<Message>>) -> Answer {
    let Written { from, subject, body, extra } = input::read(io::stdin().lock(), office.limit())?;
    let request = SendRequest {
        subject: subject.or_else(|| above?.subject.as_deref().map(answer_to)),
        reply_to: above.map(|message| message.id.to_string()),
        thread: above.map(|message| office.thread_of(message)).transpose()?,
        // Whom somebody answers is known, whatever has become of its record.
        strict: office.strict() && above.is_none(),
        extra,
        ..SendRequest::new(Target::Agent(to), body)
    };
    let sent = office.send(&from, request)?;
    if let Some(reason) = &sent.not_durable {
        return Err(send::not_durable(reason).context("stored as", sent.message.id).into());
    }
    let message = Arc::new(sent.message);
    object(&letter(office, &message, recipient(&message).as_ref(), false)?)
}

/// An answer goes to the sender, whoever gives it.
fn replied(office: &Office, original: &Arc<Message>) -> Answer {
    sent(office, original.from.clone(), Some(original))
}

/// The subject of an answer that has none of its own. One `Re:` is enough.
fn answer_to(subject: &str) -> String {
    match subject.get(..3) {
        Some(start) if start.eq_ignore_ascii_case("re:") => subject.into(),
        _ => format!("Re: {subject}"),
    }
}

fn got(office: &Office, meant: &Meant) -> Answer {
    let Some(recipient) = &meant.recipient else {
        return object(&letter(office, &meant.message, None, false)?);
    };
    let mail = only(office.peek(recipient, vec![meant.message.id.to_string()]))?;
    if mail.state.deleted.is_some() {
        return Err(gone(&mail.message));
    }
    object(&letter_of(office, &mail, recipient)?)
}

fn read(office: &Office, meant: &Meant) -> Answer {
    let recipient = meant.recipient()?;
    let request = ReadRequest { ids: vec![meant.message.id.to_string()], peek: false, token: None };
    let mail = only(office.mail(recipient, Request::Read(request)))?;
    object(&letter_of(office, &mail, recipient)?)
}

/// Notes something about a message for its recipient. That it is read or unread already is fine; archiving twice is told.
fn marked(office: &Office, meant: &Meant, mark: Mark) -> Answer {
    let id = meant.message.id.to_string();
    let request = MarkRequest { mark, ids: vec![id.clone()], bulk: None, token: None, dry_run: false };
    let Response::Marked(marked) = office.call(meant.recipient()?, Request::Mark(request))?.head else {
        return Err(unexpected().into());
    };
    let verdict = marked.into_iter().next().ok_or_else(unexpected)?;
    match verdict.error {
        Some(error) => Err(missing(error)),
        None if verdict.already && mark == Mark::Archived => Err(Failure::AlreadyArchived(id)),
        None => Ok(String::new()),
    }
}

/// The mail of a recipient, or of all of them. Who asks need not be the recipient, so nothing is noted by it.
fn listed(office: &Office, recipient: &str, folder: Folder) -> Answer {
    let request = InboxRequest { folder, peek: true, ..InboxRequest::default() };
    let mut letters = Vec::new();
    for agent in recipients(office, recipient)? {
        for mail in office.mail(&agent, Request::Inbox(request.clone()))? {
            letters.push(letter_of(office, &mail, &agent)?);
        }
    }
    letters.sort_by(|one, two| one.place().cmp(&two.place()));
    list(&letters)
}

fn counted(office: &Office, recipient: &str) -> Answer {
    let mut sum = MailCount::default();
    for agent in recipients(office, recipient)? {
        let Response::Counted { count, notices } = office.call(&agent, Request::Count)?.head else {
            return Err(unexpected().into());
        };
        notices.iter().for_each(notice);
        sum = MailCount { total: sum.total + count.total, unread: sum.unread + count.unread, ..MailCount::default() };
    }
    object(&sum)
}

/// All messages of a thread, each as its recipient has it.
fn conversation(office: &Office, thread: &str) -> Answer {
    if thread.trim().is_empty() {
        return Err(Error::invalid("no thread is named")
            .help("give its name, or the id of one of its messages")
            .into());
    }
    // A copy's id leads to the same thread.
    let name =
        thread.split_once('@').map_or(thread, |(id, _)| if id.parse::<MessageId>().is_ok() { id } else { thread });
    let messages = office.conversation(name)?;
    let mut of_agent: BTreeMap<AgentName, BTreeSet<MessageId>> = BTreeMap::new();
    for message in &messages {
        if let Some(agent) = recipient(message) {
            of_agent.entry(agent).or_default().insert(message.id);
        }
    }
    let mut read = BTreeMap::new();
    for (agent, ids) in of_agent {
        let mail = office.peek(&agent, ids.iter().map(ToString::to_string).collect())?;
        read.extend(mail.into_iter().map(|mail| (mail.message.id, mail.state.is_read())));
    }
    let shown = |message: &Arc<Message>| {
        let reader = recipient(message);
        letter(office, message, reader.as_ref(), read.get(&message.id).copied().unwrap_or_default())
    };
    list(&messages.iter().map(shown).collect::<Answer<Vec<Letter>>>()?)
}

/// Whose mail is meant: one recipient's, or everybody's when the name is empty.
fn recipients(office: &Office, recipient: &str) -> Answer<Vec<AgentName>> {
    match recipient {
        "" => Ok(office.mailboxes()?),
        name => Ok(vec![AgentName::from_foreign(name)?]),
    }
}

fn letter_of(office: &Office, mail: &Mail, reader: &AgentName) -> Answer<Letter> {
    letter(office, &mail.message, Some(reader), mail.state.is_read())
}

fn letter(office: &Office, message: &Arc<Message>, reader: Option<&AgentName>, read: bool) -> Answer<Letter> {
    Ok(Letter::new(message, reader, read, office.thread_of(message)?))
}

/// The one message of an answer.
fn only(mail: Result<Vec<Mail>, Error>) -> Answer<Mail> {
    mail.map_err(missing)?.into_iter().next().ok_or_else(|| unexpected().into())
}

/// It was there a moment ago, or its recipient has deleted it: whoever asks for it is told that it is not there.
fn missing(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => Failure::NoMessage(error),
        _ => Failure::Other(error),
    }
}

fn gone(message: &Message) -> Failure {
    Failure::NoMessage(Error::not_found(format!("the message {} has been deleted", message.id)))
}

fn object(value: &impl Serialize) -> Answer {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::internal(format!("an answer has no JSON form: {error}")))?;
    Ok(format!("{text}\n"))
}

/// An empty list is no output: callers take `[]` for something else than nothing.
fn list(letters: &[Letter]) -> Answer {
    if letters.is_empty() { Ok(String::new()) } else { object(&letters) }
}
