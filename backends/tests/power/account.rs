//! What was asked for and what was promised up to a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fmail_api::{Draft, Message, MessageId, RecordKey};
use serde_json::Value;

use crate::recording::Action;

/// Something that is asked of a store.
#[derive(Clone)]
pub enum Deed {
    Append(Box<Draft>),
    Import(Box<Message>),
    /// A durable record, or its deletion.
    Put(RecordKey, Option<Value>),
    Remove(BTreeSet<MessageId>),
}

/// Something that a store has answered.
#[derive(Clone)]
pub enum Answer {
    /// This message is stored.
    Stored(Arc<Message>),
    /// This record is stored, or deleted.
    Put(RecordKey, Option<Value>),
    /// These are the bodies of all messages.
    Shown(BTreeSet<String>),
}

/// What has to be found after a power cut, and what may be.
#[derive(Default, Clone)]
pub struct Account {
    /// Messages that were acknowledged.
    pub promised: BTreeMap<MessageId, Arc<Message>>,
    /// What was sent, acknowledged or not.
    pub sent: Vec<Draft>,
    /// What was imported, acknowledged or not.
    pub imported: Vec<Message>,
    /// Of each record, the value that was acknowledged last, and those that were asked for since.
    pub records: BTreeMap<RecordKey, Vec<Option<Value>>>,
    /// What was asked to be removed: it may be there or not.
    pub removed: BTreeSet<MessageId>,
    /// The bodies that were shown to somebody who looked at everything, if somebody did: what was absent then stays so.
    pub shown: Option<BTreeSet<String>>,
    /// How much was answered.
    pub answers: usize,
}

impl Account {
    /// Follows what happens.
    pub fn apply(&mut self, action: &Action) {
        match action {
            Action::Begun(Deed::Append(draft)) => self.sent.push(Draft::clone(draft)),
            Action::Begun(Deed::Import(message)) => self.imported.push(Message::clone(message)),
            Action::Begun(Deed::Put(key, value)) => {
                self.records.entry(key.clone()).or_insert_with(|| vec![None]).push(value.clone());
            }
            // From here on it may be there or not: a removal promises nothing about a power cut.
            Action::Begun(Deed::Remove(ids)) => {
                self.promised.retain(|id, _| !ids.contains(id));
                self.removed.extend(ids);
            }
            Action::Answered(Answer::Stored(message)) => {
                self.answers += 1;
                self.promised.insert(message.id, message.clone());
            }
            Action::Answered(Answer::Put(key, value)) => {
                self.answers += 1;
                self.records.insert(key.clone(), vec![value.clone()]);
            }
            Action::Answered(Answer::Shown(bodies)) => {
                self.answers += 1;
                self.shown = Some(bodies.clone());
            }
            _ => {}
        }
    }
}
