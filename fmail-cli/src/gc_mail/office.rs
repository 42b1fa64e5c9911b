//! Where the mail of all agents of a project is at hand.
//!
//! An operation acts for one agent; here it can be any. Where commands can open the store, they do, and find a message by its
//! id alone. Where the store lives in the daemon's process, the daemon shows each agent its own mail and nobody
//! all of it: then every agent that it knows is asked in turn. That misses nothing, since a sender may read what it
//! sent and is known from then on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fmail_api::{
    AgentName, Client, Context, Error, ErrorKind, Event, Mail, Message, MessageId, ReadRequest, Reply, Request,
    Response, Result, SendRequest, Sent, ThreadRequest, WhoRequest,
};
use fmail_core::{Operations, oldest_first};
use fmail_host::{Route, SystemClock};
use futures::StreamExt;
use futures::executor::block_on;

use crate::connected::{self, Daemon};
use crate::identity;
use crate::output::notice;
use crate::session::{Place, host, unexpected};

/// The longest chain of answers that is followed up to its beginning.
const LONGEST_CHAIN: usize = 1000;

/// A project's mail.
pub(super) struct Office {
    place: Place,
    /// The operations in this process; nothing where only the daemon has the store.
    here: Option<Arc<Operations>>,
}

impl Office {
    /// Opens the store, or finds out that only a daemon can.
    pub(super) fn open(place: Place) -> Result<Office> {
        let here = match place.settings.route() {
            Route::Daemon => None,
            Route::Direct => Some(place.store()?),
            Route::DaemonFirst => match place.store() {
                Ok(store) => Some(store),
                // Whatever kept us from it need not keep the daemon from it, if there is one.
                Err(error) => match Daemon::answering(&place, &identity::nobody()?)? {
                    Some(_) => None,
                    None => return Err(error),
                },
            },
        };
        let here = here.map(|store| Arc::new(Operations::new(store, Arc::new(SystemClock))));
        Ok(Office { place, here })
    }

    /// The largest message.
    pub(super) fn limit(&self) -> usize {
        self.place.settings.mail.max_message_bytes
    }

    /// Whether only known agents may be written to.
    pub(super) fn strict(&self) -> bool {
        self.place.settings.mail.strict_recipients
    }

    /// Runs an operation for an agent.
    pub(super) fn call(&self, agent: &AgentName, request: Request) -> Result<Reply> {
        match &self.here {
            Some(operations) => {
                let context = Context { host: host(), ..Context::local(agent.clone()) };
                block_on(operations.call(&context, request))
            }
            None => self.place.session(agent.clone())?.call(request),
        }
    }

    /// The same for an operation whose answer is mail.
    pub(super) fn mail(&self, agent: &AgentName, request: Request) -> Result<Vec<Mail>> {
        let mut events = self.call(agent, request)?.events.ok_or_else(unexpected)?;
        let mut mail = Vec::new();
        while let Some(event) = block_on(events.next()) {
            match event? {
                Event::Mail(one) => mail.push(*one),
                Event::Notice(told) => notice(&told),
                _ => {}
            }
        }
        Ok(mail)
    }

    /// Messages with what an agent has done with them. Nothing changes.
    pub(super) fn peek(&self, agent: &AgentName, ids: Vec<String>) -> Result<Vec<Mail>> {
        self.mail(agent, Request::Read(ReadRequest { ids, peek: true, token: None }))
    }

    /// Sends, through the daemon where one makes that quicker.
    pub(super) fn send(&self, from: &AgentName, mut request: SendRequest) -> Result<Sent> {
        // Over a connection the message as it is stored has to be asked for.
        request.echo = true;
        if let Some(sent) = connected::send(&self.place, from, &mut request)? {
            return Ok(sent);
        }
        match self.call(from, Request::Send(Box::new(request)))?.head {
            Response::Sent(sent) => Ok(*sent),
            _ => Err(unexpected()),
        }
    }

    /// The message with this id, whoever it is for.
    pub(super) fn message(&self, id: MessageId) -> Result<Option<Arc<Message>>> {
        if let Some(operations) = &self.here {
            return block_on(operations.message(id));
        }
        for agent in self.known()? {
            match self.peek(&agent, vec![id.to_string()]) {
                Ok(mail) => return Ok(mail.into_iter().next().map(|mail| mail.message)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The name of the thread that a message belongs to.
    pub(super) fn thread_of(&self, message: &Arc<Message>) -> Result<String> {
        if let Some(operations) = &self.here {
            return block_on(operations.thread_named(message.clone()));
        }
        let mut message = message.clone();
        let mut passed = BTreeSet::from([message.id]);
        while passed.len() < LONGEST_CHAIN {
            if let Some(thread) = &message.thread {
                return Ok(thread.clone());
            }
            // Not by their order: what was answered on another host may have a higher id here than the answer.
            let Some(above) = message.reply_to else { break };
            if !passed.insert(above) {
                return Ok(passed.first().unwrap_or(&above).to_string());
            }
            let Some(next) = self.message(above)? else { break };
            message = next;
        }
        Ok(message.id.to_string())
    }

    /// Every message of a thread, the oldest first; by its name or by one of its messages.
    pub(super) fn conversation(&self, thread: &str) -> Result<Vec<Arc<Message>>> {
        if let Some(operations) = &self.here {
            return block_on(operations.conversation(thread));
        }
        let named = match thread.trim().parse() {
            Ok(id) => self.message(id)?,
            Err(_) => None,
        };
        let name = named.map_or(Ok(thread.to_string()), |message| self.thread_of(&message))?;
        let mut found = BTreeMap::new();
        for agent in self.known()? {
            let mail = self.mail(&agent, Request::Thread(ThreadRequest { id: name.clone() }))?;
            found.extend(mail.into_iter().map(|mail| (mail.message.id, mail.message)));
        }
        Ok(oldest_first(found.into_values().collect(), |message| message))
    }

    /// Every agent that has a mailbox.
    pub(super) fn mailboxes(&self) -> Result<Vec<AgentName>> {
        let Some(operations) = &self.here else {
            let store = &self.place.settings.mail.store;
            let what = format!(
                "the mail of all recipients cannot be listed: the store `{store}` lives in forged's process, which \
                 shows each agent its own"
            );
            return Err(Error::new(ErrorKind::Unsupported, what).help("name a recipient, or use another store"));
        };
        block_on(operations.mailboxes())
    }

    /// The agents that have done something in the project.
    pub(super) fn known(&self) -> Result<Vec<AgentName>> {
        let Response::Agents { agents, notices } =
            self.call(&identity::nobody()?, Request::Who(WhoRequest::default()))?.head
        else {
            return Err(unexpected());
        };
        notices.iter().for_each(notice);
        Ok(agents.into_iter().map(|agent| agent.name).collect())
    }
}
