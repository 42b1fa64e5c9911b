//! Which threads may wait for a disk.
//!
//! A daemon has a few threads that must never wait, and others that may. Work that waits is given to the others, except
//! where the one that asks for it is one of them: who may wait does the work itself. Otherwise all of them could be taken
//! by work that waits for a further one.

use std::cell::Cell;
use std::future::Future;

use fmail_api::{Error, Result};
use futures::channel::oneshot;
use futures::executor::block_on;

use crate::Blocking;

thread_local! {
    static MAY_WAIT: Cell<bool> = const { Cell::new(false) };
}

/// Does the work on this thread, which may wait for a disk: what it reads is read here, and by no other thread.
pub fn waiting<T>(work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            MAY_WAIT.set(self.0);
        }
    }
    let _before = Before(MAY_WAIT.replace(true));
    work()
}

/// Whether this thread may wait.
pub(crate) fn may_wait() -> bool {
    MAY_WAIT.get()
}

/// Where work is done that may wait.
#[derive(Clone, Default)]
pub(crate) struct Elsewhere(Option<Blocking>);

impl Elsewhere {
    /// On the threads that `blocking` has.
    pub(crate) fn on(blocking: Blocking) -> Self {
        Elsewhere(Some(blocking))
    }

    /// Does the work: here, where waiting is allowed or nobody has said that it is not, and otherwise on another thread.
    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let Some(blocking) = self.0.as_ref().filter(|_| !may_wait()) else { return work.await };
        let (answer, done) = oneshot::channel();
        // Whoever asked may have gone; then nobody needs the answer.
        blocking(Box::new(move || drop(answer.send(waiting(|| block_on(work))))));
        done.await.unwrap_or_else(|_| Err(Error::internal("a reader of the store ended unexpectedly")))
    }
}
