//! One tokio runtime for the library: made with its first instance, ended with its last.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use fmail_abi::Spawner;
use fmail_api::{Error, Result};
use futures::future::BoxFuture;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::instance::Link;
use crate::logging;

/// So long the end of the runtime waits for code that blocks.
const PATIENCE: Duration = Duration::from_secs(5);

struct Shared {
    runtime: Runtime,
    users: usize,
}

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

/// One instance's share of the runtime.
pub(crate) struct Lease {
    handle: Handle,
}

impl Lease {
    /// Takes part in the runtime, and makes it if nobody does yet. `threads` counts only then.
    pub(crate) fn acquire(threads: usize) -> Result<Lease> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.is_none() {
            let runtime = Builder::new_multi_thread()
                .worker_threads(threads)
                .thread_name("fmail-plugin")
                .enable_all()
                .build()
                .map_err(|error| Error::io("starting the plugin's runtime", &error))?;
            *shared = Some(Shared { runtime, users: 0 });
        }
        let shared = shared.as_mut().expect("made above");
        shared.users += 1;
        Ok(Lease { handle: shared.runtime.handle().clone() })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Gives the share back. The last one ends the runtime and waits for its threads; not to be called on one of them.
    pub(crate) fn release(self) {
        if let Some(runtime) = self.leave() {
            runtime.shutdown_timeout(PATIENCE);
        }
    }

    /// Gives the share back without waiting; may be called anywhere.
    pub(crate) fn abandon(self) {
        if let Some(runtime) = self.leave() {
            runtime.shutdown_background();
        }
    }

    fn leave(self) -> Option<Runtime> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let users = &mut shared.as_mut()?.users;
        *users -= 1;
        if *users > 0 { None } else { shared.take().map(|shared| shared.runtime) }
    }
}

/// Runs the work of an instance's calls on the runtime, and what it says goes to the instance's log.
pub(crate) struct OnRuntime {
    pub(crate) handle: Handle,
    pub(crate) link: Arc<dyn Link>,
}

impl Spawner for OnRuntime {
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        let mut future = Some(future);
        let link = self.link.clone();
        self.handle.spawn(std::future::poll_fn(move |task| {
            logging::speaking(&link, || {
                let polled = future.as_mut().map_or(Poll::Ready(()), |future| future.as_mut().poll(task));
                if polled.is_ready() {
                    future = None;
                }
                polled
            })
        }));
    }

    fn enter(&self, run: &mut dyn FnMut()) {
        let _entered = self.handle.enter();
        logging::speaking(&self.link, run);
    }
}
