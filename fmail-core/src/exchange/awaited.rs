//! Ids that are kept for messages which are not here yet.
//!
//! An answer may come before what it answers. It then says the parent's id of birth, and as long as the parent is not here
//! no other message that was born with that id gets it: that one is given a new id, and the parent finds its own free.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fmail_api::{ContentHash, Identity, MessageId};

/// What is kept for whom, and what is being taken.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    kept: HashMap<MessageId, ContentHash>,
    /// Ids under which messages are being imported right now.
    taken: HashMap<MessageId, Vec<ContentHash>>,
}

impl Awaited {
    /// Keeps an id for a message; not if it is kept for another one, or another one is about to take it.
    pub(crate) fn keep(&mut self, identity: &Identity) -> bool {
        let Identity { origin, hash } = identity;
        let taken = self.taken.get(origin).is_some_and(|taking| taking.iter().any(|other| other != hash));
        !taken && *self.kept.entry(*origin).or_insert(*hash) == *hash
    }

    /// It is not kept any more: the message is here, or another one is.
    pub(crate) fn forget(&mut self, identity: &Identity) {
        if self.kept.get(&identity.origin) == Some(&identity.hash) {
            self.kept.remove(&identity.origin);
        }
    }
}

/// An id that a message is being stored under, until this is dropped.
pub(crate) struct Taking<'a> {
    awaited: &'a Mutex<Awaited>,
    identity: Identity,
}

impl<'a> Taking<'a> {
    pub(super) fn new(awaited: &'a Mutex<Awaited>, identity: &Identity) -> Option<Self> {
        let mut all = locked(awaited);
        if all.kept.get(&identity.origin).is_some_and(|hash| *hash != identity.hash) {
            return None;
        }
        all.taken.entry(identity.origin).or_default().push(identity.hash);
        Some(Taking { awaited, identity: *identity })
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        let mut all = locked(self.awaited);
        let Identity { origin, hash } = self.identity;
        if let Some(taking) = all.taken.get_mut(&origin) {
            if let Some(place) = taking.iter().position(|other| *other == hash) {
                taking.swap_remove(place);
            }
            if taking.is_empty() {
                all.taken.remove(&origin);
            }
        }
    }
}

pub(super) fn locked(awaited: &Mutex<Awaited>) -> MutexGuard<'_, Awaited> {
    awaited.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_kept_for_one_and_taken_by_nobody_else() {
        let identity = |text: &[u8]| Identity { origin: MessageId::MIN, hash: ContentHash::of(&[text]) };
        let (parent, other) = (identity(b"parent"), identity(b"other"));
        let awaited = Mutex::new(Awaited::default());
        let taking = Taking::new(&awaited, &other).unwrap();
        assert!(!locked(&awaited).keep(&parent), "another one is about to have it");
        drop(taking);
        assert!(locked(&awaited).keep(&parent) && locked(&awaited).keep(&parent));
        assert!(!locked(&awaited).keep(&other));
        assert!(Taking::new(&awaited, &other).is_none() && Taking::new(&awaited, &parent).is_some());
        locked(&awaited).forget(&other);
        assert!(Taking::new(&awaited, &other).is_none());
        locked(&awaited).forget(&parent);
        assert!(Taking::new(&awaited, &other).is_some());
    }
}
