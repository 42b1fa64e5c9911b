//! `FMAIL_PLUGIN_TRACE=<file>`: every verb that crosses to a plugin and back, for the plugin's author.
//!
//! Each is one line of JSON: `{"time":…,"plugin":"sqlite","to":"plugin","call":7,"method":"append","request":…}`. The verbs
//! are those of docs/plugins/abi.md, for a library too. What a plugin says that has no effect is there as well.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fmail_abi::{Answer, Calls, Observer, Peer, Service, Verb, Work, status};
use fmail_api::{Clock, Error, Result};
use fmail_backends::SystemClock;
use futures::{FutureExt, StreamExt, stream};

use super::{Carrier, Upward};

/// The variable that names the file.
pub const VARIABLE: &str = "FMAIL_PLUGIN_TRACE";

/// Where the verbs of one plugin are written, if they are.
#[derive(Clone)]
pub(super) struct Trace(Option<Arc<Sink>>);

struct Sink {
    plugin: String,
    file: Mutex<File>,
}

impl Trace {
    /// The trace that the environment asks for. The file is appended to, so that several plugins and processes can share it.
    pub(super) fn of_environment(plugin: &str) -> Result<Trace> {
        let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) else { return Ok(Trace(None)) };
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path).map_err(|error| {
            Error::io(format_args!("cannot write {}", path.to_string_lossy()), &error)
                .context("origin", VARIABLE)
                .help(format!("let {VARIABLE} name a file that can be written, or unset it"))
        })?;
        Ok(Trace(Some(Arc::new(Sink { plugin: plugin.into(), file: Mutex::new(file) }))))
    }

    /// The carrier, whose verbs are written.
    pub(super) fn carrier(&self, inner: Arc<dyn Carrier>) -> Arc<dyn Carrier> {
        match &self.0 {
            Some(sink) => Arc::new(Traced { inner, sink: sink.clone() }),
            None => inner,
        }
    }

    /// A table of calls, whose answers are written.
    pub(super) fn calls(&self) -> Calls {
        match &self.0 {
            Some(sink) => Calls::new().observed(Box::new(Heard(sink.clone()))),
            None => Calls::new(),
        }
    }

    /// The service, whose calls are written.
    pub(super) fn upward(&self, upward: Upward) -> Upward {
        match &self.0 {
            Some(sink) => {
                let service =
                    Arc::new(TracedService { inner: upward.service, sink: sink.clone(), calls: AtomicU64::new(0) });
                Upward { service, spawner: upward.spawner }
            }
            None => upward,
        }
    }
}

impl Sink {
    /// Writes one line, in one write. A trace that cannot be written must not stop the mail.
    fn write(&self, to: &str, verb: &Verb<'_>) {
        // A verb without a line has a body that is no text.
        let line = verb.to_line().unwrap_or_else(|error| format!("{{\"unprintable\":{:?}}}", error.to_string()));
        let rest = line.trim_end().strip_prefix('{').unwrap_or_default();
        let time = SystemClock.now();
        let text = format!("{{\"time\":\"{time}\",\"plugin\":\"{}\",\"to\":\"{to}\",{rest}\n", self.plugin);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = file.write_all(text.as_bytes());
    }

    fn down(&self, verb: &Verb<'_>) {
        self.write("plugin", verb);
    }

    fn answered(&self, id: u64, answer: &Answer) {
        self.down(&Verb::Done { id, status: answer.status, body: (&*answer.body).into() });
    }
}

struct Heard(Arc<Sink>);

impl Observer for Heard {
    fn done(&self, id: u64, status: i32, body: &[u8]) {
        self.0.write("host", &Verb::Done { id, status, body: body.into() });
    }

    fn item(&self, id: u64, body: &[u8]) {
        self.0.write("host", &Verb::Item { id, body: body.into() });
    }
}

struct Traced {
    inner: Arc<dyn Carrier>,
    sink: Arc<Sink>,
}

impl Peer for Traced {
    fn call(&self, id: u64, method: &str, context: &[u8], request: &[u8]) {
        let (context_, request_) = (context.into(), request.into());
        self.sink.down(&Verb::Call { id, method: method.into(), context: context_, request: request_ });
        self.inner.call(id, method, context, request);
    }

    fn pull(&self, id: u64, credits: u32) {
        self.sink.down(&Verb::Pull { id, credits });
        self.inner.pull(id, credits);
    }

    fn cancel(&self, id: u64) {
        self.sink.down(&Verb::Cancel { id });
        self.inner.cancel(id);
    }

    fn done(&self, id: u64, status: i32, body: &[u8]) {
        self.sink.down(&Verb::Done { id, status, body: body.into() });
        self.inner.done(id, status, body);
    }

    fn item(&self, id: u64, body: &[u8]) -> bool {
        self.sink.down(&Verb::Item { id, body: body.into() });
        self.inner.item(id, body)
    }
}

impl Carrier for Traced {
    fn create(&self, id: u64, envelope: &[u8]) {
        self.sink.down(&Verb::Create { id, envelope: envelope.into() });
        self.inner.create(id, envelope);
    }

    fn destroy(&self, id: u64) {
        self.sink.down(&Verb::Destroy { id });
        self.inner.destroy(id);
    }

    fn stuck(&self) -> Option<String> {
        self.inner.stuck()
    }
}

struct TracedService {
    inner: Arc<dyn Service>,
    sink: Arc<Sink>,
    /// The service does not see the numbers that the plugin gives its calls, so the trace counts them itself.
    calls: AtomicU64,
}

impl Service for TracedService {
    fn call(&self, method: &str, context: &[u8], request: &[u8]) -> Work {
        let id = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let verb = Verb::Call { id, method: method.into(), context: context.into(), request: request.into() };
        self.sink.write("host", &verb);
        let sink = self.sink.clone();
        match self.inner.call(method, context, request) {
            Work::Answer(answer) => Work::Answer(answer.inspect(move |answer| sink.answered(id, answer)).boxed()),
            Work::Stream(items) => {
                let ended = sink.clone();
                let end =
                    stream::once(async move { ended.answered(id, &Answer { status: status::END, body: [].into() }) });
                let items = items.inspect(move |item| match item {
                    Ok(body) => sink.down(&Verb::Item { id, body: body.as_slice().into() }),
                    Err(answer) => sink.answered(id, answer),
                });
                // An end is written only where the stream ends by itself: behind an error nothing is taken.
                Work::Stream(items.chain(end.filter_map(|()| std::future::ready(None))).boxed())
            }
        }
    }
}
