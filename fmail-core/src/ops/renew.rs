//! `renew`: lets leases last longer, counted from now.

use fmail_api::{Context, LeasesChanged, RenewRequest, Result};

use crate::leases::lasting;
use crate::{Operations, access};

impl Operations {
    /// Nobody else can be in the way of a lease that holds, so that a renewal has no conflicts. One that has ended is not
    /// brought back: somebody may have worked there meanwhile.
    pub(crate) async fn renew(&self, context: &Context, request: RenewRequest) -> Result<LeasesChanged> {
        access::named(context, "a reservation")?;
        let time = lasting(request.ttl_seconds)?;
        self.change_leases(|leases| {
            let selected = leases.select(&context.agent, &request.which)?;
            let mut answer = LeasesChanged { changed: Vec::new(), skipped: selected.skipped };
            if request.which.all {
                // Who renews all believes to hold these too.
                answer.skipped = leases.ended_of(&context.agent);
            }
            let until = leases.now.after(time);
            for lease in leases.held.iter_mut().filter(|lease| selected.ids.contains(&lease.id)) {
                lease.until = if request.at_least { lease.until.max(until) } else { until };
                answer.changed.push(lease.clone());
            }
            Ok(answer)
        })
        .await
    }
}
