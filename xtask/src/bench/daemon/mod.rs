//! The daemon under load, beside servers that people know, under the same load from the same generator.

mod delay;
mod fanout;
pub(super) mod forged;
pub(super) mod load;
pub(super) mod message;
pub(super) mod nats;
pub(super) mod peer;
pub(super) mod process;
mod redis;
mod sends;

use std::time::Duration;

use fmail_api::Result;

use self::forged::Forged;
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
}

/// What a row shows for a server that is not there.
pub(super) const NOT_MEASURED: &str = "not measured";

/// A server of others, or the reason why it is left out. Not in the table: it is about this machine.
pub(super) fn available<T>(name: &str, started: Result<T>) -> Option<T> {
    started.inspect_err(|error| eprintln!("{name} is not measured: {error}")).ok()
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
        Effort { turns: if rounds < 100 { 3 } else { 5 }, span, messages: rounds.max(20) }
    }
}

/// Adds the rows of these measurements.
pub fn measure(stage: &Stage, rounds: usize, report: &mut Report) -> Result<()> {
    let servers = Servers {
        disk: Forged::start(stage, "disk")?,
        os: Forged::start(stage, "os")?,
        redis: available("Redis", Redis::start(stage)),
        nats: available("NATS", Nats::start(stage)),
    };
    let effort = Effort::of(rounds);
    sends::measure(stage, &servers, effort, report)?;
    fanout::measure(&servers, effort, report)?;
    delay::measure(&servers, effort, report)
}
