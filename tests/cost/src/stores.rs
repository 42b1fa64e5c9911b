//! Stores as forged opens them, with everything that is put around a plugin: appends and scans, taking turns.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fmail_api::{Draft, Error, Event, Query, Result, Store};
use futures::StreamExt;
use futures::executor::block_on;

use crate::place::Place;
use crate::say;

/// What is compared, and whether it answers only when a message would survive a power cut.
const STORES: [(&str, bool); 6] = [
    ("files", true),
    ("sqlite", true),
    ("memory", false),
    ("example-rust", false),
    ("example-c", false),
    ("example-python", false),
];

/// So many senders at once.
const SENDERS: [u32; 3] = [1, 16, 64];

/// A turn of a store that keeps everything in memory ends with so many messages, so that memory is not what is measured.
const MOST: u32 = 20_000;

/// How much is measured.
pub struct Extent {
    /// How long a turn of appends takes.
    pub span: Duration,
    /// How many turns each store has; the median counts.
    pub turns: u32,
    /// How many messages a scan delivers.
    pub messages: u32,
}

/// Measures each store with each number of senders, and then how long a scan takes for each message.
pub fn run(directory: &Path, extent: &Extent) -> Result<()> {
    let contestants = STORES.map(|(name, durable)| Contestant { name, durable, root: directory.join(name) });
    for senders in SENDERS {
        rounds(&contestants, extent, &format!("append {senders}"), |one, store| {
            let most = if one.durable { u32::MAX } else { MOST };
            appends(store, senders, extent.span, most)
        })?;
    }
    rounds(&contestants, extent, "scan", |_, store| {
        // A durable store has these from its turns with senders, which is why a limit is asked for.
        while scan(store, extent.messages)?.0 < extent.messages {
            appends(store, 16, extent.span, extent.messages)?;
        }
        Ok(scan(store, extent.messages)?.1)
    })
}

/// One of those that are compared.
struct Contestant {
    name: &'static str,
    durable: bool,
    root: PathBuf,
}

impl Contestant {
    fn open(&self) -> Result<Arc<dyn Store>> {
        std::fs::create_dir_all(&self.root).map_err(|error| Error::io("creating a project", &error))?;
        let store = Place::new(&self.root)?.store(self.name)?;
        match store.capabilities().durable == self.durable {
            true => Ok(store),
            false => Err(Error::internal(format!("the store `{}` says otherwise of its durability", self.name))),
        }
    }
}

/// Lets all take turns, each with its store opened for the turn, and prints the median of each.
fn rounds(
    contestants: &[Contestant],
    extent: &Extent,
    what: &str,
    turn: impl Fn(&Contestant, &Arc<dyn Store>) -> Result<Duration>,
) -> Result<()> {
    let mut taken = vec![Vec::new(); contestants.len()];
    for _ in 0..extent.turns {
        for (contestant, taken) in contestants.iter().zip(&mut taken) {
            let store = contestant.open()?;
            taken.push(turn(contestant, &store)?);
            block_on(store.close())?;
        }
    }
    for (contestant, taken) in contestants.iter().zip(&mut taken) {
        taken.sort();
        say(&format!("{what} {}", contestant.name), taken[taken.len() / 2]);
    }
    Ok(())
}

/// The time per message while so many threads append one message after the other.
fn appends(store: &Arc<dyn Store>, senders: u32, span: Duration, most: u32) -> Result<Duration> {
    let (sent, over) = (AtomicU32::new(0), AtomicBool::new(false));
    let durable = store.capabilities().durable;
    let send = || -> Result<()> {
        while !over.load(Ordering::Relaxed) && sent.load(Ordering::Relaxed) < most {
            let draft = Draft::new("worker-one".parse()?, "task".parse()?, "x".repeat(200));
            let done = block_on(store.append(draft))?;
            if let Some(why) = done.not_durable.filter(|_| durable) {
                return Err(Error::internal(format!("a message was not made durable: {why}")));
            }
            sent.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let begun = Instant::now();
    let end = std::thread::scope(|scope| {
        let running: Vec<_> = (0..senders).map(|_| scope.spawn(send)).collect();
        while begun.elapsed() < span && running.iter().any(|sender| !sender.is_finished()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        over.store(true, Ordering::Relaxed);
        let panicked = |_| Err(Error::internal("a sender panicked"));
        running.into_iter().try_for_each(|sender| sender.join().unwrap_or_else(panicked))?;
        Ok::<_, Error>(begun.elapsed())
    })?;
    Ok(end / sent.into_inner().max(1))
}

/// How many messages a scan of at most so many delivers, and the time that it takes for each.
fn scan(store: &Arc<dyn Store>, messages: u32) -> Result<(u32, Duration)> {
    let query = Query { limit: Some(messages as usize), ..Query::default() };
    let begun = Instant::now();
    let count = block_on(async {
        let (mut events, mut count) = (store.scan(query).await?.messages, 0);
        while let Some(event) = events.next().await {
            count += u32::from(matches!(event?, Event::Message(_)));
        }
        Ok::<_, Error>(count)
    })?;
    Ok((count, begun.elapsed() / count.max(1)))
}
