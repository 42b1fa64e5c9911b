//! Noticing what others write while somebody watches.
//!
//! One thread for all watches of a store: woken by the kernel when the file changes, it brings the sidecar in step, and
//! that wakes the watches. It looks each second anyway, for a last line that has come to rest without its end, and ends
//! when there is no watch any more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use fmail_api::{Error, ErrorKind, Event, EventStream, Result};
use fmail_chat_file::Wake;
use futures::channel::mpsc;
use futures::executor::block_on;
use futures::{StreamExt, stream};

use crate::state::AT_REST;
use crate::store::Inner;

pub(crate) struct Follower {
    inner: Arc<Inner>,
    watches: Arc<Watches>,
}

#[derive(Default)]
struct Watches {
    /// Where each watch is told of a failure. A watch that is gone has closed its end.
    list: Mutex<Vec<mpsc::UnboundedSender<Result<Event>>>>,
    /// A thread is looking.
    looking: AtomicBool,
}

impl Follower {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Follower { inner, watches: Arc::default() }
    }

    /// The stream of a watch, with the file followed as long as it is there.
    pub(crate) fn follow(&self, events: EventStream) -> Result<EventStream> {
        let (sender, failures) = mpsc::unbounded();
        let mut list = self.watches.list();
        list.push(sender);
        if !self.watches.looking.swap(true, Ordering::AcqRel) {
            let (inner, watches) = (self.inner.clone(), self.watches.clone());
            let started = thread::Builder::new().name("fmail-chat-follow".into()).spawn(move || look(&inner, &watches));
            if let Err(error) = started {
                self.watches.looking.store(false, Ordering::Release);
                return Err(Error::io("no thread to follow the chat file", &error));
            }
        }
        drop(list);
        // An error is the last item.
        let until_error = stream::select(failures, events).scan(false, |failed, event| {
            let ended = std::mem::replace(failed, event.is_err());
            std::future::ready((!ended).then_some(event))
        });
        Ok(until_error.boxed())
    }

    /// Ends every watch.
    pub(crate) fn stop(&self) {
        self.watches
            .fail(&Error::new(ErrorKind::Unavailable, "the chat store is closed").help("open the project again"));
    }
}

impl Watches {
    fn list(&self) -> std::sync::MutexGuard<'_, Vec<mpsc::UnboundedSender<Result<Event>>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: &Error) {
        for watch in self.list().drain(..) {
            // One that is gone needs no reason any more.
            let _ = watch.unbounded_send(Err(error.clone()));
        }
    }

    /// Whether nobody watches any more. Then the looking ends, and the next watch starts it again.
    fn is_over(&self) -> bool {
        let mut list = self.list();
        list.retain(|watch| !watch.is_closed());
        if list.is_empty() {
            self.looking.store(false, Ordering::Release);
        }
        list.is_empty()
    }
}

fn look(inner: &Inner, watches: &Watches) {
    let mut wake = match Wake::new(&inner.options.file, true, inner.options.poll_interval) {
        Ok(wake) => wake,
        Err(error) => {
            watches.looking.store(false, Ordering::Release);
            return watches.fail(&Error::io("the chat file cannot be followed", &error));
        }
    };
    while !watches.is_over() {
        let looked = match block_on(inner.is_current()) {
            Ok(true) => Ok(()),
            Ok(false) => inner.sync(),
            Err(error) => Err(error),
        };
        let waited = wake.wait(Some(Instant::now() + AT_REST));
        let waited = waited.map_err(|error| Error::io("the chat file cannot be followed", &error));
        match looked.and(waited.map(drop)) {
            // Somebody else holds the lock for long; what is new is found later.
            Err(error) if error.kind() != ErrorKind::Backpressure => watches.fail(&error),
            _ => {}
        }
    }
}
