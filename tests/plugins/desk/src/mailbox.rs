//! The states of mail.

use std::sync::{Arc, PoisonError};

use fmail_plugin::futures::StreamExt;
use fmail_plugin::{
    AgentName, Clock, Error, Event, Flag, Folder, Mail, MailCount, MailState, Mailbox, Mark, Message, MessageId, Query,
    Result, Selection, Store, Timestamp, async_trait,
};

use crate::{Desk, Fault};

impl Desk {
    /// Who a state belongs to.
    fn owner(&self, agent: &AgentName) -> Result<AgentName> {
        if self.fault == Fault::OneStateForAll { "everybody".parse() } else { Ok(agent.clone()) }
    }

    fn mail(&self, agent: &AgentName, message: Arc<Message>) -> Result<Mail> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = states.get(&(self.owner(agent)?, message.id)).cloned().unwrap_or_default();
        let mine = message.targets().iter().any(|target| target.agent() == Some(agent));
        let standing = mine.then(|| state.standing(message.expires, self.clock.now()));
        Ok(Mail { message, state, standing })
    }

    async fn find(&self, agent: &AgentName, query: Query) -> Result<Vec<Mail>> {
        let mut events = self.messages.scan(query).await?.messages;
        let mut found = Vec::new();
        while let Some(event) = events.next().await {
            if let Event::Message(delivery) = event? {
                found.push(self.mail(agent, delivery.message.clone())?);
            }
        }
        Ok(found)
    }

    fn note(&self, agent: &AgentName, id: MessageId, state: MailState) -> Result<()> {
        let owner = self.owner(agent)?;
        self.states.lock().unwrap_or_else(PoisonError::into_inner).insert((owner, id), state);
        Ok(())
    }

    async fn answer(&self) {
        if self.fault == Fault::Hangs {
            std::future::pending::<()>().await;
        }
    }

    /// What nobody has kept is gone for good.
    async fn forget(&self, message: &Message) -> Result<()> {
        let gone = |agent: &AgentName| {
            let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
            states.get(&(agent.clone(), message.id)).is_some_and(|state| state.deleted.is_some())
        };
        if message.targets().iter().all(|target| target.agent().is_some_and(gone)) {
            let selection = Selection { ids: [message.id].into(), ..Selection::default() };
            let mut removed = self.messages.remove(selection).await?;
            while let Some(one) = removed.next().await {
                one?;
            }
        }
        Ok(())
    }
}

/// The state behind a mark; nothing when it was so already.
fn marked(state: &MailState, mark: Mark, now: Timestamp) -> Option<MailState> {
    let set = |flag: Option<Flag>, to: bool| Some(Flag::changed(flag, to, now));
    let archived = state.archived.is_some_and(|flag| flag.set);
    let read = || MailState {
        read: set(state.read, true),
        first_read: state.first_read.or(Some(now)),
        retrieved: state.retrieved.or(Some(now)),
        ..state.clone()
    };
    match mark {
        Mark::Retrieved => state.retrieved.is_none().then(|| MailState { retrieved: Some(now), ..state.clone() }),
        Mark::Read => (!state.is_read()).then(read),
        Mark::Unread => state.is_read().then(|| MailState { read: set(state.read, false), ..state.clone() }),
        Mark::Acknowledged => state.acknowledged.is_none().then(|| MailState { acknowledged: Some(now), ..read() }),
        Mark::Archived => (!archived).then(|| MailState { archived: set(state.archived, true), ..state.clone() }),
        Mark::Unarchived => archived.then(|| MailState { archived: set(state.archived, false), ..state.clone() }),
        Mark::Deleted => state.deleted.is_none().then(|| MailState { deleted: Some(now), ..state.clone() }),
    }
}

fn stands_in(state: &MailState, folder: Folder) -> bool {
    match folder {
        Folder::Unread => state.is_open() && !state.is_read(),
        Folder::Open => state.is_open(),
        Folder::Archived => !state.is_open() && state.deleted.is_none(),
    }
}

#[async_trait]
impl Mailbox for Desk {
    async fn inbox(&self, agent: &AgentName, folder: Folder) -> Result<Vec<Mail>> {
        self.answer().await;
        let mine = match self.fault {
            Fault::EverybodysMail => Query::default(),
            _ => Query::target(format!("@{agent}").parse()?),
        };
        let mut mail = self.find(agent, mine).await?;
        if mail.is_empty() && self.fault == Fault::EmptyIsAnError {
            return Err(Error::not_found(format!("{agent} has no mailbox")));
        }
        mail.retain(|mail| stands_in(&mail.state, folder));
        match self.fault {
            Fault::NewestFirst => mail.reverse(),
            Fault::ListingReads => {
                for one in &mail {
                    self.mark(agent, one.message.id, Mark::Read).await?;
                }
            }
            Fault::LosesTheSubject => {
                for one in &mut mail {
                    one.message = Arc::new(Message { subject: None, ..(*one.message).clone() });
                }
            }
            _ => {}
        }
        Ok(mail)
    }

    async fn peek(&self, agent: &AgentName, id: MessageId) -> Result<Mail> {
        self.answer().await;
        let found = self.find(agent, Query { ids: [id].into(), ..Query::default() }).await?;
        let mine = found.into_iter().find(|mail| mail.message.readable_by(agent));
        let unknown = || match self.fault {
            Fault::UnknownIsADefect => Error::internal(format!("where is {id}?")),
            _ => Error::not_found(format!("there is no message {id} on the desk of {agent}")),
        };
        let mail = mine.ok_or_else(unknown)?;
        if self.fault == Fault::PeekingReads {
            let after = marked(&mail.state, Mark::Read, self.clock.now());
            after.map_or(Ok(()), |after| self.note(agent, id, after))?;
        }
        Ok(mail)
    }

    async fn read(&self, agent: &AgentName, id: MessageId) -> Result<Mail> {
        match self.fault {
            Fault::ReadingIsForgotten => return self.peek(agent, id).await,
            Fault::ReadingArchives => drop(self.mark(agent, id, Mark::Archived).await?),
            _ => {}
        }
        self.mark(agent, id, Mark::Read).await?;
        self.peek(agent, id).await
    }

    async fn mark(&self, agent: &AgentName, id: MessageId, mark: Mark) -> Result<bool> {
        let mail = self.peek(agent, id).await?;
        let Some(after) = marked(&mail.state, mark, self.clock.now()) else {
            return Ok(self.fault == Fault::EveryMarkChanges);
        };
        if self.fault == Fault::MarksAreForgotten && mark != Mark::Read {
            return Ok(true);
        }
        self.note(agent, id, after)?;
        if mark == Mark::Deleted {
            self.forget(&mail.message).await?;
        }
        Ok(true)
    }

    async fn count(&self, agent: &AgentName) -> Result<MailCount> {
        self.answer().await;
        let mail = self.find(agent, Query::target(format!("@{agent}").parse()?)).await?;
        let number = |folder| mail.iter().filter(|mail| stands_in(&mail.state, folder)).count() as u64;
        let archived = if self.fault == Fault::CountsTheArchive { number(Folder::Archived) } else { 0 };
        Ok(MailCount { total: number(Folder::Open) + archived, unread: number(Folder::Unread), ..MailCount::default() })
    }

    async fn thread(&self, agent: &AgentName, thread: &str) -> Result<Vec<Mail>> {
        self.answer().await;
        let mut mail = Vec::new();
        if let Ok(first) = thread.parse::<MessageId>() {
            mail.extend(self.find(agent, Query { ids: [first].into(), ..Query::default() }).await?);
        }
        mail.extend(self.find(agent, Query { thread: Some(thread.into()), ..Query::default() }).await?);
        if mail.is_empty() && self.fault == Fault::NoThreadIsAnError {
            return Err(Error::not_found(format!("there is no thread {thread:?}")));
        }
        if self.fault != Fault::ThreadOfEverybody {
            mail.retain(|mail| mail.message.readable_by(agent));
        }
        Ok(mail)
    }
}
