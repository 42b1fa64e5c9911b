//! Sends that come at the same time, put together.
//!
//! A thread for each would cost more than the send: it has to be woken, wait in the store's line, and be woken again with its
//! answer. So they wait here, without a thread, and whoever comes first stores all that have come by the time it looks, on the
//! thread that it is on: waking another one for it takes as long as storing it. What has come meanwhile is left to a thread of
//! its own, so that nobody waits for the messages of others. Nobody waits for company: who comes alone is stored at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fmail_api::{Context, Error, Result, SendRequest, Sent};
use fmail_core::{Operations, waiting};
use fmail_transports::is_one_at_a_time;
use futures::executor::block_on;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::{block_in_place, yield_now};

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
    /// The line of a project.
    pub fn new(operations: &Arc<Operations>) -> Arc<Self> {
        Arc::new(Sends { operations: operations.clone(), line: Mutex::default() })
    }

    /// Whether the store gains by it now: the files do as long as they have a journal.
    pub fn are_put_together(&self) -> bool {
        self.operations.sends_together() > 1
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
            let duty = Duty(Some(Serving::new(self, guarded.cloned())));
            // Whatever else this connection has sent joins the line.
            if !is_one_at_a_time() {
                yield_now().await;
            }
            duty.fulfil();
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

/// The duty of who came first, which passes to a thread when it is given up.
struct Duty(Option<Serving>);

impl Duty {
    /// Stores what waits on this thread, and leaves what comes meanwhile to another.
    fn fulfil(mut self) {
        // Only a runtime of several threads can go on without this one.
        if Handle::current().runtime_flavor() != RuntimeFlavor::MultiThread {
            return;
        }
        if let Some(mut serving) = self.0.take() {
            block_in_place(|| serving.serve_next());
            self.0 = (!serving.is_over()).then_some(serving);
        }
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        if let Some(mut serving) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn_blocking(move || while serving.serve_next() {});
        }
    }
}

/// Stores what waits. If it ends early, whoever still waits is told, and the next to come has the duty again.
struct Serving {
    sends: Arc<Sends>,
    guarded: Option<Arc<Guarded>>,
    /// Nobody waits any more.
    over: bool,
}

impl Serving {
    fn new(sends: &Arc<Sends>, guarded: Option<Arc<Guarded>>) -> Self {
        Serving { sends: sends.clone(), guarded, over: false }
    }

    /// Stores the next that wait, and says whether there were any.
    fn serve_next(&mut self) -> bool {
        let Some(taken) = self.take() else { return false };
        let (requests, waiting_for): (Vec<_>, Vec<_>) =
            taken.into_iter().map(|one| ((one.context, one.request), (one.answer, one.busy))).unzip();
        let answers = match self.guarded.as_ref().map_or(Ok(()), |guarded| guarded.check()) {
            Ok(()) => waiting(|| block_on(self.sends.operations.send_many(requests))),
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        };
        for ((asked, _busy), answer) in waiting_for.into_iter().zip(answers) {
            // Whoever asked may be gone.
            let _ = asked.send(answer);
        }
        true
    }

    /// Whether nobody waits; then the duty is over.
    fn is_over(&mut self) -> bool {
        let mut line = self.sends.lock();
        (line.served, self.over) = (!line.waiting.is_empty(), line.waiting.is_empty());
        self.over
    }

    /// The next that are stored together; nothing when nobody waits, and then the duty is over.
    fn take(&mut self) -> Option<Vec<Waiting>> {
        let mut line = self.sends.lock();
        let count = line.waiting.len().min(self.sends.operations.sends_together().max(1));
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
