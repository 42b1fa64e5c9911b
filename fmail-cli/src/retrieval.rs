//! Noting that messages have reached the agent, beside the watch that printed them.
//!
//! It is written by a thread of its own: the next message is printed without waiting for a lock or a disk. What cannot be
//! noted is no failure of the watch. The thread starts with the first message to the agent.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use fmail_api::{Client, Context, Mark, MarkRequest, Message, MessageId, Request};
use futures::executor::block_on;

use crate::session::Session;

/// At most so many messages are noted together.
const TOGETHER: usize = 1000;
/// How long the end of a watch waits for what is not noted yet. Another writer may hold the lock.
const PATIENCE: Duration = Duration::from_secs(1);

/// Notes which messages an agent got.
pub(crate) struct Retrieval {
    operations: Arc<dyn Client>,
    context: Context,
    notes: Option<Notes>,
}

/// The way to the thread: ids go there, and `done` ends when all are noted.
struct Notes {
    ids: Sender<MessageId>,
    done: Receiver<()>,
}

impl Retrieval {
    /// For the agent of a session.
    pub(crate) fn of(session: &Session) -> Retrieval {
        Retrieval { operations: session.operations.clone(), context: session.context.clone(), notes: None }
    }

    /// Notes a message that was printed, if the agent is among its recipients.
    pub(crate) fn printed(&mut self, message: &Message) {
        let agent = &self.context.agent;
        if !message.targets().iter().any(|target| target.agent() == Some(agent)) {
            return;
        }
        if self.notes.is_none() {
            self.notes = self.start();
        }
        if let Some(notes) = &self.notes {
            // The thread has ended where it may not write; then nothing is noted.
            let _ = notes.ids.send(message.id);
        }
    }

    /// Waits until all is noted, but not for long.
    pub(crate) fn finish(self) {
        if let Some(Notes { ids, done }) = self.notes {
            drop(ids);
            // It ends without a word.
            let _ = done.recv_timeout(PATIENCE);
        }
    }

    fn start(&self) -> Option<Notes> {
        let (ids, printed) = channel();
        let (end, done) = channel();
        let (operations, context) = (self.operations.clone(), self.context.clone());
        let write = move || {
            note_all(&*operations, &context, &printed);
            drop(end);
        };
        thread::Builder::new().name("retrieval".into()).spawn(write).ok()?;
        Some(Notes { ids, done })
    }
}

/// Notes what comes, until nothing comes any more or it turns out that nothing can be noted here.
fn note_all(operations: &dyn Client, context: &Context, printed: &Receiver<MessageId>) {
    while let Ok(first) = printed.recv() {
        let ids = std::iter::once(first).chain(printed.try_iter()).take(TOGETHER);
        let ids = ids.map(|id| id.to_string()).collect();
        let request = MarkRequest { mark: Mark::Retrieved, ids, bulk: None, token: None, dry_run: false };
        if block_on(operations.call(context, Request::Mark(request))).is_err_and(|error| !error.retryable()) {
            return;
        }
    }
}
