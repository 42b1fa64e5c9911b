//! A load that goes on while something else is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fmail_api::{Error, Result};

use super::peer::{Frame, Peer, Script};
use super::ready::Ready;

/// One sender that keeps to a pace, and watchers that take what it sends. It ends with [`Background::end`].
pub struct Background {
    ending: Arc<AtomicBool>,
    thread: JoinHandle<Result<f64>>,
}

impl Background {
    /// Sends so many messages each second, evenly, to so many watchers.
    pub fn start(script: Script, watchers: usize, each_second: f64) -> Result<Self> {
        let sender = Peer::sender(&script)?;
        let watchers = (0..watchers).map(|_| Peer::watcher(&script)).collect::<Result<Vec<_>>>()?;
        let ending = Arc::new(AtomicBool::new(false));
        let ended = ending.clone();
        let thread = std::thread::Builder::new()
            .name("background".into())
            .spawn(move || load(&script, sender, watchers, each_second, &ended))
            .map_err(|error| Error::io("no thread for the load", &error))?;
        Ok(Background { ending, thread })
    }

    /// Ends the load and tells how many messages each second it was.
    pub fn end(self) -> Result<f64> {
        self.ending.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(Error::internal("the load ended unexpectedly")))
    }
}

fn load(
    script: &Script,
    mut sender: Peer,
    mut watchers: Vec<Peer>,
    each_second: f64,
    ended: &AtomicBool,
) -> Result<f64> {
    let mut ready = Ready::of([&sender].into_iter().chain(&watchers))?;
    let (start, mut sent) = (Instant::now(), 0_u64);
    let due = |number: u64| start + Duration::from_secs_f64(number as f64 / each_second);
    while !ended.load(Ordering::Relaxed) {
        // What is late goes out at once: the pace is kept, whatever the server does.
        while due(sent) <= Instant::now() {
            sent += 1;
            sender.keep(&(script.publication)(sent));
        }
        sender.write()?;
        ready.look(0, &sender)?;
        for place in ready.wait(due(sent).saturating_duration_since(Instant::now()))? {
            match place.checked_sub(1) {
                None => sender.hear(Frame::Acknowledgement)?,
                Some(place) => watchers[place].hear(Frame::Delivery)?,
            };
        }
    }
    Ok(sent as f64 / start.elapsed().as_secs_f64())
}
