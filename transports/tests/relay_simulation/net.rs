//! Simulated links: they delay, stall and are cut, also in the middle of a request; they never change or repeat anything.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{Client, Context, Error, ErrorKind, Event, Place, Reply, Request, Result};
use fmail_core::Operations;
use fmail_fuzz::Dice;
use futures::StreamExt;
use futures::stream::unfold;
use tokio::time::sleep;

use crate::flag::Flag;

/// What all links of a run share: the dice, and what is told of them.
pub struct Net {
    dice: Mutex<Dice>,
    trace: AtomicU64,
    /// How often each message has crossed each link, either way.
    pub crossings: Mutex<BTreeMap<(usize, Place), usize>>,
    /// The longest delay of one way, in milliseconds.
    pub slowest: AtomicU64,
    began: tokio::time::Instant,
    /// Whether what happens is also told.
    tells: bool,
}

impl Net {
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Net {
            dice: Mutex::new(Dice::new(seed)),
            trace: AtomicU64::new(0xcbf2_9ce4_8422_2325),
            crossings: Mutex::default(),
            slowest: AtomicU64::new(40),
            began: tokio::time::Instant::now(),
            tells: std::env::var_os("FMAIL_RELAY_TRACE").is_some(),
        })
    }

    pub fn roll(&self, sides: usize) -> usize {
        self.dice.lock().unwrap().roll(sides)
    }

    pub fn number(&self) -> u64 {
        self.dice.lock().unwrap().number()
    }

    /// Notes that something happened now. Two runs of one seed note the same.
    pub fn trace(&self, what: &str) {
        let now = self.began.elapsed().as_micros() as u64;
        let mut hash = self.trace.load(Ordering::Relaxed);
        for byte in now.to_le_bytes().iter().chain(what.as_bytes()) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.trace.store(hash, Ordering::Relaxed);
        if self.tells {
            println!("{:>9.4} {what}", now as f64 / 1e6);
        }
    }

    pub fn traced(&self) -> u64 {
        self.trace.load(Ordering::Relaxed)
    }

    fn crossed(&self, link: usize, place: Place) {
        *self.crossings.lock().unwrap().entry((link, place)).or_default() += 1;
    }
}

/// How a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    Clear,
    /// Nothing moves, and nobody is told.
    Stalled,
    /// Nobody can be reached, and connections are gone.
    Cut,
}

/// One connection over a link, to the operations of a host as it is in one run.
pub struct Connection {
    pub link: usize,
    pub net: Arc<Net>,
    pub weather: Flag<Weather>,
    /// Turns true when the host at the other end is gone.
    pub gone: Flag<bool>,
    pub there: Arc<Operations>,
}

impl Connection {
    /// Resolves when the connection is gone.
    pub async fn ended(&self) -> Error {
        tokio::select! {
            biased;
            () = self.weather.wait_for(|weather| weather == Weather::Cut) => {}
            () = self.gone.wait_for(|gone| gone) => {}
        }
        Error::new(ErrorKind::Unavailable, "the simulated connection is cut")
    }

    async fn unless_cut<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            error = self.ended() => Err(error),
            done = work => Ok(done),
        }
    }

    /// One way over the link.
    async fn travel(&self) -> Result<()> {
        let slowest = self.net.slowest.load(Ordering::Relaxed) as usize;
        let delay = Duration::from_micros(self.net.roll(slowest * 1_000 + 1) as u64);
        self.unless_cut(async {
            sleep(delay).await;
            self.weather.wait_for(|weather| weather != Weather::Stalled).await;
        })
        .await
    }
}

/// The client's side of a connection. Cheap to clone, so that streams keep it.
#[derive(Clone)]
pub struct Wire(pub Arc<Connection>);

#[async_trait]
impl Client for Wire {
    async fn call(&self, context: &Context, request: Request) -> Result<Reply> {
        let name = named(&request);
        self.0.net.trace(&format!("{} > {name}", self.0.link));
        self.0.travel().await?;
        match &request {
            Request::Import(import) => self.0.net.crossed(self.0.link, Place::of(&import.message)),
            Request::ImportMany(import) => {
                import.messages.iter().for_each(|message| self.0.net.crossed(self.0.link, Place::of(message)));
            }
            _ => {}
        }
        // What has arrived is done, also when the connection is cut meanwhile and nobody hears of it.
        let reply = self.0.there.call(context, request).await;
        self.0.travel().await?;
        let answered = if reply.is_ok() { "ok" } else { "error" };
        self.0.net.trace(&format!("{} < {name} {answered}", self.0.link));
        let Reply { head, events } = reply?;
        let Some(events) = events else { return Ok(Reply::new(head)) };
        let wire = self.clone();
        let carried = unfold(Some((events, wire)), |state| async {
            let (mut events, wire) = state?;
            let next = match wire.0.unless_cut(events.next()).await {
                Ok(next) => next?,
                Err(error) => return Some((Err(error), None)),
            };
            if let Err(error) = wire.0.travel().await {
                return Some((Err(error), None));
            }
            if let Ok(Event::Message(delivery)) = &next {
                let place = Place::of(&delivery.message);
                wire.0.net.trace(&format!("{} < {place}", wire.0.link));
                wire.0.net.crossed(wire.0.link, place);
            }
            let more = next.is_ok();
            Some((next, more.then_some((events, wire))))
        });
        Ok(Reply::streaming(head, carried.boxed()))
    }
}

fn named(request: &Request) -> String {
    match request {
        Request::Import(import) => format!("import {}", Place::of(&import.message)),
        Request::ImportMany(import) => {
            let places: Vec<String> = import.messages.iter().map(|message| Place::of(message).to_string()).collect();
            format!("import_many {}", places.join(" "))
        }
        Request::Digest(digest) => format!("digest {}", digest.held.len()),
        Request::Fetch(fetch) => format!("fetch {} {}", fetch.places.len(), fetch.stretches.len()),
        Request::Records(_) => "records".into(),
        Request::Relay(_) => "relay".into(),
        Request::Hello(_) => "hello".into(),
        _ => "other".into(),
    }
}
