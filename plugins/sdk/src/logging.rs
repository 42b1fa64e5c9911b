//! What a plugin says to the operator: `tracing` events and panics go to the host's log.
//!
//! The subscriber and the panic hook belong to this copy of `tracing` and of the standard library, so to this library alone;
//! its instances share them. What is said while a call of an instance runs goes to that instance's log. What is said
//! elsewhere, by a task or a thread of the plugin's own, goes to the newest instance that is alive.

use std::cell::RefCell;
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

/// The instances that are alive, the newest last.
static ALIVE: Mutex<Vec<Arc<dyn Link>>> = Mutex::new(Vec::new());

thread_local! {
    /// The instance whose code runs on this thread.
    static CURRENT: RefCell<Option<Arc<dyn Link>>> = const { RefCell::new(None) };
}

/// An instance is there and may speak.
pub(crate) fn begin(link: &Arc<dyn Link>) {
    ALIVE.lock().unwrap_or_else(PoisonError::into_inner).push(link.clone());
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails only in a program that has a subscriber of its own, which then gets the events.
        let _ = tracing::subscriber::set_global_default(Forward(AtomicU64::new(1)));
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !report(panic) {
                before(panic);
            }
        }));
    });
    tracing::callsite::rebuild_interest_cache();
}

/// An instance is gone: nobody hears what it says.
pub(crate) fn end(link: &Arc<dyn Link>) {
    let mut alive = ALIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let at = alive.iter().position(|other| Arc::ptr_eq(other, link));
    let gone = at.map(|at| alive.remove(at));
    drop(alive);
    drop(gone);
}

/// Runs code of an instance: what it says goes to that instance's log.
pub(crate) fn speaking<T>(link: &Arc<dyn Link>, run: impl FnOnce() -> T) -> T {
    struct Restore(Option<Arc<dyn Link>>);

    impl Drop for Restore {
        fn drop(&mut self) {
            let before = self.0.take();
            // Gone while the thread ends: then nothing is said any more either.
            let _ = CURRENT.try_with(|current| current.replace(before));
        }
    }

    let before = CURRENT.try_with(|current| current.replace(Some(link.clone()))).ok().flatten();
    let _restore = Restore(before);
    run()
}

fn link() -> Option<Arc<dyn Link>> {
    let current = CURRENT.try_with(|current| current.borrow().clone()).ok().flatten();
    current.or_else(|| ALIVE.lock().unwrap_or_else(PoisonError::into_inner).last().cloned())
}

/// Tells the operator of a panic, with its place; the call that it ended is answered elsewhere. False: nobody is there.
fn report(panic: &PanicHookInfo<'_>) -> bool {
    let Some(link) = link() else { return false };
    let place = panic.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
    let message = format!("panicked{place}: {}", panic.payload_as_str().unwrap_or("without a text"));
    if link.level() >= Level::Error as u32 {
        link.log(Level::Error, "panic", &message, b"");
    }
    true
}

/// Forwards events; spans have no effect.
struct Forward(AtomicU64);

impl Subscriber for Forward {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        link().is_some_and(|link| level(*metadata.level()) as u32 <= link.level())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        // The most that any instance wants; `enabled` asks the one that it concerns.
        let alive = ALIVE.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match alive.iter().map(|link| link.level()).max().unwrap_or(0) {
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
