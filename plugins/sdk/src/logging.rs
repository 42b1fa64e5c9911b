//! What a plugin says to the operator: `tracing` events and panics go to the host's log.
//!
//! The subscriber and the panic hook belong to this copy of `tracing` and of the standard library, so to this library alone.
//! Several instances share them; what is said goes to the host of the newest one.

use std::fmt::{Debug, Write};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

use fmail_abi::Level;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::instance::Link;

static LINK: Mutex<Option<Arc<dyn Link>>> = Mutex::new(None);

/// Sends what is said from now on to this host.
pub(crate) fn begin(link: &Arc<dyn Link>) {
    let before = LINK.lock().unwrap_or_else(PoisonError::into_inner).replace(link.clone());
    drop(before);
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails only in a program that has a subscriber of its own, which then gets the events.
        let _ = tracing::subscriber::set_global_default(Forward(AtomicU64::new(1)));
        std::panic::set_hook(Box::new(report));
    });
    tracing::callsite::rebuild_interest_cache();
}

fn link() -> Option<Arc<dyn Link>> {
    LINK.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Tells the operator of a panic, with its place; the call that it ended is answered elsewhere.
fn report(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
    let message = format!("panicked{place}: {}", panic.payload_as_str().unwrap_or("without a text"));
    match link() {
        Some(link) if link.level() >= Level::Error as u32 => link.log(Level::Error, "panic", &message, b""),
        _ => {}
    }
}

/// Forwards events; spans have no effect.
struct Forward(AtomicU64);

impl Subscriber for Forward {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        link().is_some_and(|link| level(*metadata.level()) as u32 <= link.level())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match link().map_or(0, |link| link.level()) {
            0 => LevelFilter::OFF,
            1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }

    fn event(&self, event: &Event<'_>) {
        let Some(link) = link() else { return };
        let mut said = Said::default();
        event.record(&mut said);
        let fields =
            if said.fields.is_empty() { Vec::new() } else { Value::Object(said.fields).to_string().into_bytes() };
        link.log(level(*event.metadata().level()), event.metadata().target(), &said.message, &fields);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn level(level: tracing::Level) -> Level {
    match level {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        tracing::Level::DEBUG => Level::Debug,
        tracing::Level::TRACE => Level::Trace,
    }
}

/// The message of an event, and its other fields.
#[derive(Default)]
struct Said {
    message: String,
    fields: Map<String, Value>,
}

impl Said {
    fn put(&mut self, field: &Field, value: Value) {
        self.fields.insert(field.name().to_owned(), value);
    }
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            // Writing into a string does not fail.
            let _ = write!(self.message, "{value:?}");
        } else {
            self.put(field, Value::String(format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
        } else {
            self.put(field, value.into());
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
}
