//! Comparing the records that travel, and merging what differs.

use std::collections::HashMap;

use fmail_api::{Error, Fingerprint, RECORD_BUCKETS, RecordKey, Records, RecordsRequest, Result, SharedKey};

use super::session::{Session, Side, locked};
use super::status::Way;

/// So many records go in one request.
const AT_ONCE: usize = 200;

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
        let (ours, theirs) = (self.list(Side::Here, &differing).await?, self.list(Side::There, &differing).await?);
        let changed_here = self.merge(Way::Inward, &lacking(&ours, &theirs)).await?;
        // What was merged here is sent as it is now, so that one exchange is enough.
        let changed_there = self.merge(Way::Outward, &lacking(&theirs, &ours)).await?;
        *locked(&self.futile) = (changed_here + changed_there == 0).then_some(held);
        Ok(())
    }

    /// The buckets of one end; nothing when it holds exactly what adds up to `known`.
    async fn buckets(&self, side: Side, known: Fingerprint) -> Result<Option<Vec<Fingerprint>>> {
        match self.end(side).records(RecordsRequest::Compare(known)).await? {
            Records::Same => Ok(None),
            Records::Buckets(buckets) if buckets.len() == usize::from(RECORD_BUCKETS) => Ok(Some(buckets)),
            _ => Err(unexpected()),
        }
    }

    async fn list(&self, side: Side, buckets: &[u8]) -> Result<Vec<SharedKey>> {
        match self.end(side).records(RecordsRequest::List(buckets.to_vec())).await? {
            Records::Held(held) => Ok(held),
            _ => Err(unexpected()),
        }
    }

    /// How many of these brought something new to the other end.
    async fn merge(&self, way: Way, keys: &[RecordKey]) -> Result<u64> {
        let mut all = 0;
        for keys in keys.chunks(AT_ONCE) {
            let records = match self.end(way.origin()).records(RecordsRequest::Get(keys.to_vec())).await? {
                Records::Content(records) => records,
                _ => return Err(unexpected()),
            };
            match self.end(way.destination()).records(RecordsRequest::Merge(records)).await? {
                Records::Merged { changed, refused } => {
                    all += changed;
                    if way == Way::Inward {
                        self.state.merged(changed);
                    }
                    if refused > 0 {
                        tracing::warn!(peer = self.peer(), ?way, refused, "records are refused");
                        self.state.refused(way, refused);
                    }
                }
                _ => return Err(unexpected()),
            }
        }
        Ok(all)
    }
}

/// What the second holds that the first does not hold, or not so.
fn lacking(first: &[SharedKey], second: &[SharedKey]) -> Vec<RecordKey> {
    let known: HashMap<&RecordKey, Fingerprint> = first.iter().map(|held| (&held.key, held.fingerprint)).collect();
    let differs = |held: &&SharedKey| known.get(&held.key) != Some(&held.fingerprint);
    second.iter().filter(differs).map(|held| held.key.clone()).collect()
}

fn empty() -> Vec<Fingerprint> {
    vec![Fingerprint::default(); usize::from(RECORD_BUCKETS)]
}

fn unexpected() -> Error {
    Error::internal("the answer about records is none that was asked for").help("compare the versions of both sides")
}
