//! What a record of the store gives to other hosts.

use std::collections::{BTreeMap, BTreeSet};

use fmail_api::{
    AgentName, AgentRecord, Event, Fingerprint, Identity, Lease, LeasesRecord, MailState, MailboxRecord, MessageId,
    Query, Record, RecordKey, Result, Timestamp, canonical_json,
};
use futures::StreamExt;
use serde_json::{Value, json};

use super::super::{Exchange, graves_of};
use super::kind::{Kind, SharedAgent, SharedLeases, without_claim};
use super::own::Stamps;
use super::{Shared, Teller};
use crate::mailbox::{Mailbox, Shelf};

impl Exchange {
    /// What a record of the store gives to other hosts.
    pub(super) async fn told_by(
        &self,
        teller: Teller<'_>,
        record: &Record,
        stamps: &mut Stamps,
    ) -> Result<Vec<(Kind, Value)>> {
        let segments: Vec<&str> = record.key.segments().collect();
        Ok(match segments[..] {
            ["agents", _] => own_agent(teller, record, stamps).into_iter().collect(),
            ["leases"] => own_leases(teller, record, stamps).into_iter().collect(),
            ["hosts", "agents", node, name] => match (node.parse(), name.parse()) {
                (Ok(node), Ok(name)) if !teller.is(node) => vec![(Kind::Agent(node, name), as_told(&record.value))],
                _ => Vec::new(),
            },
            ["hosts", "leases", node] => match node.parse() {
                Ok(node) if !teller.is(node) => vec![(Kind::Leases(node), as_told(&record.value))],
                _ => Vec::new(),
            },
            ["tombstones", _] => {
                let graves = graves_of(&record.value).into_iter();
                graves.map(|(identity, grave)| (Kind::Grave(identity), grave.to_value())).collect()
            }
            ["mailbox", agent, stretch] if stretch != "tally" => match agent.parse() {
                Ok(agent) => self.receipts(agent, record).await?,
                Err(_) => Vec::new(),
            },
            _ => Vec::new(),
        })
    }

    async fn receipts(&self, agent: AgentName, record: &Record) -> Result<Vec<(Kind, Value)>> {
        let Ok(states) = record.decode::<MailboxRecord>() else { return Ok(Vec::new()) };
        let mut states = states.messages;
        states.retain(|_, state| without_claim(state.clone()) != MailState::default());
        let identities = self.identities(states.keys().copied().collect()).await?;
        let told = states.into_iter().filter_map(|(id, state)| {
            let identity = *identities.get(&id)?;
            Some((Kind::Receipt(agent.clone(), identity), json!(without_claim(state))))
        });
        Ok(told.collect())
    }

    /// By what other hosts know the messages that have these ids. What is not here is left out.
    async fn identities(&self, ids: BTreeSet<MessageId>) -> Result<BTreeMap<MessageId, Identity>> {
        let mut found: BTreeMap<MessageId, Identity> =
            self.look(|inventory| ids.iter().filter_map(|id| Some((*id, inventory.identity(*id)?))).collect());
        let rest: BTreeSet<MessageId> = ids.into_iter().filter(|id| !found.contains_key(id)).collect();
        if !rest.is_empty() {
            let mut events = self.store.scan(Query { ids: rest, ..Query::default() }).await?.messages;
            while let Some(event) = events.next().await {
                if let Event::Message(delivery) = event? {
                    found.insert(delivery.message.id, delivery.message.identity());
                }
            }
        }
        Ok(found)
    }

    /// What is told under a name, as it is now. Receipts are asked for by [`Exchange::receipts_told`].
    pub(crate) async fn told(&self, teller: Teller<'_>, key: &RecordKey) -> Result<Option<Value>> {
        let Some(kind) = Kind::of(key) else { return Ok(None) };
        let source = match &kind {
            Kind::Agent(node, name) if teller.is(*node) => RecordKey::agent(name),
            Kind::Agent(node, name) => RecordKey::agent_elsewhere(*node, name),
            Kind::Leases(node) if teller.is(*node) => RecordKey::leases(),
            Kind::Leases(node) => RecordKey::leases_elsewhere(*node),
            Kind::Grave(identity) => RecordKey::tombstones(&identity.origin.day()),
            Kind::Receipt(..) => return Ok(None),
        };
        let Some(record) = self.store.get(&source).await? else { return Ok(None) };
        let told = self.told_by(teller, &record, &mut self.shared.lock().await.stamps).await?;
        Ok(told.into_iter().find(|(found, _)| *found == kind).map(|(_, value)| value))
    }

    /// What is told under those of the names that are receipts, as it is now. Those of one agent stand in few records, each with
    /// hundreds of states: a record is read once for all of them.
    pub(crate) async fn receipts_told(&self, keys: &[RecordKey], now: Timestamp) -> Result<BTreeMap<RecordKey, Value>> {
        let mut wanted: BTreeMap<AgentName, Vec<(Identity, &RecordKey)>> = BTreeMap::new();
        for key in keys {
            if let Some(Kind::Receipt(agent, identity)) = Kind::of(key) {
                wanted.entry(agent).or_default().push((identity, key));
            }
        }
        let held = self.by_identities(&wanted.values().flatten().map(|(identity, _)| *identity).collect()).await?;
        let mut told = BTreeMap::new();
        for (agent, receipts) in wanted {
            let mailbox = Mailbox::new(&*self.store, &agent, now);
            for shelf in [Shelf::Mailbox, Shelf::Topic] {
                let here = |(identity, key): &(Identity, &RecordKey)| {
                    let here = held.get(identity).filter(|here| here.shelf(&agent) == Some(shelf))?;
                    Some((here.id, RecordKey::clone(key)))
                };
                let keys: Vec<(MessageId, RecordKey)> = receipts.iter().filter_map(here).collect();
                let states = mailbox.states_on(shelf, &keys.iter().map(|(id, _)| *id).collect()).await?;
                for (id, key) in keys {
                    let state = states.get(&id).cloned().map(without_claim);
                    told.extend(state.filter(|state| *state != MailState::default()).map(|state| (key, json!(state))));
                }
            }
        }
        Ok(told)
    }
}

impl Shared {
    /// Hears what our own node is to have said. Whether it is what we say, or may have said before: who has not heard the last
    /// of it yet does nothing wrong.
    pub(crate) fn hear(&mut self, kind: &Kind, value: &Value) -> bool {
        let (Some(key), Some(stamp)) = (kind.key(), value.get("stamp").and_then(|stamp| stamp.as_str()?.parse().ok()))
        else {
            return false;
        };
        let content = content_of(value);
        let ours = self.stamps.may_be_ours(&key, content, stamp);
        if self.stamps.hear(&key, content, stamp) {
            let source = match kind {
                Kind::Agent(_, name) => RecordKey::agent(name),
                _ => RecordKey::leases(),
            };
            self.sources.remove(&source);
            self.serves_until = None;
        }
        ours
    }
}

/// The content without what is only ours: when it came.
fn as_told(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.shift_remove(RECEIVED);
    }
    value
}

/// The field of a stored entry of another host that says when it came, by our clock.
pub(crate) const RECEIVED: &str = "received";

/// What is said, apart from when.
fn content_of(value: &Value) -> Fingerprint {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.shift_remove("stamp");
    }
    Fingerprint::of(&[canonical_json(&value).as_bytes()])
}

fn own_agent(teller: Teller<'_>, record: &Record, stamps: &mut Stamps) -> Option<(Kind, Value)> {
    let node = teller.node?;
    let name = crate::presence::agent_of(record)?;
    let agent = AgentRecord { name: name.clone(), ..record.decode().ok()? };
    let first = agent.last_seen.min(teller.now);
    let kind = Kind::Agent(node.id, name);
    let unstamped = SharedAgent { stamp: first, host: node.host.clone(), agent };
    let stamp = stamps.stamp(&kind.key()?, content_of(&json!(unstamped)), first, teller.now);
    Some((kind, json!(SharedAgent { stamp, ..unstamped })))
}

fn own_leases(teller: Teller<'_>, record: &Record, stamps: &mut Stamps) -> Option<(Kind, Value)> {
    let node = teller.node?;
    let leases = record.decode::<LeasesRecord>().ok()?.leases;
    let started = |lease: &Lease| lease.since;
    let first = leases.iter().map(started).max().unwrap_or(Timestamp::from_unix(0, 0)).min(teller.now);
    let kind = Kind::Leases(node.id);
    let unstamped = SharedLeases { stamp: first, host: node.host.clone(), leases };
    let stamp = stamps.stamp(&kind.key()?, content_of(&json!(unstamped)), first, teller.now);
    Some((kind, json!(SharedLeases { stamp, ..unstamped })))
}
