//! The load generator: one thread that waits for all its connections at once, the same for every server.
//!
//! One thread, because a generator of many would take from the servers the processors that they are measured on. How busy
//! it was is measured too: a figure says something about a server only while the generator had time to spare.

use std::time::{Duration, Instant};

use fmail_api::{Error, Result};
use rustix::time::{ClockId, clock_gettime};

use super::peer::{Frame, PATIENCE, Peer, Script, wait};
use super::ready::Ready;

/// How many messages of a sender may be under way. Enough for a server to put them together; few enough that no watcher
/// falls behind so far that it is cut.
const WINDOW: u64 = 256;

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// How much each second.
    pub each_second: f64,
    /// The share of the time for which the generator was at work.
    pub busy: f64,
}

/// Time and the generator's own share of it.
struct Stopwatch {
    start: Instant,
    worked: Duration,
}

impl Stopwatch {
    fn start() -> Self {
        Stopwatch { start: Instant::now(), worked: worked() }
    }

    fn rate(&self, count: u64) -> Rate {
        let seconds = self.start.elapsed().as_secs_f64();
        Rate { each_second: count as f64 / seconds, busy: (worked() - self.worked).as_secs_f64() / seconds }
    }
}

/// The processor time of this thread.
pub fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Acknowledged publications of so many connections, each with one under way. The first fifth of the time is not counted.
pub fn acknowledged(script: &Script, connections: usize, span: Duration) -> Result<Rate> {
    acknowledged_each(&vec![script; connections], span)
}

/// The same for connections that each have a script of their own.
pub fn acknowledged_each(scripts: &[&Script], span: Duration) -> Result<Rate> {
    let mut peers = scripts.iter().map(|script| Peer::sender(script)).collect::<Result<Vec<_>>>()?;
    let mut number = 0;
    let mut next = |place: usize| {
        number += 1;
        (scripts[place].publication)(number)
    };
    peers.iter_mut().enumerate().try_for_each(|(place, peer)| peer.say(&next(place)))?;
    let mut phase = |span: Duration| -> Result<Rate> {
        let (watch, mut count) = (Stopwatch::start(), 0);
        while watch.start.elapsed() < span {
            for place in wait(peers.iter())? {
                let heard = peers[place].hear(Frame::Acknowledgement)?;
                (0..heard).try_for_each(|_| peers[place].say(&next(place)))?;
                count += heard as u64;
            }
        }
        Ok(watch.rate(count))
    };
    phase(span / 5)?;
    let rate = phase(span)?;
    // What is under way is not left to the server that has its turn next.
    peers.iter_mut().try_for_each(|peer| peer.wait_for(Frame::Acknowledgement))?;
    Ok(rate)
}

/// How a sender that may send several messages writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Each as it comes, as a program does that is handed one message after the other.
    EachByItself,
    /// All that it may at once.
    AllAtOnce,
}

/// Deliveries of one sender that does not wait for its acknowledgements to many watchers. Counted until every message is
/// acknowledged and has reached every watcher.
pub fn delivered(script: &Script, watchers: usize, writes: Writes, span: Duration) -> Result<Rate> {
    delivered_between(script, script, watchers, writes, span)
}

/// The same to watchers at another server than the sender's.
pub fn delivered_between(
    script: &Script,
    there: &Script,
    watchers: usize,
    writes: Writes,
    span: Duration,
) -> Result<Rate> {
    let mut sender = Peer::sender(script)?;
    let mut watchers = (0..watchers).map(|_| Peer::watcher(there)).collect::<Result<Vec<_>>>()?;
    let mut ready = Ready::of([&sender].into_iter().chain(&watchers))?;
    let mut phase = |span: Duration| -> Result<Rate> {
        let (watch, mut sent, mut acknowledged) = (Stopwatch::start(), 0, 0);
        let mut arrived = vec![0; watchers.len()];
        loop {
            let slowest = arrived.iter().copied().min().unwrap_or(sent);
            let open = watch.start.elapsed() < span;
            if !open && slowest == sent && (acknowledged == sent || !script.acknowledges) {
                return Ok(watch.rate(sent * watchers.len() as u64));
            }
            while open && sent < slowest + WINDOW {
                sent += 1;
                sender.keep(&(script.publication)(sent));
                if writes == Writes::EachByItself {
                    sender.write()?;
                }
            }
            sender.write()?;
            ready.look(0, &sender)?;
            let mut told = 0;
            for place in ready.wait(PATIENCE)? {
                told += 1;
                match place.checked_sub(1) {
                    None => acknowledged += sender.hear(Frame::Acknowledgement)? as u64,
                    Some(place) => arrived[place] += watchers[place].hear(Frame::Delivery)? as u64,
                }
            }
            if told == 0 {
                return Err(Error::internal(format!("a server said nothing for {} s", PATIENCE.as_secs())));
            }
        }
    };
    phase(span / 5)?;
    phase(span)
}

/// How long the message with this number takes from before it is sent until the watcher has it, in seconds. The next one
/// is not sent before this one is acknowledged.
pub fn delay(script: &Script, sender: &mut Peer, watcher: &mut Peer, number: u64) -> Result<f64> {
    let publication = (script.publication)(number);
    if let Some(request) = script.request {
        watcher.say(&request(number))?;
    }
    let start = Instant::now();
    sender.say(&publication)?;
    watcher.wait_for(Frame::Delivery)?;
    let taken = start.elapsed();
    if script.acknowledges {
        sender.wait_for(Frame::Acknowledgement)?;
    }
    Ok(taken.as_secs_f64())
}
