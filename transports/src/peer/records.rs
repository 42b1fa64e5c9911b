//! Comparing the records that travel, and merging what differs.

use std::collections::{BTreeMap, BTreeSet};

use fmail_api::{Error, Fingerprint, RECORD_BUCKETS, RecordKey, Records, RecordsRequest, Result, record_bucket};

use super::session::{Session, Side, locked};
use super::status::Way;

/// So many records go in one request.
const AT_ONCE: usize = 200;

/// So many buckets are listed before anything of them is merged: a quarter of all records is held in memory at a time.
const BUCKETS_AT_ONCE: usize = 16;

/// What one end holds of some buckets.
type Listed = BTreeMap<RecordKey, Fingerprint>;

/// What both ends held when an exchange changed nothing although they differ: a record that one of them does not take. It
/// is not tried again until one of them holds something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Futile {
    ours: Vec<Fingerprint>,
    theirs: Vec<Fingerprint>,
}

impl Session {
    /// Merges what each end holds into the other, where they differ.
    pub(super) async fn exchange_records(&self) -> Result<()> {
        let ours = self.buckets(Side::Here, Fingerprint::default()).await?.unwrap_or_else(empty);
        let all = ours.iter().fold(Fingerprint::default(), |sum, bucket| sum.and(*bucket));
        let Some(theirs) = self.buckets(Side::There, all).await? else { return Ok(()) };
        let held = Futile { ours, theirs };
        if locked(&self.futile).as_ref() == Some(&held) {
            return Ok(());
        }
        let pairs = held.ours.iter().zip(&held.theirs).zip(0..RECORD_BUCKETS);
        let differing: Vec<u8> = pairs.filter(|((ours, theirs), _)| ours != theirs).map(|(_, bucket)| bucket).collect();
        let mut changed = 0;
        for buckets in differing.chunks(BUCKETS_AT_ONCE) {
            let (ours, theirs) = (self.list(Side::Here, buckets).await?, self.list(Side::There, buckets).await?);
            changed += self.level(&ours, &theirs).await?;
        }
        *locked(&self.futile) = (changed == 0).then_some(held);
        Ok(())
    }

    /// Merges into each end what it lacks of the other's; how many brought something new. In the order of their names, in which
    /// messages that are near each other in time have their receipts together: an end writes few records for many of them.
    async fn level(&self, ours: &Listed, theirs: &Listed) -> Result<u64> {
        let (lacking_here, lacking_there) = (lacking(ours, theirs), lacking(theirs, ours));
        let all: Vec<&RecordKey> = lacking_here.union(&lacking_there).copied().collect();
        let mut changed = 0;
        for keys in all.chunks(AT_ONCE) {
            let among = |lacking: &BTreeSet<&RecordKey>| -> Vec<RecordKey> {
                keys.iter().filter(|key| lacking.contains(*key)).map(|key| RecordKey::clone(key)).collect()
            };
            // Either way gets its turn, however much the other has to carry. What was merged here is sent as it is now, so that
            // one exchange is enough.
            changed += self.merge(Way::Inward, among(&lacking_here)).await?;
            changed += self.merge(Way::Outward, among(&lacking_there)).await?;
        }
        Ok(changed)
    }

    /// The buckets of one end; nothing when it holds exactly what adds up to `known`.
    async fn buckets(&self, side: Side, known: Fingerprint) -> Result<Option<Vec<Fingerprint>>> {
        match self.end(side).records(RecordsRequest::Compare(known)).await? {
            Records::Same => Ok(None),
            Records::Buckets(buckets) if buckets.len() == usize::from(RECORD_BUCKETS) => Ok(Some(buckets)),
            _ => Err(unexpected()),
        }
    }

    /// All that one end holds of these buckets. It answers as many whole buckets as fit, in the order in which they are asked
    /// for, so that everything up to the last of them is known, and the rest is asked for again.
    async fn list(&self, side: Side, buckets: &[u8]) -> Result<Listed> {
        let mut listed = Listed::new();
        let mut left = buckets;
        while !left.is_empty() {
            let Records::Held(held) = self.end(side).records(RecordsRequest::List(left.to_vec())).await? else {
                return Err(unexpected());
            };
            let mut known = 0;
            for one in held {
                let bucket = record_bucket(&one.key);
                let place = left.iter().position(|asked| *asked == bucket).ok_or_else(unexpected)?;
                known = known.max(place + 1);
                listed.insert(one.key, one.fingerprint);
            }
            // The first bucket that holds anything is always there: no answer means that there is no more.
            left = if known == 0 { &[] } else { &left[known..] };
        }
        Ok(listed)
    }

    /// How many of these brought something new to the other end.
    async fn merge(&self, way: Way, keys: Vec<RecordKey>) -> Result<u64> {
        if keys.is_empty() {
            return Ok(0);
        }
        let Records::Content(records) = self.end(way.origin()).records(RecordsRequest::Get(keys)).await? else {
            return Err(unexpected());
        };
        match self.end(way.destination()).records(RecordsRequest::Merge(records)).await? {
            Records::Merged { changed, refused } => {
                if way == Way::Inward {
                    self.state.merged(changed);
                }
                if refused > 0 {
                    tracing::warn!(peer = self.peer(), ?way, refused, "records are refused");
                    self.state.refused(way, refused);
                }
                Ok(changed)
            }
            _ => Err(unexpected()),
        }
    }
}

/// What the second holds that the first does not hold, or not so.
fn lacking<'a>(first: &Listed, second: &'a Listed) -> BTreeSet<&'a RecordKey> {
    second.iter().filter(|(key, fingerprint)| first.get(*key) != Some(*fingerprint)).map(|(key, _)| key).collect()
}

fn empty() -> Vec<Fingerprint> {
    vec![Fingerprint::default(); usize::from(RECORD_BUCKETS)]
}

fn unexpected() -> Error {
    Error::internal("the answer about records is none that was asked for").help("compare the versions of both sides")
}
