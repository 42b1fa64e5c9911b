//! The leases of a project: one record holds them all, and one compare-and-swap decides who was first.
//!
//! A lease holds while its end lies ahead. One that has ended is shown to nobody and stands in nobody's way; it leaves the
//! record with the next change.

mod selection;

use std::time::Duration;

use fmail_api::{AgentName, Error, ErrorKind, Expect, Lease, LeasesRecord, RecordKey, Result, Timestamp};

use crate::{Operations, PathPattern};

/// Of those who change the record at the same time one always succeeds, so that this many have to be in each other's way
/// before one gives up.
const ATTEMPTS: usize = 1000;

/// The longest lease. Who needs more renews: a holder that is gone must not keep others away for long.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// The leases at a moment.
pub(crate) struct Leases {
    /// The moment.
    pub(crate) now: Timestamp,
    /// Those that hold.
    pub(crate) held: Vec<Lease>,
    /// Those that have ended and were not swept out yet.
    ended: Vec<Lease>,
    /// The number of the next one.
    next: u64,
}

/// A lease of somebody else that could be in the way, with its pattern.
pub(crate) struct Rival {
    pub(crate) lease: Lease,
    pub(crate) pattern: PathPattern,
}

impl Leases {
    fn of(record: LeasesRecord, now: Timestamp) -> Self {
        // A record that somebody wrote by hand may have forgotten how far the numbers are.
        let highest = record.leases.iter().map(|lease| lease.id).max().unwrap_or(0);
        let (held, ended) = record.leases.into_iter().partition(|lease| lease.until > now);
        Leases { now, held, ended, next: record.next.max(highest.saturating_add(1)) }
    }

    /// A number that no lease has had.
    pub(crate) fn new_id(&mut self) -> u64 {
        let id = self.next;
        self.next = id.saturating_add(1);
        id
    }

    /// The leases of others that conflict with a lease of `agent` wherever the patterns meet.
    pub(crate) fn rivals(&self, agent: &AgentName, exclusive: bool) -> Result<Vec<Rival>> {
        rivals_among(&self.held, agent, exclusive)
    }
}

/// Whether two leases conflict wherever their patterns meet: two that share are never in each other's way, and nobody is in
/// their own.
pub(crate) fn are_rivals(one: &Lease, other: &Lease) -> bool {
    conflicts_with(one, &other.agent, other.exclusive)
}

fn conflicts_with(lease: &Lease, agent: &AgentName, exclusive: bool) -> bool {
    lease.agent != *agent && (lease.exclusive || exclusive)
}

/// Those of some leases that conflict with a lease of `agent` wherever the patterns meet.
pub(crate) fn rivals_among(leases: &[Lease], agent: &AgentName, exclusive: bool) -> Result<Vec<Rival>> {
    let conflicts = |lease: &&Lease| conflicts_with(lease, agent, exclusive);
    let rival = |lease: &Lease| Ok(Rival { lease: lease.clone(), pattern: lease_pattern(lease)? });
    leases.iter().filter(conflicts).map(rival).collect()
}

/// The pattern of a stored lease. One that cannot be understood could cover anything, so that nothing is decided beside it.
pub fn lease_pattern(lease: &Lease) -> Result<PathPattern> {
    lease.pattern.parse().map_err(|error: Error| {
        let found = format!("the reservation {} of @{} cannot be used: {error}", lease.id, lease.agent);
        Error::new(ErrorKind::Corrupt, found)
            .help(format!("@{} can give it back with `fmail release --id {}`", lease.agent, lease.id))
    })
}

/// How long a lease lasts that was asked for so many seconds.
pub(crate) fn lasting(seconds: u64) -> Result<Duration> {
    let time = Duration::from_secs(seconds);
    if time.is_zero() || time > LONGEST {
        let days = LONGEST.as_secs() / 86_400;
        return Err(Error::invalid(format!("a reservation cannot last {seconds} s, but from 1 s to {days} days"))
            .help("say how long it is needed, for example --ttl 1h, and renew it when that was too short"));
    }
    Ok(time)
}

impl Operations {
    /// The leases as they are now.
    pub(crate) async fn leases(&self) -> Result<Leases> {
        Ok(self.read_leases().await?.1)
    }

    /// Changes the leases. `change` may run several times, each time on what the others have left; when it leaves what
    /// holds as it was, nothing is written.
    pub(crate) async fn change_leases<T: Send>(
        &self,
        change: impl Fn(&mut Leases) -> Result<T> + Send + Sync,
    ) -> Result<T> {
        let key = RecordKey::leases();
        for _ in 0..ATTEMPTS {
            let (expect, mut leases) = self.read_leases().await?;
            let before = leases.held.clone();
            let answer = change(&mut leases)?;
            if leases.held == before {
                return Ok(answer);
            }
            let record = LeasesRecord { next: leases.next, leases: leases.held };
            let value = serde_json::to_value(&record)
                .map_err(|error| Error::internal(format!("the leases have no JSON form: {error}")))?;
            match self.store.put(&key, expect, value, true).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
                Ok(_) => return Ok(answer),
            }
        }
        Err(Error::new(ErrorKind::Backpressure, "others kept changing the reservations at the same time")
            .help("try again"))
    }

    async fn read_leases(&self) -> Result<(Expect, Leases)> {
        let found = self.store.get(&RecordKey::leases()).await?;
        // Asked after reading: who waited for the store must not hold what has ended meanwhile against others.
        let now = self.moment();
        match found {
            Some(record) => Ok((Expect::Revision(record.revision.clone()), Leases::of(record.decode()?, now))),
            None => Ok((Expect::Absent, Leases::of(LeasesRecord::default(), now))),
        }
    }
}
