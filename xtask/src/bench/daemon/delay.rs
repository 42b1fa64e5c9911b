//! From a send to a watcher, with nothing else going on.

use std::time::Duration;

use fmail_api::Result;

use super::load::delay;
use super::peer::{Peer, Script};
use super::{Effort, Servers};
use crate::bench::report::Report;
use crate::bench::timing::quantile;

/// Long enough that every server has come to rest.
const PAUSE: Duration = Duration::from_millis(2);

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
    let medians: Vec<f64> = sides.iter_mut().map(|side| side.quantile(0.5)).collect();
    for (place, half) in medians.iter().enumerate() {
        let most = sides[place].quantile(0.99);
        let (what, figure) = (&sides[place].what, format!("p50 {half:.0} µs, p99 {most:.0} µs"));
        let what = format!("from a send to a watcher, {what}");
        match sides[place].against {
            Some(other) => report.compared(what, figure, half / medians[other], &sides[other].what),
            None => report.figure(what, figure),
        }
    }
    Ok(())
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
