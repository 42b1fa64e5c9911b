//! From a send to a watcher: with nothing else going on, and while a server does half of what it can.

use std::time::Duration;

use fmail_api::Result;

use super::background::Background;
use super::load::delay;
use super::peer::{Peer, Script};
use super::{Effort, Servers};
use crate::bench::report::Report;
use crate::bench::stage::settle;
use crate::bench::timing::quantile;

/// Long enough that every server has come to rest.
const PAUSE: Duration = Duration::from_millis(2);
/// The goal for what 99 of 100 messages take, in microseconds.
const MOST: f64 = 1_000.0;

/// One server's part, with its two connections.
struct Side {
    what: String,
    script: Script,
    sender: Peer,
    watcher: Peer,
    samples: Vec<f64>,
    /// The place of the side that this one is compared with.
    against: Option<usize>,
}

impl Side {
    fn new(what: impl Into<String>, script: Script) -> Result<Self> {
        let (sender, watcher) = (Peer::sender(&script)?, Peer::watcher(&script)?);
        Ok(Side { what: what.into(), script, sender, watcher, samples: Vec::new(), against: None })
    }

    fn against(mut self, other: Option<usize>) -> Self {
        self.against = other;
        self
    }

    /// In microseconds.
    fn quantile(&mut self, share: f64) -> f64 {
        quantile(&mut self.samples, share) * 1e6
    }
}

/// Adds the rows of this measurement.
pub fn measure(servers: &Servers, effort: Effort, report: &mut Report) -> Result<()> {
    let mut sides = sides(servers)?;
    // These are not counted, so that everything has been used before.
    let uncounted = effort.messages as u64 / 2;
    for number in 1..=uncounted + effort.messages as u64 {
        for side in &mut sides {
            std::thread::sleep(PAUSE);
            let taken = delay(&side.script, &mut side.sender, &mut side.watcher, number)?;
            if number > uncounted {
                side.samples.push(taken);
            }
        }
    }
    tell(&mut sides, "", report);
    Ok(())
}

/// The same while another sender sends half as many messages as forged has stored durably from 16 connections, the same for
/// all. One server after the other: nobody has the load of another.
pub fn measure_loaded(servers: &Servers, sustained: f64, effort: Effort, report: &mut Report) -> Result<()> {
    let mut sides = Vec::new();
    if let Some(nats) = &servers.nats {
        sides.push(loaded(&nats.name, nats.quiet_script()?, nats.script()?, sustained, effort)?);
    }
    let against = (!sides.is_empty()).then_some(0);
    for (what, forged) in [("forged, `durability = \"os\"`", &servers.os), ("forged, durable", &servers.disk)] {
        let side = loaded(what, forged.quiet_script()?, forged.pipelining_script()?, sustained, effort)?;
        sides.push(side.against(against));
    }
    tell(&mut sides, " at half load", report);
    Ok(())
}

fn loaded(what: &str, script: Script, load: Script, each_second: f64, effort: Effort) -> Result<Side> {
    settle();
    let background = Background::start(load, 1, each_second / 2.0)?;
    let mut side = Side::new(what, script)?;
    let uncounted = effort.messages as u64 / 2;
    for number in 1..=uncounted + effort.messages as u64 {
        std::thread::sleep(PAUSE);
        let taken = delay(&side.script, &mut side.sender, &mut side.watcher, number)?;
        if number > uncounted {
            side.samples.push(taken);
        }
    }
    background.end()?;
    Ok(side)
}

/// Adds a row for each side.
fn tell(sides: &mut [Side], when: &str, report: &mut Report) {
    let medians: Vec<f64> = sides.iter_mut().map(|side| side.quantile(0.5)).collect();
    for (place, half) in medians.iter().enumerate() {
        let most = sides[place].quantile(0.99);
        let (what, figure) = (&sides[place].what, format!("p50 {half:.0} µs, p99 {most:.0} µs"));
        let is_ours = what.starts_with("forged");
        let what = format!("from a send to a watcher{when}, {what}");
        match sides[place].against {
            Some(other) => report.compared(what, figure, half / medians[other], &sides[other].what),
            None => report.figure(what, figure),
        }
        if is_ours {
            report.goal("p99 under 1 ms", most < MOST);
        }
    }
}

/// Everyone who runs: first those who sync nothing, then those who sync a message before they answer.
fn sides(servers: &Servers) -> Result<Vec<Side>> {
    let mut sides = Vec::new();
    if let Some(redis) = &servers.redis {
        sides.push(Side::new(format!("{} `PUBLISH`", redis.name), redis.channel()?)?);
    }
    if let Some(nats) = &servers.nats {
        sides.push(Side::new(&nats.name, nats.script()?)?);
    }
    let nats = servers.nats.is_some().then(|| sides.len() - 1);
    sides.push(Side::new("forged, `durability = \"os\"`", servers.os.script()?)?.against(nats));
    if let Some(redis) = &servers.redis {
        sides.push(Side::new(format!("{} `XREAD BLOCK`", redis.name), redis.numbered_stream()?)?);
    }
    let redis = servers.redis.is_some().then(|| sides.len() - 1);
    sides.push(Side::new("forged, durable", servers.disk.script()?)?.against(redis));
    Ok(sides)
}
