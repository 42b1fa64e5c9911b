//! Durable messages per second, on several stores that take turns.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fmail_api::{Draft, Error, Result, Store};
use futures::executor::block_on;

use crate::place::Place;
use crate::say;

/// What is compared.
const STORES: [&str; 2] = ["files", "sqlite"];
/// So many senders at once.
const SENDERS: [u32; 3] = [1, 16, 64];
/// So many turns each; the median counts.
const TURNS: usize = 3;

/// Measures each store with each number of senders, for so long.
pub fn run(directory: &Path, turn: Duration) -> Result<()> {
    let mut stores = Vec::new();
    for name in STORES {
        let root = directory.join(format!("sends-{name}"));
        std::fs::create_dir_all(&root).map_err(|error| Error::io("creating a project", &error))?;
        let store = Place::new(&root)?.store(name)?;
        if !store.capabilities().durable {
            return Err(Error::internal(format!("the store `{name}` is not durable")));
        }
        stores.push((name, store));
    }
    for senders in SENDERS {
        let mut taken = vec![Vec::new(); stores.len()];
        for _ in 0..TURNS {
            for ((_, store), taken) in stores.iter().zip(&mut taken) {
                taken.push(one_turn(store, senders, turn)?);
            }
        }
        for ((name, _), taken) in stores.iter().zip(&mut taken) {
            taken.sort();
            say(&format!("sends {name} {senders}"), taken[TURNS / 2]);
        }
    }
    stores.iter().try_for_each(|(_, store)| block_on(store.close()))
}

/// The time per message while so many threads send one message after the other.
fn one_turn(store: &Arc<dyn Store>, senders: u32, turn: Duration) -> Result<Duration> {
    let (sent, over) = (AtomicU32::new(0), AtomicBool::new(false));
    let send = || -> Result<()> {
        while !over.load(Ordering::Relaxed) {
            let draft = Draft::new("worker-one".parse()?, "task".parse()?, "x".repeat(200));
            let done = block_on(store.append(draft))?;
            if let Some(why) = done.not_durable {
                return Err(Error::internal(format!("a message was not made durable: {why}")));
            }
            sent.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..senders).map(|_| scope.spawn(send)).collect();
        std::thread::sleep(turn);
        over.store(true, Ordering::Relaxed);
        let panicked = |_| Err(Error::internal("a sender panicked"));
        running.into_iter().try_for_each(|sender| sender.join().unwrap_or_else(panicked))
    })?;
    Ok(begun.elapsed() / sent.into_inner().max(1))
}
