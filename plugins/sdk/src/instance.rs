//! One instance, however it is reached: from a host that has loaded the library, or over the lines of a program.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use fmail_abi::{Answer, Calls, Level, Peer, Served, Service, Work, status};
use fmail_api::{Error, Result};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::runtime::{Lease, OnRuntime};
use crate::{Envelope, Host, Manifest, logging};

/// The other side, and where its log is.
pub(crate) trait Link: Peer {
    /// What is above this level need not be logged.
    fn level(&self) -> u32;
    /// Says something to the operator. `fields` is a JSON object, or empty.
    fn log(&self, level: Level, target: &str, message: &str, fields: &[u8]);
}

/// A plugin as the macros write it.
#[doc(hidden)]
pub trait Plugin: 'static {
    /// What it says about itself.
    const MANIFEST: Manifest;
    /// The same as JSON, ended by a zero byte.
    const TEXT: &'static [u8];
    /// Makes an instance.
    fn open(envelope: Envelope, host: Host) -> Making;
}

/// The making of an instance.
#[doc(hidden)]
pub type Making = BoxFuture<'static, Result<Arc<dyn Opened>>>;

/// What an instance serves, once it is there.
#[doc(hidden)]
pub trait Opened: Service {
    /// Lets go of everything.
    fn close(&self) -> BoxFuture<'static, Result<()>>;
}

/// An instance. Its shell is small and stays for ever, so that a host that comes too late finds something; what it holds
/// goes with `destroy`.
pub(crate) struct Instance {
    link: Arc<dyn Link>,
    /// What we have asked of the host.
    calls: Arc<Calls>,
    alive: RwLock<Option<Alive>>,
}

struct Alive {
    served: Arc<Served>,
    opened: Arc<dyn Opened>,
    lease: Lease,
}

impl Instance {
    /// Makes an instance; `done(id)` says how that went.
    pub(crate) fn create<P: Plugin>(link: Arc<dyn Link>, id: u64, envelope: &[u8]) -> Arc<Instance> {
        logging::begin(&link);
        let instance = Arc::new(Instance { link, calls: Arc::new(Calls::new()), alive: RwLock::new(None) });
        let prepared =
            Envelope::parse(envelope).and_then(|envelope| Ok((Lease::acquire(envelope.threads()?)?, envelope)));
        match prepared {
            Ok((lease, envelope)) => instance.clone().open::<P>(id, lease, envelope),
            Err(error) => instance.answer(id, Err(error)),
        }
        instance
    }

    /// Opening is served like any call: polled at once on this thread, its panics caught, answered once.
    fn open<P: Plugin>(self: Arc<Self>, id: u64, lease: Lease, envelope: Envelope) {
        let peer: Arc<dyn Peer> = self.link.clone();
        let spawner = Arc::new(OnRuntime(lease.handle().clone()));
        let parts = Parts { instance: self, lease: Leaving(Some(lease)), envelope, open: P::open };
        let opening = Opening(Mutex::new(Some(parts)));
        Served::new(peer, Arc::new(opening), spawner).call(id, b"create", b"", b"");
    }

    fn begin(&self, opened: Arc<dyn Opened>, lease: Lease) {
        let spawner = Arc::new(OnRuntime(lease.handle().clone()));
        let service = Arc::new(Front(Arc::downgrade(&opened)));
        let served = Served::new(self.link.clone(), service, spawner);
        *self.alive.write().unwrap_or_else(PoisonError::into_inner) = Some(Alive { served, opened, lease });
    }

    fn served(&self) -> Option<Arc<Served>> {
        let alive = self.alive.read().unwrap_or_else(PoisonError::into_inner);
        alive.as_ref().map(|alive| alive.served.clone())
    }

    /// The host calls.
    pub(crate) fn call(&self, id: u64, method: &[u8], context: &[u8], request: &[u8]) {
        match self.served() {
            Some(served) => served.call(id, method, context, request),
            None => self.link.done(id, status::CANCELLED, b"the instance is not alive"),
        }
    }

    /// The host can take more items.
    pub(crate) fn pull(&self, id: u64, credits: u32) {
        self.served().into_iter().for_each(|served| served.pull(id, credits));
    }

    /// The host no longer waits.
    pub(crate) fn cancel(&self, id: u64) {
        self.served().into_iter().for_each(|served| served.cancel(id));
    }

    /// The calls that we have made.
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Ends the instance; `done(id)` says that everything of it is gone. On a thread of its own: it waits for the runtime.
    pub(crate) fn destroy(self: &Arc<Self>, id: u64) {
        let ending = {
            let instance = self.clone();
            move || {
                let ended = catch_unwind(AssertUnwindSafe(|| instance.end()));
                let panicked = || Err(Error::internal("the plugin panicked while it was closed"));
                instance.answer(id, ended.unwrap_or_else(|_| panicked()));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("fmail-plugin-end".into()).spawn(ending) {
            self.answer(id, Err(Error::io("starting the thread that ends the instance", &error)));
        }
    }

    fn end(&self) -> Result<()> {
        let alive = self.alive.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Alive { served, opened, lease }) = alive else { return Ok(()) };
        let handle = lease.handle().clone();
        handle.block_on(served.close());
        // The host answers nothing any more, so what still waits for it is told here. Not before: a call that is cut off
        // should end as cancelled, and not with what its code makes of an answer that does not come.
        self.calls.close(&Answer::cancelled("the instance is being destroyed"));
        let closing = AssertUnwindSafe(async { opened.close().await }).catch_unwind();
        let closed = handle.block_on(closing);
        let entered = handle.enter();
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(opened)));
        drop(entered);
        lease.release();
        match (closed, dropped) {
            (Ok(result), Ok(())) => result,
            _ => Err(Error::internal("the plugin panicked while it was closed")),
        }
    }

    fn answer(&self, id: u64, result: Result<()>) {
        let answer = Answer::from(result.map(|()| Vec::new()));
        self.link.done(id, answer.status, &answer.body);
    }
}

/// The service in the hands of the table. Weak, so that the instance alone decides when it goes: work that has ended may
/// hold the table a moment longer.
struct Front(Weak<dyn Opened>);

impl Service for Front {
    fn call(&self, method: &str, context: &[u8], request: &[u8]) -> Work {
        match self.0.upgrade() {
            Some(opened) => opened.call(method, context, request),
            None => Work::Answer(futures::future::ready(Answer::cancelled("the instance is closed")).boxed()),
        }
    }
}

/// The one call that makes an instance.
struct Opening(Mutex<Option<Parts>>);

struct Parts {
    instance: Arc<Instance>,
    lease: Leaving,
    envelope: Envelope,
    open: fn(Envelope, Host) -> Making,
}

impl Service for Opening {
    fn call(&self, _: &str, _: &[u8], _: &[u8]) -> Work {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Parts { instance, mut lease, envelope, open } = parts.expect("called once");
        let host = Host::new(instance.calls.clone(), instance.link.clone());
        Work::Answer(
            async move {
                match open(envelope, host).await {
                    Ok(opened) => {
                        instance.begin(opened, lease.0.take().expect("taken once"));
                        Answer::ok(Vec::new())
                    }
                    Err(error) => Answer::from(error),
                }
            }
            .boxed(),
        )
    }
}

/// Gives the share of the runtime back when the opening ends without an instance: with an error, or in a panic. Work is
/// dropped before it is answered, so the host hears of it when everything is gone.
struct Leaving(Option<Lease>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Lease::abandon);
    }
}
