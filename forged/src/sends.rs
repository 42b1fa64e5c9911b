//! Sends that come at the same time, put together.
//!
//! A thread for each would cost more than the send: it has to be woken, wait in the store's line, and be woken again with its
//! answer. So they wait here, without a thread, and one thread stores all that have come by the time it looks. Nobody waits for
//! company: who comes alone is stored at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fmail_api::{Context, Error, Result, SendRequest, Sent};
use fmail_core::{Operations, waiting};
use futures::executor::block_on;
use tokio::sync::oneshot;

use crate::found::Guarded;

/// The line of sends.
pub struct Sends {
    operations: Arc<Operations>,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    /// Somebody stores what waits.
    served: bool,
}

struct Waiting {
    context: Context,
    request: SendRequest,
    answer: oneshot::Sender<Result<Sent>>,
    /// Held as long as the operation is under way.
    busy: Arc<()>,
}

impl Sends {
    /// The line of a project whose store gains by it.
    pub fn new(operations: &Arc<Operations>) -> Option<Arc<Self>> {
        let operations = operations.clone();
        (operations.sends_together() > 1).then(|| Arc::new(Sends { operations, line: Mutex::default() }))
    }

    /// Stores the message, together with all that come at the same time. It stands in line when this is first polled, and is
    /// stored even when nobody waits for the answer any more.
    pub async fn send(
        self: &Arc<Self>,
        context: Context,
        request: SendRequest,
        busy: Arc<()>,
        guarded: Option<&Arc<Guarded>>,
    ) -> Result<Sent> {
        let (answer, answered) = oneshot::channel();
        if self.join(Waiting { context, request, answer, busy }) {
            let (serving, guarded) = (Serving { sends: self.clone(), over: false }, guarded.cloned());
            tokio::task::spawn_blocking(move || serving.serve(guarded.as_deref()));
        }
        let ended = |_| Err(Error::internal("an operation ended unexpectedly; the daemon's log says why"));
        answered.await.unwrap_or_else(ended)
    }

    /// Joins the line, and says whether nobody stores what waits there.
    fn join(&self, waiting: Waiting) -> bool {
        let mut line = self.lock();
        line.waiting.push_back(waiting);
        !std::mem::replace(&mut line.served, true)
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The duty to store what waits. If it ends early, whoever still waits is told, and the next to come has it again.
struct Serving {
    sends: Arc<Sends>,
    /// Nobody waits any more.
    over: bool,
}

impl Serving {
    fn serve(mut self, guarded: Option<&Guarded>) {
        while let Some(taken) = self.take() {
            let (requests, waiting_for): (Vec<_>, Vec<_>) =
                taken.into_iter().map(|one| ((one.context, one.request), (one.answer, one.busy))).unzip();
            let answers = match guarded.map_or(Ok(()), Guarded::check) {
                Ok(()) => waiting(|| block_on(self.sends.operations.send_many(requests))),
                Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
            };
            for ((asked, _busy), answer) in waiting_for.into_iter().zip(answers) {
                // Whoever asked may be gone.
                let _ = asked.send(answer);
            }
        }
    }

    /// The next that are stored together; nothing when nobody waits, and then the duty is over.
    fn take(&mut self) -> Option<Vec<Waiting>> {
        let mut line = self.sends.lock();
        let count = line.waiting.len().min(self.sends.operations.sends_together());
        (line.served, self.over) = (count > 0, count == 0);
        line.served.then(|| line.waiting.drain(..count).collect())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut line = self.sends.lock();
        line.waiting.clear();
        line.served = false;
    }
}
