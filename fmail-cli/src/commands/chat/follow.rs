//! Following a chat file until a limit or a signal ends it.
//!
//! One thread reads and prints, so that nothing stands between the kernel's event and the output. It can be stopped by a
//! reader that does not read, and the command must end on a signal all the same: the main thread waits for that.

use std::thread;
use std::time::{Duration, Instant};

use fmail_api::{Error, Result};
use fmail_chat_file::{Follower, Woken};
use tokio::sync::oneshot;

use super::printer::Printer;
use crate::guard::{End, Guard};
use crate::output::{Outcome, Stop};

/// How long the file must have rested before a message of several lines counts as whole.
const WHOLE: Duration = Duration::from_millis(250);

/// What ends it.
pub(super) struct Until {
    /// That everything is printed which is in the file.
    pub(super) caught_up: bool,
    /// That this time is over.
    pub(super) timeout: Option<Duration>,
}

/// Prints what the follower finds, with the printer that `printer` makes: it holds standard output, and stays where it is.
pub(super) fn follow(follower: Follower, printer: impl FnOnce() -> Printer + Send + 'static, until: Until) -> Outcome {
    let failed = |error| Error::io("cannot prepare to wait", &error);
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(failed)?;
    // A time too far ahead to be expressed is never.
    let deadline = until.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut guard = Guard::start(deadline.map(Into::into))?;
    let stopper = follower.stopper();
    let (tell, mut ended) = oneshot::channel();
    let work = move || {
        let outcome = print(follower, printer(), deadline, until.caught_up);
        // Nobody listens when the command has ended before.
        let _ = tell.send(outcome);
    };
    thread::Builder::new().name("chat-file".into()).spawn(work).map_err(failed)?;
    runtime.block_on(async {
        let end = tokio::select! {
            outcome = &mut ended => return outcome.unwrap_or_else(|_| Err(gone().into())),
            end = guard.asked() => end,
        };
        stopper.stop();
        match end {
            // A message that is being printed is printed whole, if anyone reads it; the guard does not wait for long.
            End::Interrupted => ended.await.unwrap_or_else(|_| Err(gone().into())),
            End::ReaderGone => Err(Stop::ReaderGone),
        }
    })
}

fn gone() -> Error {
    Error::internal("the thread that reads the chat file has ended")
}

fn print(mut follower: Follower, mut printer: Printer, deadline: Option<Instant>, once: bool) -> Outcome {
    let stopper = follower.stopper();
    let mut found = Vec::new();
    let mut whole = None;
    let mut caught_up = false;
    loop {
        let more = follower.read(&mut found)?;
        if !found.is_empty() {
            whole = None;
            if printer.take(&mut found)? {
                return Ok(());
            }
        }
        let now = Instant::now();
        let over = deadline.is_some_and(|deadline| now >= deadline);
        if stopper.is_stopped() {
            return Ok(());
        }
        caught_up |= !more;
        if over && !caught_up {
            return printer.cut_short();
        }
        if over || (once && !more && follower.due().is_none()) {
            return printer.finish();
        }
        if more {
            continue;
        }
        if printer.has_open() && now >= *whole.get_or_insert(now + WHOLE) {
            whole = None;
            if printer.rest()? {
                return Ok(());
            }
        }
        if wait(&mut follower, [deadline, whole])? == Woken::Stopped {
            return Ok(());
        }
    }
}

fn wait(follower: &mut Follower, times: [Option<Instant>; 2]) -> Result<Woken> {
    follower.wait(times.into_iter().flatten().min())
}
