//! Changing what an agent has done with messages, and keeping the tally in step.

use std::collections::{BTreeMap, BTreeSet};

use fmail_api::{ErrorKind, Expect, MailState, MessageId, RecordKey, Result};

use super::states::{ATTEMPTS, busy};
use super::tally::Tally;
use super::{Mailbox, Shelf, as_value};
use crate::operations::random;

/// A change of states. `change` sees each message's state and answers what it is to be, nothing to leave it as it is.
pub(crate) struct Change<'a> {
    /// Whether it can change what is unread or open.
    pub(crate) counts: bool,
    /// Whether it has to survive a power cut.
    pub(crate) durable: bool,
    /// The new state.
    pub(crate) change: &'a (dyn Fn(MessageId, &MailState) -> Result<Option<MailState>> + Sync),
}

/// What became of one message: its state before and after, equal when nothing changed.
pub(crate) type Changed = Result<(MailState, MailState)>;

impl Mailbox<'_> {
    /// Changes the states of messages. Each message has its own verdict; an error of the store is the error of all that
    /// are left.
    pub(crate) async fn change(
        &self,
        shelf: Shelf,
        ids: &BTreeSet<MessageId>,
        change: Change<'_>,
    ) -> Result<BTreeMap<MessageId, Changed>> {
        if ids.is_empty() || !change.counts || shelf == Shelf::Topic {
            return self.change_states(shelf, ids, &change).await;
        }
        if let Some(verdicts) = self.unchanged(ids, &change).await? {
            return Ok(verdicts);
        }
        let token = format!("{:016x}", random());
        self.settle(ids, &token).await?;
        let changed = self.change_states(shelf, ids, &change).await;
        // The states are stored, and what stays noted is counted anew by all: what fails here is only slow.
        let _ = self.settled(&token).await;
        changed
    }

    /// The verdicts when nothing would change: then nothing is written either.
    async fn unchanged(
        &self,
        ids: &BTreeSet<MessageId>,
        change: &Change<'_>,
    ) -> Result<Option<BTreeMap<MessageId, Changed>>> {
        let states = self.states(ids).await?;
        let mut verdicts = BTreeMap::new();
        for id in ids {
            let before = states.get(id).cloned().unwrap_or_default();
            let verdict = (change.change)(*id, &before);
            if matches!(&verdict, Ok(Some(after)) if *after != before) {
                return Ok(None);
            }
            verdicts.insert(*id, verdict.map(|_| (before.clone(), before)));
        }
        Ok(Some(verdicts))
    }

    /// Notes in the tally that the states of these messages are about to change.
    async fn settle(&self, ids: &BTreeSet<MessageId>, token: &str) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let (expect, mut tally) = self.tally().await?;
            tally.settled("", self.now);
            for (stretch, states) in self.held(Shelf::Mailbox, ids).await? {
                if tally.absorb(&stretch) {
                    tally = self.counted(tally.settling).await?;
                }
                tally.settle(&stretch, tally.read_among(&states), token, self.now);
            }
            if self.replaced(expect, &tally).await? {
                return Ok(());
            }
        }
        Err(busy(&RecordKey::tally(self.agent)))
    }

    /// Takes the note away: what was noted has been counted anew.
    async fn settled(&self, token: &str) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let (expect, mut tally) = self.tally().await?;
            if !tally.settled(token, self.now) {
                // Somebody took the tally away meanwhile, and whoever counted since then may have missed the change.
                tally = self.counted(tally.settling).await?;
            }
            if self.replaced(expect, &tally).await? {
                return Ok(());
            }
        }
        Err(busy(&RecordKey::tally(self.agent)))
    }

    /// Brings the tally in step with the removal of messages by ourselves.
    pub(crate) async fn removed(&self, ids: &BTreeSet<MessageId>) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let (expect, tally) = self.tally_without(ids).await?;
            if self.replaced(expect, &tally).await? {
                return Ok(());
            }
        }
        Err(busy(&RecordKey::tally(self.agent)))
    }

    /// Writes the tally, unless somebody else has written it meanwhile.
    async fn replaced(&self, expect: Expect, tally: &Tally) -> Result<bool> {
        match self.store.put(&RecordKey::tally(self.agent), expect, as_value(tally), false).await {
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            other => other.map(|_| true),
        }
    }
}
