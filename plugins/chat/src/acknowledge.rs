//! An acknowledgement as a line.
//!
//! fmail notes that an agent has acknowledged a message in the agent's mailbox records. Those who read the chat file see
//! no records, so the document's way is taken as well: `[reviewer-to-coder] @ [developer]: Acknowledged — …`, to the
//! sender, with the message's other recipients as observers.
//!
//! The line comes first, with a key made from the agent and the message, and the record behind it. Killed in between, the
//! agent acknowledges again, and the key keeps the line from being written twice.

use fmail_api::{
    AgentName, Draft, Error, Expect, MailboxRecord, Message, MessageId, RecordKey, Result, Revision, Store, Target,
};
use futures::executor::block_on;
use serde_json::Value;

use crate::store::Inner;

/// How much of the message is repeated in the line.
const EXCERPT: usize = 60;

impl Inner {
    /// Whose acknowledgements a record holds, if it holds any.
    pub(crate) fn acknowledging(&self, key: &RecordKey, value: &Value) -> Option<AgentName> {
        let segments: Vec<&str> = key.segments().collect();
        let ["mailbox", agent, stretch] = segments[..] else { return None };
        if !self.options.acknowledgements || stretch == "tally" || acknowledged(value).is_empty() {
            return None;
        }
        agent.parse().ok()
    }

    /// Writes the record, and a line for each message that it newly acknowledges.
    pub(crate) fn acknowledge(
        &self,
        agent: &AgentName,
        key: &RecordKey,
        expect: &Expect,
        value: Value,
        durable: bool,
    ) -> Result<Revision> {
        let lock = self.sidecar.lock()?;
        let before = block_on(self.sidecar.files.get(key))?;
        expect.check(key, before.as_ref().map(|record| &record.revision))?;
        let known = before.as_ref().map(|record| acknowledged(&record.value)).unwrap_or_default();
        for id in acknowledged(&value).into_iter().filter(|id| !known.contains(id)) {
            let Some(message) = self.sidecar.message(id)?.filter(|message| message.from != *agent) else { continue };
            let draft = acknowledgement(agent, &message);
            let line = self.check(&draft).map_err(|error| cannot_say(&error))?;
            self.append_locked(&lock, draft, &line)?;
        }
        block_on(self.sidecar.files.put(key, expect.clone(), value, durable))
    }
}

/// The messages that a mailbox record says are acknowledged.
fn acknowledged(value: &Value) -> Vec<MessageId> {
    // Looked at before it is decoded: most records acknowledge nothing.
    let mentions = value.as_object().is_some_and(|map| map.values().any(|state| state.get("acknowledged").is_some()));
    let record = mentions.then(|| serde_json::from_value::<MailboxRecord>(value.clone()).ok()).flatten();
    let states = record.map(|record| record.messages).unwrap_or_default();
    states.into_iter().filter(|(_, state)| state.acknowledged.is_some()).map(|(id, _)| id).collect()
}

/// What the agent says to the sender of a message, and to those who have it too.
fn acknowledgement(agent: &AgentName, message: &Message) -> Draft {
    let text = match &message.body {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let mut excerpt: String = first.chars().take(EXCERPT).collect();
    if excerpt.len() < first.len() {
        excerpt.push('…');
    }
    let to = Target::Agent(message.from.clone());
    let others = message.targets().into_iter().filter(|target| *target != to && target.agent() != Some(agent));
    let mut draft = Draft::new(agent.clone(), to.clone(), format!("Acknowledged — {excerpt}").trim_end().to_string());
    draft.more.cc = others.collect();
    draft.reply_to = Some(message.id);
    draft.thread = message.thread.clone();
    draft.key = Some(format!("chat-acknowledged/{agent}/{}", message.id));
    draft
}

fn cannot_say(error: &Error) -> Error {
    Error::new(error.kind(), format!("the acknowledgement cannot be written as a line: {}", error.message()))
        .help("set mail.plugin.chat.config.acknowledgements = false to keep acknowledgements out of the chat file")
}
