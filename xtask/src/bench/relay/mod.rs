//! From host to host: two daemons that relay, beside two NATS servers of which one mirrors a stream of the other.
//!
//! Both hosts are on this machine, with loopback between them: what is measured is the programs, not a network.

mod hosts;
mod mirror;

use std::time::{Duration, Instant};

use fmail_api::Result;

use self::hosts::Hosts;
use self::mirror::Mirror;
use super::daemon::load::{Rate, Writes, delivered_between};
use super::daemon::peer::{Frame, Peer, Script};
use super::daemon::{NOT_MEASURED, available};
use super::report::Report;
use super::stage::{Stage, settle};
use super::timing::quantile;

/// Long enough that everyone has come to rest.
const PAUSE: Duration = Duration::from_millis(2);

/// Two servers: a sender at the first, and a watcher at each.
struct Pair {
    what: String,
    /// What the figure at the first and at the second is called.
    names: [&'static str; 2],
    script: Script,
    sender: Peer,
    watchers: [Peer; 2],
    samples: [Vec<f64>; 2],
}

impl Pair {
    fn new(what: impl Into<String>, names: [&'static str; 2], here: Script, there: &Script) -> Result<Self> {
        let (sender, watchers) = (Peer::sender(&here)?, [Peer::watcher(&here)?, Peer::watcher(there)?]);
        Ok(Pair { what: what.into(), names, script: here, sender, watchers, samples: Default::default() })
    }

    /// Sends a message and waits until both watchers have it: the same message is measured at both.
    fn send(&mut self, number: u64) -> Result<[f64; 2]> {
        let publication = (self.script.publication)(number);
        let start = Instant::now();
        self.sender.say(&publication)?;
        let [here, there] = &mut self.watchers;
        here.wait_for(Frame::Delivery)?;
        let first = start.elapsed();
        there.wait_for(Frame::Delivery)?;
        let taken = [first, start.elapsed()].map(|time| time.as_secs_f64());
        self.sender.wait_for(Frame::Acknowledgement)?;
        Ok(taken)
    }
}

/// Ours and theirs, both with the same promise about the disk.
struct Contest {
    what: &'static str,
    hosts: Hosts,
    mirror: Option<Mirror>,
}

/// Adds the rows of these measurements.
pub fn measure(stage: &Stage, rounds: usize, report: &mut Report) -> Result<()> {
    let mut contest = |what, durability: &str| -> Result<Contest> {
        let name = format!("NATS JetStream, beside {what}");
        let mirror = available(&name, Mirror::start(stage, durability == "disk"), report);
        Ok(Contest { what, hosts: Hosts::start(stage, durability)?, mirror })
    };
    let contests = [contest("forged, durable", "disk")?, contest("forged, `durability = \"os\"`", "os")?];
    delays(&contests, rounds.max(20), report)?;
    rates(&contests, rounds, report)
}

/// Single messages, with nothing else going on; the pairs take turns.
fn delays(contests: &[Contest], messages: usize, report: &mut Report) -> Result<()> {
    let mut pairs = Vec::new();
    for Contest { what, hosts, mirror } in contests {
        if let Some(mirror) = mirror {
            let names = ["of the stream", "of its mirror at the other server"];
            let (here, there) = (mirror.script("delay-here", 0)?, mirror.script("delay-there", 1)?);
            pairs.push(Pair::new(&mirror.name, names, here, &there)?);
        }
        let names = ["on the same host", "on the other host"];
        pairs.push(Pair::new(*what, names, hosts.script(0)?, &hosts.script(1)?)?);
    }
    // These are not counted, so that everything has been used before.
    let uncounted = messages as u64 / 2;
    for number in 1..=uncounted + messages as u64 {
        for pair in &mut pairs {
            std::thread::sleep(PAUSE);
            let taken = pair.send(number)?;
            if number > uncounted {
                pair.samples.iter_mut().zip(taken).for_each(|(samples, taken)| samples.push(taken));
            }
        }
    }
    // The median at the second server of the NATS before it, which each of ours is compared with.
    let mut theirs = None;
    for pair in &mut pairs {
        let halves = pair.samples.each_mut().map(|samples| quantile(samples, 0.5));
        let mosts = pair.samples.each_mut().map(|samples| quantile(samples, 0.99));
        let what = |place: usize| format!("{}, to a watcher {}", pair.what, pair.names[place]);
        let figure = |place: usize| format!("p50 {:.0} µs, p99 {:.0} µs", halves[place] * 1e6, mosts[place] * 1e6);
        report.figure(what(0), figure(0));
        let ratio = halves[1] / halves[0];
        report.compared(what(1), figure(1), ratio, &format!("the one {}", pair.names[0]));
        if !pair.what.starts_with("forged") {
            theirs = Some((pair.what.clone(), halves[1]));
            continue;
        }
        report.goal("at most 2 x", ratio <= 2.0);
        match theirs.take() {
            Some((name, theirs)) => {
                let figure = format!("p50 {:.0} µs", halves[1] * 1e6);
                report.compared(format!("{}, beside a mirror", what(1)), figure, halves[1] / theirs, &name);
            }
            None => report.figure("NATS JetStream, to a watcher of its mirror at the other server", NOT_MEASURED),
        }
    }
    Ok(())
}

/// As many messages as one sender gets to a watcher on the other host, with a window of them under way.
fn rates(contests: &[Contest], rounds: usize, report: &mut Report) -> Result<()> {
    let span = Duration::from_millis(10 * rounds as u64).clamp(Duration::from_millis(200), Duration::from_secs(3));
    let turns = if rounds < 100 { 3 } else { 5 };
    let mut measured: Vec<[Vec<Rate>; 2]> = contests.iter().map(|_| Default::default()).collect();
    for turn in 0..turns {
        for (Contest { hosts, mirror, .. }, [ours, theirs]) in contests.iter().zip(&mut measured) {
            settle();
            ours.push(delivered_between(&hosts.pipelining_script(0)?, &hosts.script(1)?, 1, Writes::AllAtOnce, span)?);
            if let Some(mirror) = mirror {
                let sender = mirror.script(&format!("rate-sender-{turn}"), 0)?;
                let watcher = mirror.script(&format!("rate-{turn}"), 1)?;
                settle();
                theirs.push(delivered_between(&sender, &watcher, 1, Writes::AllAtOnce, span)?);
            }
        }
    }
    let median = |rates: &[Rate]| quantile(&mut rates.iter().map(|rate| rate.each_second).collect::<Vec<_>>(), 0.5);
    let shown = |rate: f64| format!("{rate:.0} messages/s");
    for (Contest { what, mirror, .. }, [ours, theirs]) in contests.iter().zip(&measured) {
        let (ours, what) = (median(ours), format!("relayed to the other host, {what}"));
        match mirror {
            Some(mirror) => {
                let theirs = median(theirs);
                report.figure(format!("relayed to the other server, {}, mirrored", mirror.name), shown(theirs));
                report.compared(what, shown(ours), ours / theirs, &mirror.name);
            }
            None => {
                report.figure("relayed to the other server, NATS JetStream, mirrored", NOT_MEASURED);
                report.figure(what, shown(ours));
            }
        }
    }
    Ok(())
}
