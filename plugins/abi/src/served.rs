//! The calls that the other side has made: what runs for them, and what is still owed.
//!
//! Each call is some work of a [`Service`]. It is polled by one thread at a time, and whoever polls it looks at what came
//! meanwhile (credit, a cancellation) before letting go of it. Work is in one of four places:
//!
//! * *running*: someone polls it right now, on any thread;
//! * *waiting*: it is pending, and the [`Spawner`] polls it again when it wakes;
//! * *parked*: a stream that holds an item without credit, in nobody's hands until `pull` sends it and goes on polling, on
//!   the caller's own thread;
//! * *over*: it was answered.
//!
//! An answer that is ready, and items that are, so cross the boundary without a change of threads. An answer needs no
//! credit: a stream is always one item ahead, so that its end, or its failure before the first item, comes at once. No lock is held while
//! the service or the other side runs, since both may come back here before they return.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::calls::Answer;
use crate::peer::Peer;
use crate::status;
use crate::sync::{Arc, Mutex, lock};

/// So many items in a row are sent by one poll; then others have their turn.
const TURN: usize = 128;

/// What the other side can call.
pub trait Service: Send + Sync {
    /// Begins a call: must not block. A panic here or in the work is answered with [`status::PANIC`].
    fn call(&self, method: &str, context: &[u8], request: &[u8]) -> Work;
}

/// What runs for one call.
pub enum Work {
    /// One answer.
    Answer(BoxFuture<'static, Answer>),
    /// Items, each when there is credit for it. `Err` is the answer and the last thing that is taken from the stream; one
    /// that just ends is answered with [`status::END`].
    Stream(BoxStream<'static, Result<Vec<u8>, Answer>>),
}

/// Where work goes that is not ready at once.
pub trait Spawner: Send + Sync {
    /// Polls the future until it is done or dropped. At least one of both must happen.
    fn spawn(&self, future: BoxFuture<'static, ()>);

    /// Runs something in the surroundings that the service's code expects, such as the context of a runtime.
    fn enter(&self, run: &mut dyn FnMut()) {
        run();
    }
}

/// Runs the calls that the other side has made, and answers each exactly once.
pub struct Served {
    peer: Arc<dyn Peer>,
    service: Arc<dyn Service>,
    spawner: Arc<dyn Spawner>,
    table: Mutex<Table>,
}

struct Table {
    // Ordered, not hashed: the other side chooses the ids, and could choose them to collide.
    open: BTreeMap<u64, Arc<Task>>,
    closed: bool,
    repeated: u64,
    /// Who waits for the table to be empty.
    closing: Vec<Waker>,
}

/// One call of the other side.
struct Task {
    id: u64,
    state: Mutex<State>,
}

struct State {
    credit: u32,
    cancelled: bool,
    stage: Stage,
}

enum Stage {
    Running,
    Waiting(Waker),
    /// With the item that waits for credit.
    Parked(Work, Vec<u8>),
    Over,
}

enum Step {
    Item(Vec<u8>),
    Answer(Answer),
}

impl Served {
    /// Serves calls of `peer` with `service`.
    pub fn new(peer: Arc<dyn Peer>, service: Arc<dyn Service>, spawner: Arc<dyn Spawner>) -> Arc<Self> {
        let table = Table { open: BTreeMap::new(), closed: false, repeated: 0, closing: Vec::new() };
        Arc::new(Served { peer, service, spawner, table: Mutex::new(table) })
    }

    /// The other side calls. The answer may have been given when this returns.
    pub fn call(self: &Arc<Self>, id: u64, method: &[u8], context: &[u8], request: &[u8]) {
        let task = match self.open(id) {
            Ok(task) => task,
            Err(None) => return,
            Err(Some(answer)) => return self.peer.done(id, answer.status, &answer.body),
        };
        let Ok(method) = std::str::from_utf8(method) else {
            let text = format!("the name of the method is not UTF-8: {}", String::from_utf8_lossy(method));
            return self.end(&task, Answer { status: status::INVALID, body: text.as_bytes().into() });
        };
        self.spawner.enter(&mut || {
            match catch(|| self.service.call(method, context, request)) {
                Ok(work) => self.run_here(&task, work),
                Err(panic) => self.end(&task, panic),
            };
        });
    }

    /// The other side can take more items.
    pub fn pull(self: &Arc<Self>, id: u64, credits: u32) {
        let Some(task) = self.find(id) else { return };
        let mut state = lock(&task.state);
        state.credit = state.credit.saturating_add(credits);
        if state.credit == 0 || !matches!(state.stage, Stage::Parked(..)) {
            return;
        }
        let Stage::Parked(work, item) = std::mem::replace(&mut state.stage, Stage::Running) else { return };
        drop(state);
        let mut parked = Some((work, item));
        self.spawner.enter(&mut || {
            if let Some((work, item)) = parked.take()
                && let Some(work) = self.send(&task, work, item)
            {
                self.run_here(&task, work);
            }
        });
    }

    /// The other side no longer waits: the work is dropped, and answered with [`status::CANCELLED`] unless it was answered
    /// before. An unknown id is no mistake.
    pub fn cancel(self: &Arc<Self>, id: u64) {
        if let Some(task) = self.find(id) {
            self.give_up(&task);
        }
    }

    /// Cancels every call, refuses further ones, and resolves when all work is gone and every call was answered.
    pub async fn close(self: Arc<Self>) {
        let open: Vec<Arc<Task>> = {
            let mut table = lock(&self.table);
            table.closed = true;
            table.open.values().cloned().collect()
        };
        open.iter().for_each(|task| self.give_up(task));
        drop(open);
        std::future::poll_fn(|task| {
            let waker = task.waker().clone();
            let mut table = lock(&self.table);
            if table.open.is_empty() {
                return Poll::Ready(());
            }
            table.closing.push(waker);
            Poll::Pending
        })
        .await;
    }

    /// How many calls are not yet answered.
    pub fn under_way(&self) -> usize {
        lock(&self.table).open.len()
    }

    /// How many calls came with the id of another one that was still under way. They had no effect.
    pub fn repeated(&self) -> u64 {
        lock(&self.table).repeated
    }

    /// Takes a call in, or says what it is answered with; `None` when the id is in use and so the answer would be taken
    /// for the other call's.
    fn open(&self, id: u64) -> Result<Arc<Task>, Option<Answer>> {
        let state = State { credit: 0, cancelled: false, stage: Stage::Running };
        let task = Arc::new(Task { id, state: Mutex::new(state) });
        let mut table = lock(&self.table);
        if table.closed {
            return Err(Some(Answer::cancelled("the instance is closed")));
        }
        if table.open.contains_key(&id) {
            table.repeated += 1;
            return Err(None);
        }
        table.open.insert(id, task.clone());
        Ok(task)
    }

    fn find(&self, id: u64) -> Option<Arc<Task>> {
        lock(&self.table).open.get(&id).cloned()
    }

    fn give_up(&self, task: &Arc<Task>) {
        let mut state = lock(&task.state);
        state.cancelled = true;
        // Whoever runs it looks at `cancelled` before letting go; who waits is woken, polls and sees it.
        if matches!(state.stage, Stage::Running | Stage::Over) {
            return;
        }
        let stage = std::mem::replace(&mut state.stage, Stage::Running);
        drop(state);
        match stage {
            Stage::Waiting(waker) => waker.wake(),
            Stage::Parked(work, _) => {
                let mut work = Some(work);
                self.spawner.enter(&mut || discard(work.take()));
                self.end(task, cancelled());
            }
            Stage::Running | Stage::Over => {}
        }
    }

    /// Polls the work on the caller's thread, and hands it to the spawner if it is not ready.
    fn run_here(self: &Arc<Self>, task: &Arc<Task>, work: Work) {
        // The no-op waker loses every wake that comes before the spawner has polled. That is sound only because a spawned
        // future is polled at least once: the work then says again that it is pending, with a waker that works.
        let mut context = Context::from_waker(Waker::noop());
        if let Some(work) = self.advance(task, work, &mut context) {
            let driver = Driver { served: self.clone(), task: task.clone(), work: Some(work) };
            self.spawner.spawn(Box::pin(driver));
        }
    }

    /// Polls the work until it is over or parked, or gives it back because it waits for something.
    fn advance(&self, task: &Arc<Task>, mut work: Work, context: &mut Context<'_>) -> Option<Work> {
        for _ in 0..TURN {
            match catch(|| work.poll(context)) {
                Ok(Poll::Pending) => return self.wait(task, work, context),
                Ok(Poll::Ready(Step::Answer(answer))) => return self.finish(task, work, answer),
                Err(panic) => return self.finish(task, work, panic),
                Ok(Poll::Ready(Step::Item(item))) => work = self.send(task, work, item)?,
            }
        }
        context.waker().wake_by_ref();
        self.wait(task, work, context)
    }

    /// Sends an item if there is credit for it, and gives the work back; otherwise it is parked with the item.
    fn send(&self, task: &Arc<Task>, work: Work, item: Vec<u8>) -> Option<Work> {
        let mut state = lock(&task.state);
        if state.cancelled {
            drop(state);
            return self.finish(task, work, cancelled());
        }
        if state.credit == 0 {
            state.stage = Stage::Parked(work, item);
            return None;
        }
        state.credit -= 1;
        drop(state);
        if self.peer.item(task.id, &item) {
            return Some(work);
        }
        self.finish(task, work, cancelled())
    }

    /// The work is pending: leaves a waker for who cancels it, unless someone has.
    fn wait(&self, task: &Arc<Task>, work: Work, context: &mut Context<'_>) -> Option<Work> {
        let waker = context.waker().clone();
        let mut state = lock(&task.state);
        if state.cancelled {
            drop(state);
            return self.finish(task, work, cancelled());
        }
        let before = std::mem::replace(&mut state.stage, Stage::Waiting(waker));
        drop(state);
        drop(before);
        Some(work)
    }

    fn finish(&self, task: &Arc<Task>, work: Work, answer: Answer) -> Option<Work> {
        discard(Some(work));
        self.end(task, answer);
        None
    }

    /// Answers, and only then takes the call out of the table: when the table is empty nothing is owed any more.
    fn end(&self, task: &Arc<Task>, answer: Answer) {
        let before = std::mem::replace(&mut lock(&task.state).stage, Stage::Over);
        if matches!(before, Stage::Over) {
            return;
        }
        drop(before);
        self.peer.done(task.id, answer.status, &answer.body);
        let mut table = lock(&self.table);
        table.open.remove(&task.id);
        let closing = if table.open.is_empty() { std::mem::take(&mut table.closing) } else { Vec::new() };
        drop(table);
        closing.into_iter().for_each(Waker::wake);
    }
}

impl Work {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        match self {
            Work::Answer(future) => future.as_mut().poll(context).map(Step::Answer),
            Work::Stream(stream) => stream.as_mut().poll_next(context).map(|next| match next {
                Some(Ok(item)) => Step::Item(item),
                Some(Err(answer)) => Step::Answer(answer),
                None => Step::Answer(Answer { status: status::END, body: Vec::new() }),
            }),
        }
    }
}

/// Work in the hands of the spawner.
struct Driver {
    served: Arc<Served>,
    task: Arc<Task>,
    work: Option<Work>,
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(work) = self.work.take() else { return Poll::Ready(()) };
        let mut state = lock(&self.task.state);
        let given_up = state.cancelled;
        let before = std::mem::replace(&mut state.stage, Stage::Running);
        drop(state);
        drop(before);
        self.work = if given_up {
            self.served.finish(&self.task, work, cancelled())
        } else {
            self.served.advance(&self.task, work, context)
        };
        if self.work.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Driver {
    /// A runtime that ends drops what it has not finished; the call is answered all the same.
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.served.finish(&self.task, work, cancelled());
        }
    }
}

fn cancelled() -> Answer {
    Answer::cancelled("cancelled")
}

/// Drops work. A destructor that panics has no say in how the call ended.
fn discard(work: Option<Work>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(work)));
}

/// Runs code of the service; a panic becomes the answer.
fn catch<T>(run: impl FnOnce() -> T) -> Result<T, Answer> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
            (Some(text), _) => *text,
            (_, Some(text)) => text.as_str(),
            _ => "a panic without a text",
        };
        Answer { status: status::PANIC, body: format!("panicked: {text}").as_bytes().into() }
    })
}
