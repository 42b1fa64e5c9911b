//! The daemon under load, beside servers that people know, under the same load from the same generator.

mod background;
mod delay;
mod fanout;
pub(super) mod forged;
pub(super) mod jetstream;
pub(super) mod load;
pub(super) mod message;
pub(super) mod nats;
pub(super) mod peer;
pub(super) mod process;
mod ready;
mod redis;
mod sends;

use std::time::Duration;

use fmail_api::Result;

use self::forged::Forged;
use self::jetstream::JetStream;
use self::nats::Nats;
use self::redis::Redis;
use super::report::Report;
use super::stage::Stage;

/// Everything that is measured here, running.
struct Servers {
    disk: Forged,
    os: Forged,
    redis: Option<Redis>,
    nats: Option<Nats>,
    jetstream: Option<JetStream>,
}

/// What a row shows for a server that is not there.
pub(super) const NOT_MEASURED: &str = "not measured";

/// A server of others, or a row with the reason why it is left out: what others cannot do here fails nothing.
pub(super) fn available<T>(name: &str, started: Result<T>, report: &mut Report) -> Option<T> {
    started.inspect_err(|error| report.figure(name, format!("{NOT_MEASURED}: {error}"))).ok()
}

/// How much is measured.
#[derive(Clone, Copy)]
struct Effort {
    /// How often the servers take turns.
    turns: usize,
    /// How long a turn takes.
    span: Duration,
    /// How many single messages are timed.
    messages: usize,
}

impl Effort {
    fn of(rounds: usize) -> Self {
        let span = Duration::from_millis(10 * rounds as u64).clamp(Duration::from_millis(100), Duration::from_secs(2));
        Effort { turns: if rounds < 100 { 3 } else { 5 }, span, messages: (5 * rounds).max(20) }
    }
}

/// Adds the rows of these measurements.
pub fn measure(stage: &Stage, rounds: usize, report: &mut Report) -> Result<()> {
    let servers = Servers {
        disk: Forged::start(stage, "disk")?,
        os: Forged::start(stage, "os")?,
        redis: available("Redis", Redis::start(stage), report),
        nats: available("NATS", Nats::start(stage), report),
        jetstream: available("NATS JetStream", JetStream::with_stream(stage, "sends", true, ""), report),
    };
    let effort = Effort::of(rounds);
    let sustained = sends::measure(stage, &servers, effort, report)?;
    sends::measure_ways(stage, effort, report)?;
    fanout::measure(&servers, effort, report)?;
    fanout::measure_idle(stage, report)?;
    delay::measure(&servers, effort, report)?;
    delay::measure_loaded(&servers, sustained, effort, report)
}
