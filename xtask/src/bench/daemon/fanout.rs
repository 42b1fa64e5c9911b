//! One sender, a hundred watchers, against NATS core.

use fmail_api::Result;

use super::load::delivered;
use super::sends::{median, shown};
use super::{Effort, NOT_MEASURED, Servers};
use crate::bench::report::Report;

const WATCHERS: usize = 100;

/// Adds the rows of this measurement.
pub fn measure(servers: &Servers, effort: Effort, report: &mut Report) -> Result<()> {
    let what = |who: &str| format!("1 sender, {WATCHERS} watchers, {who}");
    let (mut theirs, mut disk, mut os) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.turns {
        if let Some(nats) = &servers.nats {
            theirs.push(delivered(&nats.script()?, WATCHERS, effort.span)?);
        }
        os.push(delivered(&servers.os.pipelining_script()?, WATCHERS, effort.span)?);
        disk.push(delivered(&servers.disk.pipelining_script()?, WATCHERS, effort.span)?);
    }
    match &servers.nats {
        Some(nats) => report.figure(what(&nats.name), shown(median(&theirs), "deliveries/s")),
        None => report.figure(what("NATS"), NOT_MEASURED),
    }
    for (who, ours) in [("forged, `durability = \"os\"`", os), ("forged, durable", disk)] {
        let ours = median(&ours);
        match &servers.nats {
            Some(nats) => {
                let ratio = ours.each_second / median(&theirs).each_second;
                report.compared(what(who), shown(ours, "deliveries/s"), ratio, &nats.name);
            }
            None => report.figure(what(who), shown(ours, "deliveries/s")),
        }
    }
    Ok(())
}
