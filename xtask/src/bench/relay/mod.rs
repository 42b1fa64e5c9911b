//! From host to host: two daemons that relay, beside two NATS servers of which one mirrors a stream of the other.
//!
//! Both hosts are on this machine, with loopback between them: what is measured is the programs, not a network.

mod hosts;
mod mirror;

use std::time::{Duration, Instant};

use fmail_api::Result;

use self::hosts::Hosts;
use self::mirror::Mirror;
use super::daemon::load::{Rate, delivered_between};
use super::daemon::peer::{Frame, Peer, Script};
use super::daemon::{NOT_MEASURED, available};
use super::report::Report;
use super::stage::Stage;
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

/// Adds the rows of these measurements.
pub fn measure(stage: &Stage, rounds: usize, report: &mut Report) -> Result<()> {
    let disk = Hosts::start(stage, "disk")?;
    let os = Hosts::start(stage, "os")?;
    let mirror = available("NATS", Mirror::start(stage));
    delays(&disk, &os, mirror.as_ref(), rounds.max(20), report)?;
    rates(&disk, &os, mirror.as_ref(), rounds, report)
}

/// Single messages, with nothing else going on; the pairs take turns.
fn delays(disk: &Hosts, os: &Hosts, mirror: Option<&Mirror>, messages: usize, report: &mut Report) -> Result<()> {
    let names = ["on the same host", "on the other host"];
    let mut pairs = Vec::new();
    for (name, hosts) in [("forged, durable", disk), ("forged, `durability = \"os\"`", os)] {
        pairs.push(Pair::new(name, names, hosts.script(0)?, &hosts.script(1)?)?);
    }
    if let Some(mirror) = mirror {
        let names = ["of the stream", "of its mirror at the other server"];
        let (here, there) = (mirror.script("delay-here", 0)?, mirror.script("delay-there", 1)?);
        pairs.push(Pair::new(&mirror.name, names, here, &there)?);
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
    // The median at the second server of NATS, which ours are compared with.
    let of_mirror = mirror.and(pairs.last_mut()).map(|pair| quantile(&mut pair.samples[1], 0.5));
    for pair in &mut pairs {
        let halves = pair.samples.each_mut().map(|samples| quantile(samples, 0.5));
        let mosts = pair.samples.each_mut().map(|samples| quantile(samples, 0.99));
        let what = |place: usize| format!("{}, to a watcher {}", pair.what, pair.names[place]);
        let figure = |place: usize| format!("p50 {:.0} µs, p99 {:.0} µs", halves[place] * 1e6, mosts[place] * 1e6);
        report.figure(what(0), figure(0));
        let ratio = halves[1] / halves[0];
        report.compared(what(1), figure(1), ratio, pair.names[0]);
        if pair.what.starts_with("forged") {
            report.goal("at most 2 x", ratio <= 2.0);
        }
    }
    match (of_mirror, pairs.first_mut()) {
        (Some(theirs), Some(ours)) => {
            let ours = quantile(&mut ours.samples[1], 0.5);
            let what = "forged, durable, to a watcher on the other host, beside the mirror";
            report.compared(what, format!("p50 {:.0} µs", ours * 1e6), ours / theirs, "NATS' mirror");
        }
        _ => report.figure("NATS JetStream, to a watcher of its mirror at the other server", NOT_MEASURED),
    }
    Ok(())
}

/// As many messages as one sender gets to a watcher on the other host, with a window of them under way.
fn rates(disk: &Hosts, os: &Hosts, mirror: Option<&Mirror>, rounds: usize, report: &mut Report) -> Result<()> {
    let span = Duration::from_millis(10 * rounds as u64).clamp(Duration::from_millis(200), Duration::from_secs(3));
    let turns = if rounds < 100 { 3 } else { 5 };
    let (mut durable, mut written, mut mirrored) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..turns {
        durable.push(delivered_between(&disk.pipelining_script(0)?, &disk.script(1)?, 1, span)?);
        written.push(delivered_between(&os.pipelining_script(0)?, &os.script(1)?, 1, span)?);
        if let Some(mirror) = mirror {
            let sender = mirror.script(&format!("rate-sender-{turn}"), 0)?;
            mirrored.push(delivered_between(&sender, &mirror.script(&format!("rate-{turn}"), 1)?, 1, span)?);
        }
    }
    let median = |rates: &[Rate]| quantile(&mut rates.iter().map(|rate| rate.each_second).collect::<Vec<_>>(), 0.5);
    let shown = |rate: f64| format!("{rate:.0} messages/s");
    let what = |name: &str| format!("relayed to another host, {name}");
    let theirs = mirror.map(|mirror| (mirror, median(&mirrored)));
    match theirs {
        Some((mirror, rate)) => report.figure(what(&format!("{}, mirrored stream", mirror.name)), shown(rate)),
        None => report.figure(what("NATS, mirrored stream"), NOT_MEASURED),
    }
    for (name, rate) in [("forged, `durability = \"os\"`", median(&written)), ("forged, durable", median(&durable))] {
        match theirs {
            Some((mirror, theirs)) => report.compared(what(name), shown(rate), rate / theirs, &mirror.name),
            None => report.figure(what(name), shown(rate)),
        }
    }
    Ok(())
}
