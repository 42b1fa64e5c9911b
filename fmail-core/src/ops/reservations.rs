//! `reservations`: the leases that hold now, here and on other hosts, and which of them are in each other's way.

use fmail_api::{HeldLease, Lease, NodeId, ReservationsRequest, Result};

use crate::leases::{are_rivals, lease_pattern};
use crate::{Operations, PathPattern};

/// A lease, where it is held, and its pattern, if that can be understood.
struct Known {
    lease: Lease,
    /// Which host says so; none for this one.
    node: Option<NodeId>,
    pattern: Option<PathPattern>,
}

impl Operations {
    pub(crate) async fn reservations(&self, request: ReservationsRequest) -> Result<Vec<HeldLease>> {
        let path: Option<PathPattern> = request.path.as_deref().map(str::parse).transpose()?;
        let leases = self.leases().await?;
        let here = leases.held.into_iter().map(|lease| (None, lease));
        let elsewhere = self.leases_elsewhere(leases.now).await?;
        let known = |(node, mut lease): (Option<NodeId>, Lease)| {
            // That is said here, and by nobody who wrote it into a lease.
            lease.extra.shift_remove("conflicts");
            Known { node, pattern: lease_pattern(&lease).ok(), lease }
        };
        let all: Vec<Known> = here.chain(elsewhere).map(known).collect();
        let mut found = Vec::new();
        for known in &all {
            let lease = &known.lease;
            let of_agent = request.agent.as_ref().is_none_or(|agent| *agent == lease.agent);
            let overlaps = match &path {
                Some(path) if of_agent => lease_pattern(lease)?.intersects(path),
                _ => true,
            };
            if of_agent && overlaps {
                found.push(HeldLease { lease: lease.clone(), conflicts: known.conflicts(&all) });
            }
        }
        let place = |held: &HeldLease| (held.lease.pattern.clone(), held.lease.id, held.lease.host.clone());
        found.sort_by_cached_key(place);
        Ok(found)
    }
}

impl Known {
    /// The leases on other hosts that stand against this one. A host keeps those of its own apart itself.
    fn conflicts(&self, all: &[Known]) -> Vec<Lease> {
        let stands_against = |other: &&Known| {
            let meet =
                || self.pattern.as_ref().zip(other.pattern.as_ref()).is_some_and(|(own, other)| own.intersects(other));
            other.node != self.node && are_rivals(&self.lease, &other.lease) && meet()
        };
        all.iter().filter(stands_against).map(|other| other.lease.clone()).collect()
    }
}
