//! Which messages a store holds, to compare.

use std::collections::HashMap;

use fmail_api::{ContentHash, Delivery, MessageId, Query, Result, Store};

use super::{Progress, Tell, next_message};

/// So many messages pass between two tellings of the progress.
pub(super) const STEP: u64 = 1_000;

/// Every message of a store, by its id, as a hash of its JSON: a million of them fit into some 50 MB.
pub(super) struct Inventory(HashMap<MessageId, ContentHash>);

/// How a message stands to the one of the same id in an inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// It is there, byte for byte.
    Same,
    /// Another one has the id, or another form of it.
    Other,
    /// None has the id.
    Nothing,
}

impl Inventory {
    /// Reads a store from its lowest id to its highest.
    pub(super) async fn of(store: &dyn Store, tell: Tell<'_>, told: fn(u64) -> Progress) -> Result<Inventory> {
        let mut messages = store.scan(Query::default()).await?.messages;
        let mut known = HashMap::new();
        while let Some(delivery) = next_message(&mut messages, tell).await? {
            known.insert(delivery.message.id, hash(delivery.line()));
            if (known.len() as u64).is_multiple_of(STEP) {
                tell(told(known.len() as u64));
            }
        }
        Ok(Inventory(known))
    }

    /// Looks for a message.
    pub(super) fn find(&self, delivery: &Delivery) -> Found {
        self.find_line(delivery.message.id, delivery.line())
    }

    /// Looks for a message by its id and its JSON.
    pub(super) fn find_line(&self, id: MessageId, line: &str) -> Found {
        match self.0.get(&id) {
            Some(known) if *known == hash(line) => Found::Same,
            Some(_) => Found::Other,
            None => Found::Nothing,
        }
    }

    /// How many messages there are.
    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

fn hash(line: &str) -> ContentHash {
    ContentHash::of(&[line.as_bytes()])
}
