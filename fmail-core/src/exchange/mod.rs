//! What a project has to know to exchange messages with other hosts: which messages it holds, by their places; who else
//! is known to have one; and which messages were deleted for good.
//!
//! All of it is in memory and follows from the store. It is made when it is first asked for, so that whoever does not relay
//! pays nothing, and brought up to date before each use.

mod awaited;
mod graves;
mod here;
mod inventory;
mod neighbours;
mod origin;
mod others;
mod shared;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fmail_api::{
    Cursor, Error, ErrorKind, Event, Identity, Message, MessageId, NodeId, Order, Place, Query, RecordKey, Result,
    Revision, Selection, Since, Store, THREAD_HASH, Timestamp,
};
use futures::StreamExt;

use crate::waiting::Elsewhere;
use awaited::Awaited;
pub(crate) use awaited::Taking;
pub(crate) use graves::{Buried, Grave, graves_of, had_here, identity_here, with_graves};
pub(crate) use here::Here;
pub(crate) use inventory::{Inventory, first_at};
use neighbours::Neighbours;
pub(crate) use origin::{foreign_parent, foreign_thread, is_shown_as_it_is, origin_form_at_once, thread_aside};
pub(crate) use others::AgentElsewhere;
pub(crate) use shared::{Kind, RECEIVED, Shared, Teller, kind};

/// How often the inventory is made anew, when it expires while it is made. More than once is something else.
const TRIES: u32 = 10;

/// What is known of the messages that are held, and of who else has them.
pub(crate) struct Exchange {
    store: Arc<dyn Store>,
    /// Where work is done that waits for the store.
    pub(crate) elsewhere: Elsewhere,
    /// Whoever brings the inventory up to date has the turn; others wait, and find nothing left to do.
    turn: futures::lock::Mutex<()>,
    /// Never held while something is awaited.
    known: Mutex<Known>,
    neighbours: Mutex<Neighbours>,
    /// Ids that are kept for messages which are not here yet.
    awaited: Mutex<Awaited>,
    /// Another host speaks as this one.
    pub(crate) contested: AtomicBool,
    /// How often messages were buried by this process.
    burials: AtomicU64,
    /// Held while records are read, which nobody waits for but who asks for records.
    shared: futures::lock::Mutex<shared::Shared>,
}

/// The inventory, and how far it goes.
#[derive(Default)]
struct Known {
    inventory: Inventory,
    /// Everything up to here is in it.
    cursor: Option<Cursor>,
    /// The graves that were looked at.
    graves: HashMap<RecordKey, Revision>,
    horizon: Option<Timestamp>,
}

impl Known {
    fn take_in(&mut self, message: &Message, cursor: Cursor) {
        if self.horizon.is_none_or(|horizon| message.time >= horizon) {
            self.inventory.insert(message);
        }
        self.cursor = Some(cursor);
    }
}

impl Exchange {
    pub(crate) fn new(store: Arc<dyn Store>, elsewhere: Elsewhere) -> Self {
        Exchange {
            store,
            elsewhere,
            turn: futures::lock::Mutex::default(),
            known: Mutex::default(),
            neighbours: Mutex::default(),
            awaited: Mutex::default(),
            contested: AtomicBool::new(false),
            burials: AtomicU64::new(0),
            shared: futures::lock::Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn awaited(&self) -> MutexGuard<'_, Awaited> {
        awaited::locked(&self.awaited)
    }

    /// Messages have been buried. What is imported meanwhile looks again.
    pub(crate) fn has_buried(&self) {
        self.burials.fetch_add(1, Ordering::AcqRel);
    }

    /// How often that was so.
    pub(crate) fn burials(&self) -> u64 {
        self.burials.load(Ordering::Acquire)
    }

    /// What `look` finds in the inventory as it was left by the last who brought it up to date.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Inventory) -> T) -> T {
        look(&self.known().inventory)
    }

    /// Notes that places are not held any more.
    pub(crate) fn gone(&self, places: &[Place]) {
        let mut known = self.known();
        places.iter().for_each(|place| known.inventory.remove(place));
    }

    /// Notes that a run of a daemon has a message.
    pub(crate) fn note(&self, identity: Identity, run: NodeId) {
        self.neighbours.lock().unwrap_or_else(PoisonError::into_inner).note(identity, run);
    }

    /// Whether a run of a daemon is known to have a message.
    pub(crate) fn has(&self, message: &Message, run: NodeId) -> bool {
        let neighbours = self.neighbours.lock().unwrap_or_else(PoisonError::into_inner);
        !neighbours.is_empty() && neighbours.has(&message.identity(), run)
    }

    /// The time below which everything was swept away.
    pub(crate) async fn horizon(&self) -> Result<Option<Timestamp>> {
        let record = self.store.get(&RecordKey::horizon()).await?;
        Ok(record.and_then(|record| record.value.get("before")?.as_str()?.parse().ok()))
    }

    /// Brings the inventory up to date: everything that was stored before is in it, what was swept away or deleted is not.
    /// The horizon that holds for it.
    pub(crate) async fn bring_up_to_date(&self) -> Result<Option<Timestamp>> {
        let _turn = self.turn.lock().await;
        let horizon = self.horizon().await?;
        {
            let mut known = self.known();
            if known.horizon < horizon
                && let Some(before) = horizon
            {
                known.inventory.remove_before(before);
                known.horizon = horizon;
            }
        }
        self.read_arrivals(horizon).await?;
        self.leave_out_graves().await?;
        Ok(horizon)
    }

    async fn read_arrivals(&self, horizon: Option<Timestamp>) -> Result<()> {
        for _ in 0..TRIES {
            let cursor = self.known().cursor.clone();
            let read = match cursor {
                Some(cursor) => self.read_on(cursor).await,
                None => self.read_all(horizon).await,
            };
            match read {
                Err(error) if matches!(error.kind(), ErrorKind::Expired | ErrorKind::InvalidRequest) => {
                    self.known().cursor = None;
                }
                other => return other,
            }
        }
        Err(Error::new(ErrorKind::Backpressure, "the store keeps losing its place").help("try again in a while"))
    }

    /// Takes in what has arrived since. Each message moves the place, so that nothing is read twice when this is given up.
    async fn read_on(&self, cursor: Cursor) -> Result<()> {
        let query = Query { since: Some(Since::Cursor(cursor)), order: Order::Arrival, ..Query::default() };
        let mut scan = self.store.scan(query).await?;
        while let Some(event) = scan.messages.next().await {
            if let Event::Message(delivery) = event? {
                self.note_awaited(&delivery.message);
                self.known().take_in(&delivery.message, delivery.cursor.clone());
            }
        }
        self.known().cursor = Some(scan.cursor);
        Ok(())
    }

    /// What a stored message waits for, and who has come.
    fn note_awaited(&self, message: &Message) {
        let mut awaited = self.awaited();
        awaited.forget(&message.identity());
        if message.extra.is_empty() {
            return;
        }
        let parent = foreign_parent(message).filter(|_| message.reply_to.is_some());
        let first = foreign_thread(message).filter(|_| message.extra.contains_key(THREAD_HASH));
        for waits_for in parent.into_iter().chain(first) {
            awaited.keep(&waits_for);
        }
    }

    /// Makes the inventory anew. The old one serves until the new one is whole.
    async fn read_all(&self, horizon: Option<Timestamp>) -> Result<()> {
        let mut anew = Known { horizon, ..Known::default() };
        let mut scan = self.store.scan(Query { order: Order::Arrival, ..Query::default() }).await?;
        while let Some(event) = scan.messages.next().await {
            if let Event::Message(delivery) = event? {
                self.note_awaited(&delivery.message);
                anew.take_in(&delivery.message, delivery.cursor.clone());
            }
        }
        anew.cursor = Some(scan.cursor);
        *self.known() = anew;
        Ok(())
    }

    /// What was deleted may still stand in the inventory, if it was deleted by another process. A process that was killed
    /// behind the grave and before the removal left it in the store too: no other host would name that grave again, so it is
    /// removed here.
    async fn leave_out_graves(&self) -> Result<()> {
        let mut left = Vec::new();
        let mut records = self.store.list("tombstones").await?;
        while let Some(record) = records.next().await {
            // One that cannot be read is told by who lists it; what it names is found to be gone when it is fetched.
            let Ok(record) = record else { continue };
            if self.known().graves.get(&record.key) == Some(&record.revision) {
                continue;
            }
            let graves = graves_of(&record.value);
            let mut known = self.known();
            for (identity, grave) in graves {
                let place = match grave.time {
                    Some(time) => Some(Place { time, origin: identity.origin, hash: identity.hash }),
                    None => known.inventory.place(&identity),
                };
                let Some(place) = place else { continue };
                if known.inventory.contains(&place) {
                    left.push((identity, known.inventory.local(&place)));
                    known.inventory.remove(&place);
                }
            }
            known.graves.insert(record.key, record.revision);
        }
        self.remove_buried(left).await
    }

    /// Removes messages that have a grave and are still stored. What stands in a topic was never deleted that way.
    async fn remove_buried(&self, left: Vec<(Identity, MessageId)>) -> Result<()> {
        let mut ids = BTreeSet::new();
        for (identity, id) in left {
            let buried = |message: &Arc<Message>| {
                message.identity() == identity && message.targets().iter().all(|target| target.agent().is_some())
            };
            if self.stored(id).await?.iter().any(buried) {
                ids.insert(id);
            }
        }
        if ids.is_empty() || !self.store.capabilities().remove {
            return Ok(());
        }
        let mut removed = self.store.remove(Selection { ids, ..Selection::default() }).await?;
        while let Some(one) = removed.next().await {
            one?;
        }
        Ok(())
    }

    /// The messages that have this id here. Files that others wrote may share one.
    pub(crate) async fn stored(&self, id: MessageId) -> Result<Vec<Arc<Message>>> {
        let mut found = Vec::new();
        let mut events = self.store.scan(Query { ids: [id].into(), ..Query::default() }).await?.messages;
        while let Some(event) = events.next().await {
            if let Event::Message(delivery) = event? {
                found.push(delivery.message.clone());
            }
        }
        Ok(found)
    }

    /// The message that is known by its identity, if it is here.
    pub(crate) async fn by_identity(&self, identity: &Identity) -> Result<Option<Arc<Message>>> {
        let is_it = |message: &Arc<Message>| message.identity() == *identity;
        let remembered = self.look(|inventory| inventory.moved(identity));
        for id in [remembered, Some(identity.origin)].into_iter().flatten() {
            if let Some(found) = self.stored(id).await?.into_iter().find(is_it) {
                return Ok(Some(found));
            }
        }
        self.bring_up_to_date().await?;
        match self.look(|inventory| inventory.moved(identity)).filter(|id| remembered != Some(*id)) {
            Some(id) => Ok(self.stored(id).await?.into_iter().find(is_it)),
            None => Ok(None),
        }
    }

    /// The same for many, each without what it says. What is not here is left out.
    pub(crate) async fn by_identities(&self, wanted: &BTreeSet<Identity>) -> Result<BTreeMap<Identity, Here>> {
        let mut found = BTreeMap::new();
        if wanted.is_empty() {
            return Ok(found);
        }
        self.bring_up_to_date().await?;
        let ids = self.look(|inventory| {
            wanted.iter().map(|identity| inventory.moved(identity).unwrap_or(identity.origin)).collect()
        });
        let mut events = self.store.scan(Query { ids, ..Query::default() }).await?.messages;
        while let Some(event) = events.next().await {
            let Event::Message(delivery) = event? else { continue };
            let here = Here::of(&delivery.message);
            if wanted.contains(&here.place.identity()) {
                found.insert(here.place.identity(), here);
            }
        }
        Ok(found)
    }

    /// The message that had this id here and was deleted.
    async fn buried(&self, id: MessageId) -> Result<Option<Identity>> {
        let record = self.store.get(&RecordKey::tombstones(&id.day())).await?;
        Ok(record.and_then(|record| identity_here(&record.value, id)))
    }

    /// The id under which a message is stored here that is known by its identity; nothing when it is not here.
    pub(crate) async fn local_id(&self, identity: &Identity) -> Result<Option<MessageId>> {
        Ok(self.by_identity(identity).await?.map(|message| message.id))
    }

    /// By what other hosts know the message that has this id here; nothing when there is none, or more than one.
    pub(crate) async fn identity(&self, id: MessageId) -> Result<Option<Identity>> {
        if let Some(identity) = self.look(|inventory| inventory.identity(id)) {
            return Ok(Some(identity));
        }
        match self.stored(id).await?.as_slice() {
            [only] => Ok(Some(only.identity())),
            _ => Ok(None),
        }
    }
}
