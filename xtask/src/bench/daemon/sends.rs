//! Acknowledged durable sends, against a Redis stream that is synced before each answer, and against a C program that does
//! the same to the same file system for groups of as many messages.

use fmail_api::Result;

use super::load::{Rate, acknowledged};
use super::{Effort, NOT_MEASURED, Servers};
use crate::bench::report::Report;
use crate::bench::stage::Stage;
use crate::bench::timing::quantile;

const CONNECTIONS: [usize; 3] = [1, 16, 64];

/// Adds the rows of this measurement.
pub fn measure(stage: &Stage, servers: &Servers, effort: Effort, report: &mut Report) -> Result<()> {
    for connections in CONNECTIONS {
        let many = if connections == 1 { "1 connection".into() } else { format!("{connections} connections") };
        let (mut ours, mut theirs, mut least) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..effort.turns {
            if let Some(redis) = &servers.redis {
                theirs.push(acknowledged(&redis.stream("bench")?, connections, effort.span)?);
            }
            least.push(stage.groups_in_c("journal", connections, effort.span)?);
            ours.push(acknowledged(&servers.disk.script()?, connections, effort.span)?);
        }
        let (ours, least) = (median(&ours), quantile(&mut least, 0.5));
        let what = format!("{many}, durable sends, forged");
        match &servers.redis {
            Some(redis) => {
                let theirs = median(&theirs);
                report.figure(format!("{many}, durable sends, {} `XADD`", redis.name), shown(theirs, "sends/s"));
                report.compared(what, shown(ours, "sends/s"), ours.each_second / theirs.each_second, &redis.name);
            }
            None => {
                report.figure(format!("{many}, durable sends, Redis `XADD`"), NOT_MEASURED);
                report.figure(what, shown(ours, "sends/s"));
            }
        }
        report.figure(format!("{many}, the same file operations in C"), format!("{least:.0} messages/s"));
        let ratio = ours.each_second / least;
        report.compared(format!("{many}, forged beside that"), shown(ours, "sends/s"), ratio, "C");
        report.goal("at least 0.7 x", ratio >= 0.7);
    }
    Ok(())
}

/// The median of the rates, and of how busy the generator was.
pub fn median(rates: &[Rate]) -> Rate {
    let of = |part: fn(&Rate) -> f64| quantile(&mut rates.iter().map(part).collect::<Vec<_>>(), 0.5);
    Rate { each_second: of(|rate| rate.each_second), busy: of(|rate| rate.busy) }
}

/// The rate, with a remark when it says more about the generator than about the server.
pub fn shown(rate: Rate, unit: &str) -> String {
    let remark = if rate.busy > 0.9 { " (the generator was busy)" } else { "" };
    format!("{:.0} {unit}{remark}", rate.each_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_the_generator_bounds_says_so() {
        let rate = |each_second, busy| Rate { each_second, busy };
        let rates = [rate(1.0, 0.1), rate(1_000.4, 0.95), rate(2_000.0, 0.96)];
        assert_eq!(shown(median(&rates), "sends/s"), "1000 sends/s (the generator was busy)");
        assert_eq!(shown(rates[0], "sends/s"), "1 sends/s");
    }
}
