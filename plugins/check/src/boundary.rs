//! An instance of the plugin whose calls are looked at on their way.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use fmail_abi::{Call, Calls, Observer, Peer};
use fmail_api::{AgentName, Draft, Log, Query, Result, Store, Target};
use fmail_host::plugin::{Carrier, Instance, Library, Plugin, PluginLog, PluginStore, Role};
use fmail_host::{PluginForm, PluginKind, StoreProfile};
use futures::StreamExt;
use futures::executor::block_on;

use crate::subject::Place;
use crate::times::Step;

/// Something to be held in the way of the calls.
pub type Wrapping = fn(Arc<dyn Carrier>, Arc<Watched>) -> Arc<dyn Carrier>;

/// What was seen of the calls.
#[derive(Default)]
pub struct Watched {
    /// Calls that were made from inside of an answer.
    pub inner: Mutex<Vec<Call>>,
    /// Who wants to know how long calls take to return.
    steps: OnceLock<Sender<Step>>,
    calls: OnceLock<Arc<Calls>>,
    peer: OnceLock<Arc<dyn Peer>>,
    request: OnceLock<(&'static str, Vec<u8>)>,
    inside: Mutex<bool>,
}

/// The library, when the plugin is one that runs in this process.
pub fn library(place: &Place) -> Result<Option<Library>> {
    let plugin = &place.chosen.plugin;
    match plugin.checked_file()? {
        Some(file) if file.form == PluginForm::Library && !plugin.isolated(file.form) => Library::load(&file).map(Some),
        _ => Ok(None),
    }
}

/// An instance of a library, with something in the way of its calls.
pub fn wrapped(
    place: &Place,
    library: &Library,
    wrapping: Wrapping,
    calls: Calls,
    watched: &Arc<Watched>,
) -> Result<Instance> {
    let settings = &place.chosen.plugin;
    let config = library.manifest().config_schema.configured(settings)?;
    let envelope = place.surroundings(Role::Store)?.envelope(settings.name.as_str(), &config);
    let calls = Arc::new(calls);
    let _ = watched.calls.set(calls.clone());
    let carrier = wrapping(library.carrier(settings.name.as_str(), calls.clone(), None), watched.clone());
    let _ = watched.peer.set(carrier.clone());
    let manifest = library.manifest().clone();
    block_on(Instance::create(settings.name.as_str(), manifest, calls, carrier, settings.timeout, &envelope))
}

/// An instance as fmail makes it.
pub fn plain(place: &Place, kind: PluginKind, role: Role) -> Result<Instance> {
    let plugin = Plugin::load(&place.chosen.plugin, kind)?;
    block_on(plugin.instance(&place.surroundings(role)?, None))
}

/// A store plugin, whatever its profile: texts go in, and come out.
pub enum Probe {
    Log(PluginLog),
    Store(PluginStore),
}

impl Probe {
    pub fn new(instance: Arc<Instance>) -> Probe {
        const LIMIT: usize = 1 << 20;
        match instance.manifest().profile {
            StoreProfile::Log => Probe::Log(PluginLog::new(instance, LIMIT)),
            StoreProfile::Store => Probe::Store(PluginStore::new(instance, LIMIT)),
        }
    }

    /// Writes a text. A log's place is found by trying, so that several can write at once.
    pub fn write(&self, text: &str) -> Result<()> {
        match self {
            Probe::Log(log) => loop {
                let last = block_on(log.read(0, usize::MAX >> 1))?.last().map_or(0, |last| last.position);
                match block_on(log.append(last + 1, text.into())) {
                    Err(error) if error.kind() == fmail_api::ErrorKind::Conflict => {}
                    other => return other,
                }
            },
            Probe::Store(store) => {
                let (from, to): (AgentName, Target) = ("alice".parse()?, "task".parse()?);
                block_on(store.append(Draft::new(from, to, text))).map(drop)
            }
        }
    }

    /// Every text, in the order in which it was written.
    pub fn written(&self) -> Result<Vec<String>> {
        match self {
            Probe::Log(log) => {
                let mut all = Vec::new();
                let mut last = 0;
                loop {
                    let some = block_on(log.read(last, 1000))?;
                    let Some(end) = some.last() else { return Ok(all) };
                    last = end.position;
                    all.extend(some.into_iter().map(|entry| entry.text));
                }
            }
            Probe::Store(store) => block_on(async {
                let mut all = Vec::new();
                let mut scan = store.scan(Query::default()).await?;
                while let Some(event) = scan.messages.next().await {
                    if let fmail_api::Event::Message(delivery) = event? {
                        all.push(delivery.message.body.as_str().unwrap_or_default().to_string());
                    }
                }
                Ok(all)
            }),
        }
    }

    /// A request that changes nothing.
    pub fn question(&self) -> (&'static str, Vec<u8>) {
        match self {
            Probe::Log(_) => ("read", b"0 10 1000".to_vec()),
            Probe::Store(_) => ("get", br#"{"key":"leases"}"#.to_vec()),
        }
    }
}

impl Watched {
    /// From the next answer on, asks this from inside of it.
    pub fn ask_inside(&self, request: (&'static str, Vec<u8>)) {
        let _ = self.request.set(request);
    }

    /// From the next call on, tells when one begins and when it has returned.
    pub fn tell_steps(&self, steps: Sender<Step>) {
        let _ = self.steps.set(steps);
    }

    fn step(&self, step: impl FnOnce() -> Step) {
        if let Some(steps) = self.steps.get() {
            // Nobody listens any more once it is known what was to be known.
            let _ = steps.send(step());
        }
    }
}

/// Tells of answers; asks from inside of them when it is told to.
pub struct Asking(pub Arc<Watched>);

impl Observer for Asking {
    fn done(&self, _: u64, _: i32, _: &[u8]) {
        let Watched { calls, peer, request, inside, inner, .. } = &*self.0;
        let (Some(calls), Some(peer), Some((method, body))) = (calls.get(), peer.get(), request.get()) else { return };
        // Once deep is enough, and the answer to that comes here as well.
        if std::mem::replace(&mut *inside.lock().unwrap_or_else(PoisonError::into_inner), true) {
            return;
        }
        let call = calls.call(peer, method, b"", body);
        inner.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        *inside.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    fn item(&self, _: u64, _: &[u8]) {}
}

/// Leaves the calls as they are.
pub fn as_it_is(carrier: Arc<dyn Carrier>, _: Arc<Watched>) -> Arc<dyn Carrier> {
    carrier
}

/// Overwrites what a call has borrowed as soon as it returns, and tells how long that took.
pub fn scribbling(inner: Arc<dyn Carrier>, watched: Arc<Watched>) -> Arc<dyn Carrier> {
    Arc::new(Scribbling { inner, watched })
}

struct Scribbling {
    inner: Arc<dyn Carrier>,
    watched: Arc<Watched>,
}

impl Peer for Scribbling {
    fn call(&self, id: u64, method: &str, context: &[u8], request: &[u8]) {
        let (mut lent_context, mut lent) = (context.to_vec(), request.to_vec());
        self.watched.step(|| Step::Entered(method.into()));
        let start = Instant::now();
        self.inner.call(id, method, &lent_context, &lent);
        let took = start.elapsed();
        self.watched.step(|| Step::Returned(method.into(), took));
        lent_context.fill(b'#');
        lent.fill(b'#');
        // The compiler must not find out that nobody looks at them any more.
        std::hint::black_box((&lent_context, &lent));
    }

    fn pull(&self, id: u64, credits: u32) {
        self.inner.pull(id, credits);
    }

    fn cancel(&self, id: u64) {
        self.inner.cancel(id);
    }

    fn done(&self, id: u64, status: i32, body: &[u8]) {
        self.inner.done(id, status, body);
    }

    fn item(&self, id: u64, body: &[u8]) -> bool {
        self.inner.item(id, body)
    }
}

impl Carrier for Scribbling {
    fn create(&self, id: u64, envelope: &[u8]) {
        self.inner.create(id, envelope);
    }

    fn destroy(&self, id: u64) {
        self.inner.destroy(id);
    }

    fn stuck(&self) -> Option<String> {
        self.inner.stuck()
    }
}
