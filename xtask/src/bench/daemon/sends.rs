//! Acknowledged durable sends, against servers that sync before each answer, a Redis stream and a NATS JetStream, and against a
//! C program that does the same to the same file system for groups of as many messages.

use fmail_api::Result;

use super::load::{Rate, acknowledged, acknowledged_each};
use super::peer::Script;
use super::{Effort, NOT_MEASURED, Servers};
use crate::bench::report::Report;
use crate::bench::stage::{Stage, settle};
use crate::bench::timing::quantile;

/// How many connections there are, and how many times as fast as Redis and as NATS we want to be.
const CONNECTIONS: [(usize, f64, f64); 3] = [(1, 1.0, 1.0), (16, 0.75, 3.0), (64, 0.45, 3.0)];

/// The ways to make groups of messages durable that `xtask/c/group.c` knows, the one that forged goes first.
const WAYS: [(&str, &str); 7] = [
    ("journal-unnamed", "a journal filled with zeroes, then the files"),
    ("reserved-unnamed", "a journal of reserved blocks, then the files"),
    ("growing-unnamed", "a journal that grows, then the files"),
    ("syncfs", "the files, then one `syncfs`"),
    ("parallel", "the files, synced side by side"),
    ("single", "the files, synced one after the other"),
    ("none-unnamed", "the files, and nothing is synced"),
];

/// Adds the rows for the ways that forged could go, in C and in groups as large as there are connections.
pub fn measure_ways(stage: &Stage, effort: Effort, report: &mut Report) -> Result<()> {
    let mut rates = WAYS.map(|_| CONNECTIONS.map(|_| Vec::new()));
    for _ in 0..effort.turns.min(3) {
        for (rates, (way, _)) in rates.iter_mut().zip(WAYS) {
            for (rates, (size, ..)) in rates.iter_mut().zip(CONNECTIONS) {
                settle();
                rates.push(stage.groups_in_c(way, size, effort.span / 2)?);
            }
        }
    }
    for (rates, (_, what)) in rates.iter_mut().zip(WAYS) {
        let medians = rates.each_mut().map(|rates| format!("{:.0}", quantile(rates, 0.5)));
        report.figure(format!("in C, groups of 1, 16 and 64: {what}"), format!("{} messages/s", medians.join(", ")));
    }
    Ok(())
}

/// Adds the rows of this measurement, and tells how many of our own messages a second the second of them shows.
pub fn measure(stage: &Stage, servers: &Servers, effort: Effort, report: &mut Report) -> Result<f64> {
    let mut sustained = 0.0;
    for (connections, of_redis, of_nats) in CONNECTIONS {
        let (mut ours, mut redis, mut nats, mut least) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..effort.turns {
            if let Some(server) = &servers.redis {
                settle();
                redis.push(acknowledged(&server.stream("bench")?, connections, effort.span)?);
            }
            if let Some(server) = &servers.jetstream {
                let script = |number: usize| server.script(&format!("sender-{number}"));
                let scripts: Vec<Script> = (0..connections).map(script).collect::<Result<_>>()?;
                settle();
                nats.push(acknowledged_each(&scripts.iter().collect::<Vec<_>>(), effort.span)?);
            }
            settle();
            least.push(stage.groups_in_c("journal-unnamed", connections, effort.span)?);
            settle();
            ours.push(acknowledged(&servers.disk.script()?, connections, effort.span)?);
        }
        let many = if connections == 1 { "1 connection".into() } else { format!("{connections} connections") };
        let what = |who: &str| format!("{many}, durable sends, {who}");
        let (ours, least) = (median(&ours), quantile(&mut least, 0.5));
        if connections == CONNECTIONS[1].0 {
            sustained = ours.each_second;
        }
        if servers.redis.is_none() && servers.jetstream.is_none() {
            report.figure(what("forged"), shown(ours, "sends/s"));
        }
        let rivals = [
            (servers.redis.as_ref().map(|server| &server.name), "Redis", " `XADD`", redis, of_redis),
            (servers.jetstream.as_ref().map(|server| &server.name), "NATS JetStream", "", nats, of_nats),
        ];
        for (name, plain, command, theirs, goal) in rivals {
            let Some(name) = name else {
                report.figure(what(&format!("{plain}{command}")), NOT_MEASURED);
                continue;
            };
            let theirs = median(&theirs);
            report.figure(what(&format!("{name}{command}")), shown(theirs, "sends/s"));
            let ratio = ours.each_second / theirs.each_second;
            report.compared(what(&format!("forged, beside {plain}")), shown(ours, "sends/s"), ratio, name);
            report.goal(&format!("at least {goal} x"), ratio >= goal);
        }
        report.figure(format!("{many}, the same file operations in C"), format!("{least:.0} messages/s"));
        let ratio = ours.each_second / least;
        report.compared(what("forged, beside C"), shown(ours, "sends/s"), ratio, "C");
        report.goal("at least 0.7 x", ratio >= 0.7);
    }
    Ok(sustained)
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
