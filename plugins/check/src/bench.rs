//! What a store plugin costs, beside the built-in store in memory, in one run.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use fmail_api::{
    AgentName, Cursor, DEFAULT_MAX_MESSAGE_BYTES, Draft, Error, Event, Expect, Query, RecordKey, Result, Store, Target,
};
use fmail_backends::{MemoryStore, SystemClock};
use fmail_conformance::Subject;
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::json;

use crate::subject::StoreProject;
use crate::which::Which;

/// Measure
#[derive(Args)]
pub struct Bench {
    #[command(flatten)]
    which: Which,

    /// How many messages each measurement handles
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    messages: u32,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One measurement: how long one of them takes.
struct Figure {
    what: &'static str,
    /// The middle one.
    median: Duration,
    /// How many a second, over all.
    rate: f64,
}

impl Bench {
    pub fn run(self) -> Result<()> {
        let memory = MemoryStore::new(DEFAULT_MAX_MESSAGE_BYTES, Arc::new(SystemClock));
        let base = figures(&memory, self.messages)?;
        let project = StoreProject::new(&self.which)?;
        let store = project.open()?;
        let own = figures(&*store, self.messages)?;
        block_on(store.close())?;
        let mut out = std::io::stdout().lock();
        let mut line = |text: String| writeln!(out, "{text}").map_err(|error| Error::io("cannot print", &error));
        if self.json {
            let rows = own.iter().zip(&base).map(|(own, base)| {
                json!({
                    "what": own.what,
                    "plugin": {"median_us": micros(own.median), "per_second": own.rate},
                    "memory": {"median_us": micros(base.median), "per_second": base.rate},
                    "ratio": ratio(own, base),
                })
            });
            let rows: Vec<_> = rows.collect();
            return line(
                json!({"plugin": store.capabilities().name, "messages": self.messages, "figures": rows}).to_string(),
            );
        }
        line(format!(
            "{:24} {:>12} {:>12} {:>8}   {:>12}",
            "",
            store.capabilities().name,
            "memory",
            "ratio",
            "per second"
        ))?;
        for (own, base) in own.iter().zip(&base) {
            let (mine, theirs) = (micros(own.median), micros(base.median));
            line(format!(
                "{:24} {mine:>9.1} us {theirs:>9.1} us {:>7.1}x   {:>12.0}",
                own.what,
                ratio(own, base),
                own.rate
            ))?;
        }
        Ok(())
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn ratio(own: &Figure, base: &Figure) -> f64 {
    own.median.as_secs_f64() / base.median.as_secs_f64().max(1e-9)
}

/// Every measurement of a store.
fn figures(store: &dyn Store, messages: u32) -> Result<Vec<Figure>> {
    let key: RecordKey = "leases".parse()?;
    Ok(vec![
        each("append", messages, |number| append(store, number))?,
        each("put", messages.min(1000), |number| {
            block_on(store.put(&key, Expect::Anything, json!({ "number": number }), false)).map(drop)
        })?,
        each("get", messages, |_| block_on(store.get(&key)).map(drop))?,
        scan(store, messages)?,
        watch(store, messages.min(500))?,
    ])
}

fn append(store: &dyn Store, number: u32) -> Result<()> {
    let (from, to): (AgentName, Target) = ("alice".parse()?, "task".parse()?);
    let body = format!("message {number}, as long as most of them are: {}", "x".repeat(120));
    block_on(store.append(Draft::new(from, to, body))).map(drop)
}

fn each(what: &'static str, count: u32, mut run: impl FnMut(u32) -> Result<()>) -> Result<Figure> {
    let start = Instant::now();
    let mut times = Vec::new();
    for number in 0..count.max(1) {
        let start = Instant::now();
        run(number)?;
        times.push(start.elapsed());
    }
    Ok(figure(what, times, start.elapsed()))
}

fn figure(what: &'static str, mut times: Vec<Duration>, whole: Duration) -> Figure {
    let rate = times.len() as f64 / whole.as_secs_f64().max(1e-9);
    times.sort();
    Figure { what, median: times.get(times.len() / 2).copied().unwrap_or_default(), rate }
}

/// Reads everything; what one message takes on average.
fn scan(store: &dyn Store, messages: u32) -> Result<Figure> {
    let start = Instant::now();
    let read = block_on(async {
        let mut scan = store.scan(Query::default()).await?;
        let mut read = 0_u32;
        while let Some(event) = scan.messages.next().await {
            read += u32::from(matches!(event?, Event::Message(_)));
        }
        Ok::<u32, Error>(read)
    })?;
    if read != messages.max(1) {
        return Err(Error::internal(format!("{messages} messages were appended, and a scan delivers {read}")));
    }
    let whole = start.elapsed();
    Ok(Figure { what: "scan, each message", median: whole / read, rate: f64::from(read) / whole.as_secs_f64() })
}

/// From an append to the message in an open watch.
fn watch(store: &dyn Store, count: u32) -> Result<Figure> {
    let end: Cursor = block_on(store.scan(Query::default()))?.cursor;
    let mut events = block_on(store.watch(Query::default(), end))?;
    each("append to watch", count, |number| {
        append(store, number)?;
        loop {
            match block_on(events.next()) {
                Some(Ok(Event::Message(_))) => return Ok(()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Err(Error::internal("the watch ended")),
            }
        }
    })
}
