//! One sender, very many watchers, against NATS core; and what watchers cost that have nothing to do.

use fmail_api::Result;

use super::forged::Forged;
use super::load::{Rate, Writes, delivered};
use super::nats::Nats;
use super::peer::Peer;
use super::sends::{median, shown};
use super::{Effort, NOT_MEASURED, Servers, available};
use crate::bench::report::Report;
use crate::bench::stage::{Stage, settle};

/// How many watch what one sends.
const WATCHERS: [usize; 2] = [100, 1_000];
/// How many are idle.
const IDLE: usize = 1_000;
/// The most memory that they may cost.
const MOST: f64 = 64.0;

/// Adds the rows of this measurement.
pub fn measure(servers: &Servers, effort: Effort, report: &mut Report) -> Result<()> {
    for (watchers, writes) in
        [(WATCHERS[0], Writes::EachByItself), (WATCHERS[0], Writes::AllAtOnce), (WATCHERS[1], Writes::EachByItself)]
    {
        let measured = rates(servers, watchers, writes, effort)?;
        tell(servers, watchers, writes, &measured, report);
    }
    Ok(())
}

struct Measured {
    nats: Option<Rate>,
    os: Rate,
    disk: Rate,
}

fn rates(servers: &Servers, watchers: usize, writes: Writes, effort: Effort) -> Result<Measured> {
    let (mut theirs, mut disk, mut os) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.turns {
        if let Some(nats) = &servers.nats {
            settle();
            theirs.push(delivered(&nats.script()?, watchers, writes, effort.span)?);
        }
        settle();
        os.push(delivered(&servers.os.pipelining_script()?, watchers, writes, effort.span)?);
        settle();
        disk.push(delivered(&servers.disk.pipelining_script()?, watchers, writes, effort.span)?);
    }
    let nats = servers.nats.is_some().then(|| median(&theirs));
    Ok(Measured { nats, os: median(&os), disk: median(&disk) })
}

fn tell(servers: &Servers, watchers: usize, writes: Writes, measured: &Measured, report: &mut Report) {
    let sender = if writes == Writes::AllAtOnce { "1 sender that writes all at once" } else { "1 sender" };
    let what = |who: &str| format!("{sender}, {} watchers, {who}", grouped(watchers));
    let nats = servers.nats.as_ref().map(|nats| nats.name.as_str()).zip(measured.nats);
    match nats {
        Some((name, rate)) => report.figure(what(name), shown(rate, "deliveries/s")),
        None => report.figure(what("NATS"), NOT_MEASURED),
    }
    for (who, ours, goal) in
        [("forged, `durability = \"os\"`", measured.os, Some(1.0)), ("forged, durable", measured.disk, None)]
    {
        let Some((name, theirs)) = nats else {
            report.figure(what(who), shown(ours, "deliveries/s"));
            continue;
        };
        let ratio = ours.each_second / theirs.each_second;
        report.compared(what(who), shown(ours, "deliveries/s"), ratio, name);
        if let Some(goal) = goal {
            report.goal("at least level", ratio >= goal);
        }
    }
}

/// Adds the rows about watchers to whom nothing is sent. Each server is started for this alone: what another measurement
/// has left in its memory does not count.
pub fn measure_idle(stage: &Stage, report: &mut Report) -> Result<()> {
    let what = |who: &str| format!("{} idle watchers, resident memory, {who}", grouped(IDLE));
    if let Some(nats) = available("NATS", Nats::start(stage), report) {
        let watchers = (0..IDLE).map(|_| Peer::watcher(&nats.script()?)).collect::<Result<Vec<_>>>()?;
        report.figure(what(&nats.name), format!("{:.1} MB", nats.resident()?));
        drop(watchers);
    }
    let forged = Forged::start_in(stage, "daemon-idle", "disk")?;
    let alone = forged.resident()?;
    let watchers = (0..IDLE).map(|_| Peer::watcher(&forged.script()?)).collect::<Result<Vec<_>>>()?;
    let resident = forged.resident()?;
    drop(watchers);
    let each = (resident - alone) * 1e3 / IDLE as f64;
    report.figure(what("forged"), format!("{resident:.1} MB, {each:.1} kB each"));
    report.goal(&format!("under {MOST:.0} MB"), resident < MOST);
    Ok(())
}

/// The number with a comma between thousands.
fn grouped(number: usize) -> String {
    if number < 1_000 { number.to_string() } else { format!("{},{:03}", number / 1_000, number % 1_000) }
}
