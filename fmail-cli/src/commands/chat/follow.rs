//! Following a chat file until a limit or a signal ends it.
//!
//! The file is read by a thread of its own, which sleeps in the kernel, because printing can be stopped by a reader that
//! does not read, and the command must end on a signal all the same. What it has read and nobody has printed is bounded:
//! it waits.

use std::thread;
use std::time::Duration;

use fmail_api::{Error, Result};
use fmail_chat_file::{Follower, Item, Woken};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

use super::printer::Printer;
use crate::guard::{End, Guard, at};
use crate::output::{Outcome, Stop};

/// How many blocks of the file may be read and not printed.
const AHEAD: usize = 2;
/// How long the file must have rested before a message of several lines counts as whole.
const WHOLE: Duration = Duration::from_millis(250);

/// What the thread has to tell.
enum Told {
    /// It has found this.
    Found(Vec<Item>),
    /// There was nothing more at this moment.
    CaughtUp,
    /// It cannot go on.
    Failed(Error),
}

/// Prints what the follower finds.
pub(super) fn follow(follower: Follower, printer: Printer, timeout: Option<Duration>) -> Outcome {
    let failed = |error| Error::io("cannot prepare to wait", &error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
    let stopper = follower.stopper();
    let (sender, told) = channel(AHEAD);
    thread::Builder::new().name("chat-file".into()).spawn(move || read(follower, &sender)).map_err(failed)?;
    let outcome = runtime.block_on(print(told, printer, timeout));
    stopper.stop();
    outcome
}

/// Reads until it is stopped or nobody listens.
fn read(mut follower: Follower, sender: &Sender<Told>) {
    let mut read = || -> Result<bool> {
        let mut found = Vec::new();
        let more = follower.read(&mut found)?;
        if !found.is_empty() && sender.blocking_send(Told::Found(found)).is_err() {
            return Ok(false);
        }
        if more {
            return Ok(true);
        }
        if sender.blocking_send(Told::CaughtUp).is_err() {
            return Ok(false);
        }
        Ok(follower.wait(None)? != Woken::Stopped)
    };
    loop {
        match read() {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                // When nobody listens any more, nobody wants to know.
                let _ = sender.blocking_send(Told::Failed(error));
                return;
            }
        }
    }
}

async fn print(mut told: Receiver<Told>, mut printer: Printer, timeout: Option<Duration>) -> Outcome {
    // A time too far ahead to be expressed is never.
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut guard = Guard::start(deadline)?;
    let mut whole = None;
    let mut caught_up = false;
    loop {
        // What is in the file is printed before time runs out: a short timeout still delivers it.
        let over = deadline.filter(|_| caught_up);
        tokio::select! {
            biased;
            end = guard.asked() => return match end {
                End::Interrupted => Ok(()),
                End::ReaderGone => Err(Stop::ReaderGone),
            },
            next = told.recv() => match next {
                Some(Told::Found(items)) => {
                    whole = None;
                    if printer.take(items)? {
                        return Ok(());
                    }
                }
                Some(Told::CaughtUp) => {
                    caught_up = true;
                    whole = printer.has_open().then(|| Instant::now() + WHOLE);
                }
                Some(Told::Failed(error)) => return Err(error.into()),
                None => return Ok(()),
            },
            () = at(over) => return printer.finish(),
            () = at(whole) => {
                whole = None;
                if printer.rest()? {
                    return Ok(());
                }
            }
        }
    }
}
