//! Printing what arrives, until a limit or a signal ends it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use fmail_api::{Error, ErrorKind, Event, Message, Reply, Request, Response, Result};
use fmail_core::RENEW_AFTER;
use futures::StreamExt;
use tokio::time::Instant;

use crate::connected;
use crate::guard::{End, Guard, at};
use crate::output::{Outcome, Output, Stop, notice};
use crate::render::{self, Style};
use crate::retrieval::Retrieval;
use crate::session::{Place, Session, now, unexpected};

/// How to follow, and until when.
pub(crate) struct Follow<'a> {
    pub(crate) place: &'a Place,
    pub(crate) session: &'a Session,
    pub(crate) style: Style,
    /// The whole time that it may take.
    pub(crate) timeout: Option<Duration>,
    /// How many messages it may print.
    pub(crate) count: Option<u64>,
    /// The agent is there under a name of its own: its record is kept fresh, and what reaches it is noted for the
    /// senders.
    pub(crate) present: bool,
}

impl Follow<'_> {
    /// Runs the request and prints its stream; `on_head` sees the answer before the first message.
    ///
    /// Only following needs a runtime: it waits for messages, times and its guard at once. A timer exists only for what
    /// was asked for, so that an idle watch sleeps.
    pub(crate) fn run(self, request: Request, output: &mut Output, on_head: impl FnOnce(&Response)) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            // A thread that has looked for a daemon is not kept: it would wake only to end.
            .thread_keep_alive(Duration::ZERO)
            .build()
            .map_err(|error| Error::io("cannot prepare to wait", &error))?;
        let mut retrieval = self.present.then(|| Retrieval::of(self.session));
        let outcome = runtime.block_on(self.stream(request, output, retrieval.as_mut(), on_head));
        // A thread may be waiting for a daemon that says nothing. Nobody waits for it any more.
        runtime.shutdown_background();
        if let Some(retrieval) = retrieval {
            retrieval.finish();
        }
        outcome
    }

    async fn stream(
        self,
        request: Request,
        output: &mut Output,
        mut retrieval: Option<&mut Retrieval>,
        on_head: impl FnOnce(&Response),
    ) -> Outcome {
        // A time too far ahead to be expressed is never.
        let deadline = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut guard = Guard::start(deadline)?;
        // A daemon that runs the operations keeps the record of who watches.
        let mut renewal = (self.present && !self.session.is_served()).then(|| Instant::now() + RENEW_AFTER);
        let mut left = self.count;
        let mut told = HashSet::new();
        let reply = self.start(request).await?;
        on_head(&reply.head);
        let mut events = reply.events.ok_or_else(unexpected)?;
        loop {
            // What is there is printed before time runs out: a short timeout still delivers what is stored.
            tokio::select! {
                biased;
                end = guard.asked() => return match end {
                    End::Interrupted => Ok(()),
                    End::ReaderGone => Err(Stop::ReaderGone),
                },
                event = events.next() => {
                    let Some(event) = event else { return Ok(()) };
                    if let Some(message) = self.print(event, &mut told, output)? {
                        left = left.map(|left| left - 1);
                        retrieval.iter_mut().for_each(|retrieval| retrieval.printed(&message));
                    }
                    if left == Some(0) || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                        return Ok(());
                    }
                }
                () = at(deadline) => return Ok(()),
                () = at(renewal) => renewal = self.renewed().await.then(|| Instant::now() + RENEW_AFTER),
            }
        }
    }

    /// A watch goes through the daemon when there is one. Everything else does where the daemon has the store; otherwise
    /// it is read here, also another agent's mailbox, which a daemon refuses.
    async fn start(&self, request: Request) -> Result<Reply> {
        let quicker = matches!(&request, Request::Watch(watch) if !watch.allow_other_dm);
        if quicker || self.session.is_served() {
            return connected::watch(self.place, self.session, request, self.timeout).await;
        }
        self.session.operations.call(&self.session.context, request).await
    }

    /// Prints an event; the message, if it was one. A broken file that what is stored and what arrives both tell of is
    /// told once.
    fn print(
        &self,
        event: Result<Event>,
        told: &mut HashSet<String>,
        output: &mut Output,
    ) -> Outcome<Option<Arc<Message>>> {
        match event? {
            Event::Message(delivery) => {
                output.line(&render::message(&delivery.message, self.style, now()))?;
                output.flush()?;
                Ok(Some(delivery.message.clone()))
            }
            Event::Nudge(nudge) => {
                output.line(&render::nudge(&nudge, self.style))?;
                output.flush()?;
                Ok(None)
            }
            Event::Notice(found) => {
                if told.insert(found.text.clone()) {
                    notice(&found);
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Notes that the agent is still there; whether to go on doing so. Where we may not write we stop trying.
    async fn renewed(&self) -> bool {
        !self.session.touch().await.is_err_and(|error| error.kind() == ErrorKind::Denied)
    }
}
