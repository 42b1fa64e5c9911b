//! Mail on a store that keeps its states itself: the operations ask its mailbox instead of fmail's records.

use std::collections::BTreeMap;

use fmail_api::{
    AgentName, Bulk, Context, Error, ErrorKind, Event, Folder, InboxRequest, Mail, MailCount, Mailbox, Mark,
    MarkRequest, Marked, Message, MessageId, ReadRequest, Reply, Response, Result, Since, ThreadRequest, Timestamp,
};
use futures::{StreamExt, stream};

use super::mark::{failed, transition};
use crate::conversation::oldest_first;

/// The mail of one agent, in a mailbox that the store keeps.
pub(super) struct Delegated<'a> {
    mailbox: &'a dyn Mailbox,
    agent: &'a AgentName,
    now: Timestamp,
}

impl<'a> Delegated<'a> {
    pub(super) fn new(mailbox: &'a dyn Mailbox, context: &'a Context, now: Timestamp) -> Self {
        Delegated { mailbox, agent: &context.agent, now }
    }

    pub(super) async fn count(&self) -> Result<MailCount> {
        self.mailbox.count(self.agent).await
    }

    pub(super) async fn inbox(&self, request: &InboxRequest) -> Result<Reply> {
        if request.claim_seconds.is_some() {
            return Err(no_claims());
        }
        let mut mail = self.mailbox.inbox(self.agent, request.folder).await?;
        let since: Box<dyn Fn(&Message) -> bool + Send> = match request.since.clone() {
            None => Box::new(|_| true),
            Some(Since::Time(time)) => Box::new(move |message| message.time >= time.whole_seconds()),
            Some(Since::Id(id)) => Box::new(move |message| message.id > id),
            Some(Since::Cursor(_)) => return Err(Error::unsupported("list mail since a cursor")),
        };
        let of_thread = |mail: &Mail| match &request.thread {
            None => true,
            Some(thread) => mail.message.thread.as_ref() == Some(thread) || mail.message.id.to_string() == *thread,
        };
        mail.retain(|mail| request.from.as_ref().is_none_or(|from| *from == mail.message.from));
        mail.retain(|mail| of_thread(mail) && since(&mail.message));
        let found = mail.len();
        if request.newest {
            mail.reverse();
        }
        mail.truncate(request.limit.unwrap_or(usize::MAX));
        Ok(reply(Response::Mail { more: (found - mail.len()) as u64 }, mail))
    }

    /// All are found before any becomes read: one wrong id changes nothing.
    pub(super) async fn read(&self, request: &ReadRequest) -> Result<Reply> {
        check_token(request.token.as_deref())?;
        let mut mail = Vec::new();
        for text in &request.ids {
            mail.push(self.mailbox.peek(self.agent, self.id_of(text).await?).await?);
        }
        if !request.peek {
            // What the agent has only sent is shown and nothing else: a look must not make it read for its recipient.
            for one in mail.iter_mut().filter(|mail| mail.standing.is_some()) {
                *one = self.mailbox.read(self.agent, one.message.id).await?;
            }
        }
        Ok(reply(Response::Mail { more: 0 }, mail))
    }

    pub(super) async fn mark_named(&self, request: &MarkRequest) -> Result<Vec<Marked>> {
        check_token(request.token.as_deref())?;
        let mut marked = Vec::new();
        for text in &request.ids {
            let verdict = match self.id_of(text).await {
                Ok(id) => self.mark_one(request, id).await,
                Err(error) => Err(error),
            };
            match verdict {
                Err(error) if error.kind().retryable() => return Err(error),
                Err(error) => marked.push(failed(text, error)),
                Ok(verdict) => marked.push(verdict),
            }
        }
        Ok(marked)
    }

    pub(super) async fn mark_bulk(&self, request: &MarkRequest, bulk: &Bulk) -> Result<Vec<Marked>> {
        check_token(request.token.as_deref())?;
        let folders: &[Folder] = match request.mark {
            Mark::Retrieved | Mark::Read => &[Folder::Unread],
            Mark::Unread | Mark::Acknowledged | Mark::Archived => &[Folder::Open],
            Mark::Unarchived => &[Folder::Archived],
            Mark::Deleted => &[Folder::Open, Folder::Archived],
        };
        let fits = |mail: &Mail| {
            bulk.from.as_ref().is_none_or(|from| *from == mail.message.from)
                && bulk.before.is_none_or(|before| mail.message.time < before)
        };
        let mut marked = Vec::new();
        for folder in folders {
            let listed = match folders {
                [only] => self.mailbox.inbox(self.agent, *only).await?,
                _ => self.folder(*folder).await?,
            };
            for mail in listed.into_iter().filter(fits) {
                let verdict = self.mark_one(request, mail.message.id).await?;
                marked.extend((!verdict.already).then_some(verdict));
            }
        }
        Ok(marked)
    }

    async fn mark_one(&self, request: &MarkRequest, id: MessageId) -> Result<Marked> {
        let before = self.mailbox.peek(self.agent, id).await?.state;
        let changed = match request.dry_run {
            true => transition(request.mark, id, &before, None, self.now)?.is_some(),
            false => self.mailbox.mark(self.agent, id, request.mark).await?,
        };
        let was_unread = before.is_open() && !before.is_read();
        Ok(Marked { id: id.to_string(), already: !changed, was_unread, error: None })
    }

    pub(super) async fn thread(&self, request: &ThreadRequest) -> Result<Reply> {
        let text = request.id.trim();
        let named_by_id = text.parse::<MessageId>().is_ok() || is_short_form(text);
        let thread = match named_by_id {
            false => text.to_string(),
            true => match self.thread_of(text).await {
                Ok(thread) => thread,
                // A thread may have a name of digits, and one that nobody has written to is empty.
                Err(error) if error.kind() == ErrorKind::NotFound => text.to_string(),
                Err(error) => return Err(error),
            },
        };
        let mail = self.mailbox.thread(self.agent, &thread).await?;
        let mail = oldest_first(mail, |mail| &mail.message);
        Ok(reply(Response::Thread { thread }, mail))
    }

    /// The mail of a folder. A backend that cannot list what is archived has no such folder to look into; whoever asks
    /// for that folder alone is told so.
    async fn folder(&self, folder: Folder) -> Result<Vec<Mail>> {
        match self.mailbox.inbox(self.agent, folder).await {
            Err(error) if folder == Folder::Archived && error.kind() == ErrorKind::Unsupported => Ok(Vec::new()),
            other => other,
        }
    }

    /// The thread of a message, which may be the first of it.
    async fn thread_of(&self, text: &str) -> Result<String> {
        let id = self.id_of(text).await?;
        let message = self.mailbox.peek(self.agent, id).await?.message;
        Ok(message.thread.clone().unwrap_or_else(|| id.to_string()))
    }

    /// The message that is meant: by its whole id, or among the agent's own by the end of it.
    async fn id_of(&self, text: &str) -> Result<MessageId> {
        let text = text.trim();
        match text.parse() {
            Ok(id) => return Ok(id),
            Err(error) if !is_short_form(text) => return Err(error),
            Err(_) => {}
        }
        let mut found = BTreeMap::new();
        for folder in [Folder::Open, Folder::Archived] {
            let mail = self.folder(folder).await?;
            found.extend(mail.into_iter().map(|mail| (mail.message.id, mail.message.from.clone())));
        }
        found.retain(|id, _| id.ends_with(text));
        match found.len() {
            1 => Ok(found.into_keys().next().unwrap_or(MessageId::MIN)),
            0 => Err(Error::not_found(format!("no message of yours has an id that ends in `{text}`"))
                .help("`fmail inbox --all` shows the ids")),
            _ => {
                let list: Vec<String> = found.iter().map(|(id, from)| format!("{id} (from {from})")).collect();
                let what = format!("`{text}` fits more than one message: {}", list.join(", "));
                Err(Error::new(ErrorKind::Conflict, what).help("write more of the id"))
            }
        }
    }
}

fn reply(head: Response, mail: Vec<Mail>) -> Reply {
    let events = mail.into_iter().map(|mail| Ok(Event::Mail(Box::new(mail))));
    Reply::streaming(head, stream::iter(events.collect::<Vec<_>>()).boxed())
}

fn is_short_form(text: &str) -> bool {
    (1..20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

fn check_token(token: Option<&str>) -> Result<()> {
    token.map_or(Ok(()), |_| Err(no_claims()))
}

fn no_claims() -> Error {
    Error::unsupported("claim messages: it keeps the states of mail itself, and knows no claims")
        .help("read the messages without claiming them, or choose another store")
}
