//! The records that travel, as this host has them: by their names on the way, with what they add up to.
//!
//! They are views of records of the store. Each store record is looked at again when its revision has changed, and what it
//! gives is kept: a name and a fingerprint, about 150 bytes a record, and no content.

pub(crate) mod kind;
mod own;
mod reading;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use fmail_api::{
    Fingerprint, Node, NodeId, RECORD_BUCKETS, RecordKey, Result, Revision, SharedKey, Timestamp, record_bucket,
};
use futures::StreamExt;

use super::Exchange;
pub(crate) use kind::{Kind, SharedAgent, SharedLeases};
use own::Stamps;
pub(crate) use reading::RECEIVED;

/// Whose records are told, and when that is.
#[derive(Clone, Copy)]
pub(crate) struct Teller<'a> {
    pub(crate) node: Option<&'a Node>,
    pub(crate) now: Timestamp,
}

impl Teller<'_> {
    pub(crate) fn is(&self, node: NodeId) -> bool {
        self.node.is_some_and(|own| own.id == node)
    }
}

/// Where the records stand that travel, or that others are made of.
const SOURCES: [&str; 5] = ["agents", "leases", "hosts", "mailbox", "tombstones"];

/// To look at all records costs time. When it took longer than this, what was found serves for a while.
const LONG: Duration = Duration::from_millis(100);
/// For so many times as long.
const SERVES: u32 = 20;

/// So many records are listed at a time, about a megabyte.
const MOST_LISTED: usize = 6_000;

/// For so many records that others hold and that have no message here any more.
const MOST_OUTLIVED: usize = 100_000;

/// What is known of the records that travel.
#[derive(Default)]
pub(crate) struct Shared {
    /// What each record of the store gives, and of which revision.
    sources: BTreeMap<RecordKey, (Revision, Box<[SharedKey]>)>,
    /// All of it, by name.
    keys: BTreeMap<RecordKey, Fingerprint>,
    buckets: Vec<Fingerprint>,
    stamps: Stamps,
    /// What others still hold about messages that were swept away here. It counts as held, so that it is not offered for
    /// ever.
    outlived: HashMap<RecordKey, Fingerprint>,
    serves_until: Option<Instant>,
}

impl Shared {
    /// What is held altogether, bucket by bucket.
    pub(crate) fn buckets(&self) -> Vec<Fingerprint> {
        let mut buckets = self.buckets.clone();
        buckets.resize(usize::from(RECORD_BUCKETS), Fingerprint::default());
        buckets
    }

    /// The records of some buckets, of as many as fit into one answer: whole buckets, in the order in which they were asked
    /// for, and the first that holds any whatever its size. Who wants the rest asks again for what comes behind.
    pub(crate) fn listed(&self, buckets: &[u8]) -> Vec<SharedKey> {
        let mut by_bucket: BTreeMap<u8, Vec<SharedKey>> = BTreeMap::new();
        let outlived = self.outlived.iter().filter(|(key, _)| !self.keys.contains_key(*key));
        for (key, fingerprint) in self.keys.iter().chain(outlived) {
            let bucket = record_bucket(key);
            if buckets.contains(&bucket) {
                let one = SharedKey { key: key.clone(), fingerprint: *fingerprint };
                by_bucket.entry(bucket).or_default().push(one);
            }
        }
        let mut listed = Vec::new();
        for bucket in buckets.iter().filter_map(|bucket| by_bucket.remove(bucket)) {
            if !listed.is_empty() && listed.len() + bucket.len() > MOST_LISTED {
                break;
            }
            listed.extend(bucket);
        }
        listed
    }

    /// Whether another host speaks as this one.
    pub(crate) fn is_contested(&self) -> bool {
        self.stamps.are_contested()
    }

    /// How many records of other hosts are kept.
    pub(crate) fn of_others(&self) -> usize {
        self.sources.range(first("hosts")..).take_while(|(key, _)| key.is_under("hosts")).count()
    }

    /// Remembers that others hold these, which have no message here any more.
    pub(crate) fn outlive(&mut self, records: Vec<(RecordKey, Fingerprint)>) {
        let room = MOST_OUTLIVED.saturating_sub(self.outlived.len());
        self.outlived.extend(records.into_iter().take(room));
        self.add_up();
    }

    fn add_up(&mut self) {
        let all = || self.sources.values().flat_map(|(_, keys)| keys);
        let graves: HashSet<&str> = all().filter_map(|one| one.key.as_str().strip_prefix("tombstones/")).collect();
        // What was done with a message goes with it, on every host: its states may outlive it here, and not there.
        let is_buried = |key: &RecordKey| {
            let message = key.as_str().strip_prefix("receipts/").and_then(|rest| rest.split_once('/'));
            message.is_some_and(|(_, message)| graves.contains(message))
        };
        let keys = all().filter(|one| !is_buried(&one.key)).map(|one| (one.key.clone(), one.fingerprint)).collect();
        self.outlived.retain(|key, _| !is_buried(key));
        self.keys = keys;
        let mut buckets = vec![Fingerprint::default(); usize::from(RECORD_BUCKETS)];
        let outlived = self.outlived.iter().filter(|(key, _)| !self.keys.contains_key(*key));
        for (key, fingerprint) in self.keys.iter().chain(outlived) {
            let bucket = &mut buckets[usize::from(record_bucket(key))];
            *bucket = bucket.and(*fingerprint);
        }
        self.buckets = buckets;
    }
}

/// The first key below a prefix.
fn first(prefix: &str) -> RecordKey {
    // Every prefix that is asked for is a key.
    prefix.parse().unwrap_or_else(|_| RecordKey::project())
}

impl Exchange {
    /// What `look` finds among the records that travel, as they are now.
    pub(crate) async fn shared<T>(&self, teller: Teller<'_>, look: impl FnOnce(&mut Shared) -> T) -> Result<T> {
        self.bring_up_to_date().await?;
        let mut shared = self.shared.lock().await;
        if shared.serves_until.is_none_or(|until| until <= Instant::now()) {
            self.read_shared(teller, &mut shared).await?;
        }
        Ok(look(&mut shared))
    }

    /// The records have changed by our own doing: they are looked at again by the next who asks.
    pub(crate) async fn shared_changed(&self) {
        self.shared.lock().await.serves_until = None;
    }

    async fn read_shared(&self, teller: Teller<'_>, shared: &mut Shared) -> Result<()> {
        let began = Instant::now();
        let mut left = std::mem::take(&mut shared.sources);
        let before = left.len();
        let (mut sources, mut changed) = (BTreeMap::new(), false);
        for prefix in SOURCES {
            let mut records = self.store.list(prefix).await?;
            while let Some(record) = records.next().await {
                // One that cannot be understood is told where it is used. Nothing of it travels.
                let Ok(record) = record else { continue };
                if let Some(known) = left.remove(&record.key)
                    && known.0 == record.revision
                {
                    sources.insert(record.key, known);
                    continue;
                }
                changed = true;
                let told = self.told_by(teller, &record, &mut shared.stamps).await?;
                let keys = told.into_iter().filter_map(|(kind, value)| {
                    let key = kind.key()?;
                    Some(SharedKey { fingerprint: kind::fingerprint(&key, &value), key })
                });
                // Without the room of the content, in place of which the names are collected.
                let keys = keys.collect::<Vec<_>>().into_boxed_slice();
                sources.insert(record.key, (record.revision, keys));
            }
        }
        changed |= sources.len() != before || shared.buckets.is_empty();
        shared.sources = sources;
        if changed {
            shared.add_up();
        }
        let took = began.elapsed();
        shared.serves_until = (took > LONG).then(|| Instant::now() + took * SERVES);
        Ok(())
    }
}
