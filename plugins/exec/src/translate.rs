//! A script's messages as messages of fmail.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fmail_api::{
    AgentName, Error, ErrorKind, Flag, Mail, MailState, Message, MessageId, Notice, NoticeKind, Recipients, Result,
    Target, Timestamp,
};
use fmail_core::{FOREIGN_ID, IdMap};
use serde_json::Value;

use crate::arrivals::{Arrival, number_of};
use crate::backend::agent_of;
use crate::foreign::Foreign;
use crate::script::excerpt_of;
use crate::store::Inner;

/// The field of a message with what a script tells beyond what fmail knows.
const FOREIGN: &str = "foreign";
/// The field with the script's id of an answered message that is not known to it any more.
const FOREIGN_REPLY_TO: &str = "foreign_reply_to";

/// A message with the states that the script keeps.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub message: Arc<Message>,
    pub read: bool,
    pub archived: bool,
    pub acknowledged: bool,
}

/// The ids of fmail's for those of the script, and what never changes about messages that were seen.
pub(crate) struct Translator {
    pub ids: IdMap,
    known: Mutex<HashMap<String, Option<MessageId>>>,
    owners: Mutex<HashMap<MessageId, Vec<AgentName>>>,
}

impl Translator {
    pub(crate) fn new(ids: IdMap) -> Self {
        Translator { ids, known: Mutex::default(), owners: Mutex::default() }
    }

    /// Whose mailbox a message is in, when it was seen.
    pub(crate) fn owners(&self, id: MessageId) -> Option<Vec<AgentName>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    async fn id_of(&self, foreign: &Foreign) -> Result<MessageId> {
        if let Some(Some(id)) = self.cached(&foreign.id) {
            return Ok(id);
        }
        let id = self.ids.id_of(&foreign.id, time_of(foreign)).await?;
        self.keep(&foreign.id, Some(id));
        Ok(id)
    }

    fn cached(&self, foreign: &str) -> Option<Option<MessageId>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(foreign).copied()
    }

    fn keep(&self, foreign: &str, id: Option<MessageId>) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(foreign.into(), id);
    }
}

fn time_of(foreign: &Foreign) -> Timestamp {
    foreign.created.unwrap_or(Timestamp::from_unix(0, 0))
}

impl Inner {
    /// Translates messages, the oldest first, and notes their arrival. One that cannot be told is left out with a notice.
    pub(crate) async fn translated(
        &self,
        mut foreign: Vec<Foreign>,
        mailbox: Option<&AgentName>,
    ) -> Result<(Vec<Told>, Vec<Notice>)> {
        foreign.sort_by_key(time_of);
        let (mut told, mut notices, mut arrivals) = (Vec::new(), Vec::new(), Vec::new());
        // First all ids, so that answers within the list find what they answer.
        for message in &foreign {
            self.translator.id_of(message).await?;
        }
        for message in foreign {
            let name = message.id.clone();
            match self.told(message, mailbox).await {
                Ok(one) => {
                    let owner = mailbox.or(one.message.to.agent());
                    arrivals.extend(owner.map(|owner| Arrival { id: one.message.id, mailbox: number_of(owner) }));
                    told.push(one);
                }
                Err(error) if error.kind() == ErrorKind::InvalidAgent => {
                    let text =
                        format!("the message `{}` of the mail script is left out: {error}", excerpt_of(&name, 60));
                    notices.push(Notice::new(NoticeKind::Broken, text));
                }
                Err(error) => return Err(error),
            }
        }
        self.arrivals.add(&arrivals)?;
        Ok((told, notices))
    }

    /// The same for one message, which has to be told.
    pub(crate) async fn one(&self, foreign: Foreign, mailbox: Option<&AgentName>) -> Result<Told> {
        let told = self.told(foreign, mailbox).await?;
        if let Some(owner) = mailbox.or(told.message.to.agent()) {
            self.arrivals.add(&[Arrival { id: told.message.id, mailbox: number_of(owner) }])?;
        }
        Ok(told)
    }

    /// A message of the script's; `mailbox` is where it was found, when it was found in one.
    async fn told(&self, foreign: Foreign, mailbox: Option<&AgentName>) -> Result<Told> {
        let id = self.translator.id_of(&foreign).await?;
        let to = match (foreign.to.as_str(), mailbox) {
            ("", Some(mailbox)) => mailbox.clone(),
            (name, _) => agent_of(name)?,
        };
        let cc: Vec<Target> = foreign.cc.iter().map(|name| agent_of(name).map(Target::Agent)).collect::<Result<_>>()?;
        let mut owners: Vec<AgentName> = cc.iter().filter_map(Target::agent).cloned().collect();
        owners.insert(0, to.clone());
        if let Some(mailbox) = mailbox.filter(|mailbox| !owners.contains(mailbox)) {
            let what = format!(
                "the mail script `{}` lists the message `{}` in the mailbox of `{}`, but it is to `{}`",
                self.script.shown(),
                excerpt_of(&foreign.id, 60),
                excerpt_of(&mailbox.foreign(), 60),
                excerpt_of(&foreign.to, 60),
            );
            return Err(Error::new(ErrorKind::Corrupt, what).help("a mailbox may hold only what was sent to its owner"));
        }
        self.translator.owners.lock().unwrap_or_else(PoisonError::into_inner).insert(id, owners);
        let mut extra = serde_json::Map::new();
        extra.insert(FOREIGN_ID.into(), foreign.id.as_str().into());
        let reply_to = match &foreign.reply_to {
            None => None,
            Some(answered) => self.id_behind(answered).await?,
        };
        if let (Some(answered), None) = (&foreign.reply_to, reply_to) {
            extra.insert(FOREIGN_REPLY_TO.into(), answered.as_str().into());
        }
        let time = time_of(&foreign);
        if !foreign.rest.is_empty() {
            extra.insert(FOREIGN.into(), Value::Object(foreign.rest));
        }
        let message = Message {
            id,
            from: agent_of(&foreign.from)?,
            to: Target::Agent(to),
            time,
            body: foreign.body,
            more: Recipients { recipients: Vec::new(), cc },
            reply_to,
            priority: foreign.priority,
            host: None,
            tags: foreign.tags,
            subject: Some(foreign.subject).filter(|subject| !subject.is_empty()),
            thread: foreign.thread,
            ack_required: foreign.ack_required,
            expires: foreign.expires,
            key: None,
            origin_id: None,
            extra,
        };
        let (read, archived, acknowledged) = (foreign.read, foreign.archived, foreign.acknowledged);
        Ok(Told { message: Arc::new(message), read, archived, acknowledged })
    }

    /// The id of a message that another one answers. The script is asked for one that was never seen, once.
    async fn id_behind(&self, foreign: &str) -> Result<Option<MessageId>> {
        if let Some(known) = self.translator.cached(foreign) {
            return Ok(known);
        }
        if let Some(id) = self.translator.ids.known(foreign).await? {
            self.translator.keep(foreign, Some(id));
            return Ok(Some(id));
        }
        match self.backend.get(None, foreign).await {
            Ok(message) if message.id == foreign => self.translator.id_of(&message).await.map(Some),
            // What is answered may be gone: the answer is there all the same. One that was slow is asked again.
            Err(error) if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Cancelled) => Ok(None),
            _ => {
                self.translator.keep(foreign, None);
                Ok(None)
            }
        }
    }
}

impl Told {
    /// The message as an agent sees it. Its state is that of its recipient.
    pub(crate) fn mail(&self, agent: &AgentName, now: Timestamp) -> Mail {
        if !self.is_in_mailbox_of(agent) {
            return Mail { message: self.message.clone(), state: MailState::default(), standing: None };
        }
        // The script does not tell when; its mail cannot have been read before it was sent.
        let at = self.message.time;
        let flag = |set: bool| set.then_some(Flag { set, at });
        let state = MailState {
            read: flag(self.read || self.acknowledged),
            archived: flag(self.archived),
            acknowledged: self.acknowledged.then_some(at),
            ..MailState::default()
        };
        let standing = Some(state.standing(self.message.expires, now));
        Mail { message: self.message.clone(), state, standing }
    }

    /// How the script calls the thread that the message belongs to, or begins.
    pub(crate) fn thread_name(&self) -> String {
        let own = || self.message.extra.get(FOREIGN_ID).and_then(Value::as_str).unwrap_or_default().to_string();
        self.message.thread.clone().unwrap_or_else(own)
    }

    pub(crate) fn is_in_mailbox_of(&self, agent: &AgentName) -> bool {
        self.message.targets().iter().any(|target| target.agent() == Some(agent))
    }
}
