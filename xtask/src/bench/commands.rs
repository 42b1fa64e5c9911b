//! Commands as whole processes.

use fmail_api::Result;

use super::report::Report;
use super::stage::Stage;
use super::{Extent, latency, send, writers};

/// Adds the rows of these measurements.
pub fn measure(stage: &Stage, extent: &Extent, report: &mut Report) -> Result<()> {
    send::measure(stage, extent.rounds, report)?;
    latency::measure(stage, extent.rounds, report)?;
    writers::measure(stage, extent, report)
}
