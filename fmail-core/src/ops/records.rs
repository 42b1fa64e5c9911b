//! `records`: what hosts know of agents, reservations, receipts and deletions, compared and exchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use fmail_api::{
    AgentName, Error, ErrorKind, Expect, Fingerprint, Identity, MailState, MessageId, RecordKey, Records,
    RecordsRequest, Result, Selection, SharedRecord, Timestamp,
};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::Operations;
use crate::exchange::{Grave, Here, Kind, RECEIVED, Shared, Teller, kind};
use crate::mailbox::{Change, Mailbox, Shelf, is_lasting};

/// About so many bytes of records are answered at a time. Who misses some asks again.
const MAX_BYTES: usize = 512 * 1024;
/// So many receipts are looked up together.
const TOGETHER: usize = 256;
/// The most records in a request.
const MOST: usize = 10_000;
/// The most entries of other hosts that are kept.
const MOST_ELSEWHERE: usize = 10_000;
/// How far ahead of our clock another host's may be, for what it says to be believed. Further ahead nobody could ever take
/// back what was said by mistake.
const AHEAD: Duration = Duration::from_secs(86_400);
/// Two processes may change a record at once. Whoever loses this often leaves it; it comes again.
const ATTEMPTS: usize = 10;

/// What became of records that somebody offered.
#[derive(Default)]
struct Verdicts {
    changed: u64,
    refused: u64,
}

impl Verdicts {
    fn add(&mut self, changed: Option<bool>) {
        match changed {
            Some(true) => self.changed += 1,
            Some(false) => {}
            None => self.refused += 1,
        }
    }
}

impl Operations {
    /// Compares, lists, gives or merges the records that travel.
    pub(crate) async fn records(&self, request: RecordsRequest) -> Result<Records> {
        self.check_exchange("exchange records with other hosts")?;
        match request {
            RecordsRequest::Compare(theirs) => {
                let buckets = self.exchange.shared(self.teller(), |shared| shared.buckets()).await?;
                let ours = buckets.iter().copied().fold(Fingerprint::default(), Fingerprint::and);
                Ok(if ours == theirs { Records::Same } else { Records::Buckets(buckets) })
            }
            RecordsRequest::List(buckets) => {
                Ok(Records::Held(self.exchange.shared(self.teller(), |shared| shared.listed(&buckets)).await?))
            }
            RecordsRequest::Get(keys) => {
                check_count(keys.len())?;
                self.give(keys).await.map(Records::Content)
            }
            RecordsRequest::Merge(records) => {
                check_count(records.len())?;
                let Verdicts { changed, refused } = self.merge(records).await?;
                self.exchange.shared_changed().await;
                if refused > 0 {
                    tracing::info!(refused, "records of another host were refused");
                }
                Ok(Records::Merged { changed, refused })
            }
        }
    }

    fn teller(&self) -> Teller<'_> {
        Teller { node: self.node.as_ref(), now: self.moment() }
    }

    /// What is held under these names. What is not is left out, and what does not fit into one answer too.
    async fn give(&self, keys: Vec<RecordKey>) -> Result<Vec<SharedRecord>> {
        self.exchange.bring_up_to_date().await?;
        let (mut given, mut bytes) = (Vec::new(), 0);
        for keys in keys.chunks(TOGETHER) {
            let mut receipts = self.exchange.receipts_told(keys, self.moment()).await?;
            for key in keys {
                if bytes >= MAX_BYTES {
                    return Ok(given);
                }
                let value = match receipts.remove(key) {
                    Some(value) => value,
                    None => match self.exchange.told(self.teller(), key).await? {
                        Some(value) => value,
                        None => continue,
                    },
                };
                bytes += key.as_str().len() + value.to_string().len();
                given.push(SharedRecord { key: key.clone(), value });
            }
        }
        Ok(given)
    }

    async fn merge(&self, records: Vec<SharedRecord>) -> Result<Verdicts> {
        let mut verdicts = Verdicts::default();
        let (mut receipts, mut graves, mut of_us) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let latest = self.moment().after(AHEAD);
        let teller = self.teller();
        let mut room = self.exchange.shared(teller, |shared| MOST_ELSEWHERE.saturating_sub(shared.of_others())).await?;
        for SharedRecord { key, value } in records {
            let kind = Kind::of(&key);
            match &kind {
                Some(own @ (Kind::Agent(node, _) | Kind::Leases(node))) if teller.is(*node) => {
                    match is_believable(own, &value, latest) {
                        true => of_us.push((own.clone(), value)),
                        false => verdicts.refused += 1,
                    }
                }
                Some(said @ (Kind::Agent(..) | Kind::Leases(_))) if is_believable(said, &value, latest) => {
                    let stored = match said {
                        Kind::Agent(node, name) => RecordKey::agent_elsewhere(*node, name),
                        Kind::Leases(node) => RecordKey::leases_elsewhere(*node),
                        _ => continue,
                    };
                    verdicts.add(self.hear(&stored, value, &mut room).await?);
                }
                Some(Kind::Receipt(agent, identity)) => match kind::receipt_in(&value, latest) {
                    Some(state) => drop(receipts.insert((agent.clone(), *identity), (key, value, state))),
                    None => verdicts.refused += 1,
                },
                Some(Kind::Grave(identity)) => match kind::grave_in(&value, latest) {
                    Some(grave) => drop(graves.insert(*identity, grave)),
                    None => verdicts.refused += 1,
                },
                _ => verdicts.refused += 1,
            }
        }
        if !of_us.is_empty() {
            // Who says of us what we do not say is refused, and so that it is not said again, we say it later.
            let hear = |shared: &mut Shared| {
                let refused = of_us.iter().filter(|(kind, value)| !shared.hear(kind, value)).count();
                (refused, shared.is_contested())
            };
            let (refused, contested) = self.exchange.shared(teller, hear).await?;
            verdicts.refused += refused as u64;
            self.exchange.contested.fetch_or(contested, Ordering::Relaxed);
        }
        self.merge_graves(graves, &mut verdicts).await?;
        self.merge_receipts(receipts, &mut verdicts).await?;
        Ok(verdicts)
    }

    /// Keeps what another host says of itself, if it said that last. Nothing when there is no room for it.
    async fn hear(&self, key: &RecordKey, value: Value, room: &mut usize) -> Result<Option<bool>> {
        let mut stored = value.clone();
        if let Some(fields) = stored.as_object_mut() {
            fields.insert(RECEIVED.into(), json!(self.moment()));
        }
        for _ in 0..ATTEMPTS {
            let expect = match self.store.get(key).await {
                Ok(Some(record)) => {
                    let mut known = record.value;
                    if let Some(fields) = known.as_object_mut() {
                        fields.shift_remove(RECEIVED);
                    }
                    if !kind::said_last(&value, &known) {
                        return Ok(Some(false));
                    }
                    Expect::Revision(record.revision)
                }
                Ok(None) if *room == 0 => return Ok(None),
                Ok(None) => Expect::Absent,
                // What cannot be read is replaced: it comes from elsewhere, and so does this.
                Err(error) if error.kind() == ErrorKind::Corrupt => Expect::Anything,
                Err(error) => return Err(error),
            };
            let new = expect == Expect::Absent;
            match self.store.put(key, expect, stored.clone(), false).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    *room -= usize::from(new);
                    return Ok(Some(true));
                }
            }
        }
        Ok(Some(false))
    }

    /// Removes what was deleted elsewhere, and remembers it. What stands in a topic was never deleted that way.
    async fn merge_graves(&self, mut graves: BTreeMap<Identity, Grave>, verdicts: &mut Verdicts) -> Result<()> {
        if graves.is_empty() {
            return Ok(());
        }
        let held = self.exchange.by_identities(&graves.keys().copied().collect()).await?;
        let in_mailboxes = |here: &Here| here.targets.iter().all(|target| target.agent().is_some());
        let before = graves.len();
        graves.retain(|identity, _| held.get(identity).is_none_or(in_mailboxes));
        verdicts.refused += (before - graves.len()) as u64;
        let gone: Vec<&Here> = graves.keys().filter_map(|identity| held.get(identity)).collect();
        let elsewhere = gone.iter().filter(|here| here.has_origin);
        self.leave_ids(elsewhere.map(|here| (here.id, here.place.identity())).collect()).await?;
        verdicts.changed += self.dig(graves.clone()).await?;
        if gone.is_empty() || !self.store.capabilities().remove {
            return Ok(());
        }
        let ids: BTreeSet<MessageId> = gone.iter().map(|here| here.id).collect();
        let mut removed = self.store.remove(Selection { ids: ids.clone(), ..Selection::default() }).await?;
        while let Some(one) = removed.next().await {
            one?;
        }
        let places: Vec<_> = gone.iter().map(|here| here.place).collect();
        self.exchange.gone(&places);
        let agents: BTreeSet<AgentName> =
            gone.iter().flat_map(|here| &here.targets).filter_map(|target| target.agent().cloned()).collect();
        for agent in agents {
            Mailbox::new(&*self.store, &agent, self.moment()).removed(&ids).await?;
        }
        Ok(())
    }

    /// Merges what agents have done with messages elsewhere into what they have done here. Of a message that is not here
    /// yet nothing is noted: the receipt comes again.
    async fn merge_receipts(
        &self,
        receipts: BTreeMap<(AgentName, Identity), (RecordKey, Value, MailState)>,
        verdicts: &mut Verdicts,
    ) -> Result<()> {
        let held = self.exchange.by_identities(&receipts.keys().map(|(_, identity)| *identity).collect()).await?;
        let horizon = self.exchange.horizon().await?;
        let mut by_agent: BTreeMap<AgentName, Vec<(&Here, MailState)>> = BTreeMap::new();
        let mut outlived = Vec::new();
        for ((agent, identity), (key, value, state)) in receipts {
            match held.get(&identity) {
                Some(here) => by_agent.entry(agent).or_default().push((here, state)),
                None if is_swept(&identity, horizon) => {
                    let fingerprint = kind::fingerprint(&key, &value);
                    outlived.push((key, fingerprint));
                }
                None => {}
            }
        }
        if !outlived.is_empty() {
            self.exchange.shared(self.teller(), |shared| shared.outlive(outlived)).await?;
        }
        for (agent, noted) in by_agent {
            self.note_receipts(&agent, noted, verdicts).await?;
        }
        Ok(())
    }

    async fn note_receipts(
        &self,
        agent: &AgentName,
        noted: Vec<(&Here, MailState)>,
        verdicts: &mut Verdicts,
    ) -> Result<()> {
        let mailbox = Mailbox::new(&*self.store, agent, self.moment());
        // That a message was listed changes no count and need not be synced. Of what travels it is the most.
        for (shelf, lasting) in
            [Shelf::Mailbox, Shelf::Topic].into_iter().flat_map(|shelf| [(shelf, true), (shelf, false)])
        {
            let belongs =
                |(here, state): &&(&Here, MailState)| here.shelf(agent) == Some(shelf) && is_lasting(state) == lasting;
            let those = noted.iter().filter(belongs);
            let states: BTreeMap<MessageId, &MailState> = those.map(|(here, state)| (here.id, state)).collect();
            let ids: BTreeSet<MessageId> = states.keys().copied().collect();
            let change = |id: MessageId, state: &MailState| {
                Ok(states.get(&id).map(|other| state.clone().merged(MailState::clone(other))))
            };
            let change = Change { counts: lasting, durable: lasting, change: &change };
            let changed = mailbox.change(shelf, &ids, change).await?;
            let mut deleted = BTreeSet::new();
            for (id, verdict) in changed {
                let (before, after) = verdict?;
                verdicts.add(Some(before != after));
                if before.deleted.is_none() && after.deleted.is_some() {
                    deleted.insert(id);
                }
            }
            if shelf == Shelf::Mailbox && !deleted.is_empty() {
                // Its other recipients may have deleted it here.
                self.remove_deleted(&mailbox, deleted).await?;
            }
        }
        let strangers = noted.iter().filter(|(here, _)| here.shelf(agent).is_none()).count();
        verdicts.refused += strangers as u64;
        Ok(())
    }
}

/// Whether what a node is to have said of itself can be true.
fn is_believable(kind: &Kind, value: &Value, latest: Timestamp) -> bool {
    match kind {
        Kind::Agent(_, name) => kind::agent_in(value, name, latest).is_some(),
        Kind::Leases(_) => kind::leases_in(value, latest).is_some(),
        _ => false,
    }
}

/// Whether a message that is not here is older than what was swept away. Its id tells its time well enough for that, or it
/// is offered again.
fn is_swept(identity: &Identity, horizon: Option<Timestamp>) -> bool {
    horizon.is_some_and(|horizon| identity.origin.time().after(AHEAD) < horizon)
}

fn check_count(count: usize) -> Result<()> {
    if count <= MOST {
        return Ok(());
    }
    Err(Error::invalid(format!("{count} records are named, at most {MOST} are allowed"))
        .help("exchange them in several requests"))
}
