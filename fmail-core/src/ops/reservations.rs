//! `reservations`: the leases that hold now, here and on other hosts.

use fmail_api::{Lease, ReservationsRequest, Result};

use crate::leases::lease_pattern;
use crate::{Operations, PathPattern};

impl Operations {
    pub(crate) async fn reservations(&self, request: ReservationsRequest) -> Result<Vec<Lease>> {
        let path: Option<PathPattern> = request.path.as_deref().map(str::parse).transpose()?;
        let mut found = Vec::new();
        let leases = self.leases().await?;
        let elsewhere = self.leases_elsewhere(leases.now).await?;
        for lease in leases.held.into_iter().chain(elsewhere) {
            let of_agent = request.agent.as_ref().is_none_or(|agent| *agent == lease.agent);
            let overlaps = match &path {
                Some(path) if of_agent => lease_pattern(&lease)?.intersects(path),
                _ => true,
            };
            if of_agent && overlaps {
                found.push(lease);
            }
        }
        found.sort_by(|one, other| (&one.pattern, one.id, &one.host).cmp(&(&other.pattern, other.id, &other.host)));
        Ok(found)
    }
}
