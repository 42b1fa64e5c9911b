//! What ends a command that follows: a signal, its time, or a reader that is gone.
//!
//! The command writes to standard output and may be stopped there by a reader that does not read. So somebody else has
//! to watch over it: a thread that waits for the end, asks the command to come to it, and ends the process when the
//! command cannot. Both threads here sleep until there is something to do.

use std::io;
use std::os::fd::AsFd;
use std::process::exit;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fmail_api::{Error, Result};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// How long a command that is asked to end may take before it is taken to be stuck.
const GRACE: Duration = Duration::from_millis(250);

/// Why a command is asked to end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum End {
    /// SIGINT or SIGTERM came.
    Interrupted,
    /// Nobody can read standard output any more.
    ReaderGone,
}

/// The command's side of the guard. The guard's work ends when it is dropped.
pub(crate) struct Guard {
    /// Nothing when no question will come any more.
    asked: Option<oneshot::Receiver<End>>,
    _running: mpsc::Sender<()>,
}

impl Guard {
    /// Sets the guard up; from here on the signals are caught.
    ///
    /// A command looks after its deadline itself, because what is stored is printed also when the time is short. The
    /// guard only ends a command that has not come to its end some time later.
    pub(crate) fn start(deadline: Option<Instant>) -> Result<Guard> {
        let failed = |error: io::Error| Error::io("cannot prepare to wait", &error);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let signals = {
            let _inside = runtime.enter();
            (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?)
        };
        let (ask, asked) = oneshot::channel();
        let (running, ended) = mpsc::channel();
        let (tell_gone, gone) = oneshot::channel();
        // Nobody waits for this thread: as long as there is a reader it has nothing to tell.
        thread::Builder::new().name("reader".into()).spawn(|| reader_gone(tell_gone)).map_err(failed)?;
        let watch_over = move || {
            if runtime.block_on(wait(ask, signals, gone, deadline)) == Wait::Over
                && ended.recv_timeout(GRACE) == Err(mpsc::RecvTimeoutError::Timeout)
            {
                exit(0);
            }
        };
        thread::Builder::new().name("guard".into()).spawn(watch_over).map_err(failed)?;
        Ok(Guard { asked: Some(asked), _running: running })
    }

    /// Waits until the command shall end. May be given up and called again.
    pub(crate) async fn asked(&mut self) -> End {
        if let Some(asked) = &mut self.asked {
            match asked.await {
                Ok(end) => return end,
                // Without a question: the deadline, which the command knows itself. There is no second answer.
                Err(_) => self.asked = None,
            }
        }
        std::future::pending().await
    }
}

/// Whether the guard has something to see to.
#[derive(PartialEq)]
enum Wait {
    /// The command shall end.
    Over,
    /// The command has ended.
    Needless,
}

async fn wait(
    mut ask: oneshot::Sender<End>,
    (mut interrupt, mut terminate): (Signal, Signal),
    gone: oneshot::Receiver<()>,
    deadline: Option<Instant>,
) -> Wait {
    let end = tokio::select! {
        () = ask.closed() => return Wait::Needless,
        _ = interrupt.recv() => End::Interrupted,
        _ = terminate.recv() => End::Interrupted,
        Ok(()) = gone => End::ReaderGone,
        () = at(deadline) => return Wait::Over,
    };
    // A command that has just ended needs no answer.
    let _ = ask.send(end);
    Wait::Over
}

fn listen(kind: SignalKind) -> Result<Signal> {
    signal(kind).map_err(|error| Error::io("cannot listen for signals", &error))
}

/// Tells when standard output is a pipe, a socket or a terminal whose other end is gone. A file never is.
pub(crate) fn reader_gone(tell: oneshot::Sender<()>) {
    let stdout = io::stdout();
    // Asked for nothing, poll still tells errors and hang-ups, and nothing else wakes it.
    let mut watched = [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::empty())];
    loop {
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => {
                // When the guard is gone, so is the command.
                let _ = tell.send(());
                return;
            }
            // What cannot be watched shows its error when it is written.
            _ => return,
        }
    }
}

/// Waits until then, or for ever.
pub(crate) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_that_was_asked_after_the_time_was_over_can_be_asked_again() {
        let (over, asked) = oneshot::channel();
        let mut guard = Guard { asked: Some(asked), _running: mpsc::channel().0 };
        drop(over);
        for _ in 0..3 {
            let mut waiting = Box::pin(guard.asked());
            let poll = waiting.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            assert!(poll.is_pending(), "there is nothing to answer");
        }
    }
}
