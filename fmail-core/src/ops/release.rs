//! `release`: gives leases back.

use fmail_api::{Context, LeasesChanged, ReleaseRequest, Result};

use crate::{Operations, access};

impl Operations {
    pub(crate) async fn release(&self, context: &Context, request: ReleaseRequest) -> Result<LeasesChanged> {
        access::named(context, "a reservation")?;
        self.change_leases(|leases| {
            let selected = leases.select(&context.agent, &request.which)?;
            let (changed, held) = leases.held.drain(..).partition(|lease| selected.ids.contains(&lease.id));
            leases.held = held;
            Ok(LeasesChanged { changed, skipped: selected.skipped })
        })
        .await
    }
}
