//! Running a program that the user has configured: no shell, no input, a time limit, and nothing of it left behind when
//! that is over.

use std::io::{self, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fmail_api::{Error, ErrorKind, Result};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// How much is kept of what a program prints.
const KEPT: usize = 4096;
/// How long to wait for the rest of what a program printed: something that it started may hold its output open.
const REST: Duration = Duration::from_millis(200);

/// A program that did not do what it should.
#[derive(Debug)]
pub(crate) struct Failed {
    /// Why; `cancelled` when we were told to end meanwhile.
    pub(crate) error: Error,
    /// What it printed, or the beginning of that.
    pub(crate) printed: String,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed { error, printed: String::new() }
    }
}

/// Runs the program to its end, in a process group of its own; what it prints is kept for the case that it fails. When
/// the time is over, or when we are told to end, the whole group is killed.
pub(crate) fn run(command: Command, time: Duration) -> Result<(), Failed> {
    let name = command.get_program().to_string_lossy().into_owned();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::io("cannot prepare to wait", &error))?;
    runtime.block_on(watched(command, &name, time))
}

async fn watched(command: Command, name: &str, time: Duration) -> Result<(), Failed> {
    // Listened for before there is a program: a signal that ended us would leave it alone, without its time limit.
    let listen = |kind| signal(kind).map_err(|error| Error::io("cannot listen for signals", &error));
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let (mut child, printed) = started(command).map_err(|error| Error::io(format!("cannot run `{name}`"), &error))?;
    let outcome = tokio::select! {
        () = ended(&child) => told(&mut child, name),
        () = sleep(time) => Err(killed(&mut child, ErrorKind::Timeout, format!("`{name}` did not end within {time:?}"))),
        _ = interrupt.recv() => Err(killed(&mut child, ErrorKind::Cancelled, format!("interrupted while `{name}` ran"))),
        _ = terminate.recv() => Err(killed(&mut child, ErrorKind::Cancelled, format!("ended while `{name}` ran"))),
    };
    outcome.map_err(|error| Failed { error, printed: printed.so_far() })
}

fn started(mut command: Command) -> io::Result<(Child, Printed)> {
    let (reader, writer) = io::pipe()?;
    command.process_group(0).stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    // The reader is there first: what could fail behind the start would leave the program alone.
    let printed = Printed::read(reader)?;
    let child = command.spawn()?;
    // With the command, which ends here, go our own ends of the pipe. Otherwise it would never end.
    Ok((child, printed))
}

/// Waits for the end of the program, and leaves it to be collected: until then its number is nobody else's.
async fn ended(child: &Child) {
    let id = WaitId::Pid(Pid::from_child(child));
    let wait = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(id.clone(), options).is_err_and(|error| error == Errno::INTR) {}
    };
    // The thread cannot panic; if it were cancelled, there would be nobody to wait here.
    let _ = spawn_blocking(wait).await;
}

/// How the program ended.
fn told(child: &mut Child, name: &str) -> Result<()> {
    let status = child.wait().map_err(|error| Error::io(format!("cannot tell how `{name}` ended"), &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unavailable, format!("`{name}` failed ({status})")))
}

/// Ends the program and all that it started and did not put into another group.
fn killed(child: &mut Child, kind: ErrorKind, why: String) -> Error {
    // Whoever is gone already needs no end.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
    Error::new(kind, why)
}

/// What a program prints: the beginning is kept, the rest is read and forgotten, so that the program never waits.
struct Printed {
    kept: Arc<Mutex<(Vec<u8>, usize)>>,
    end: Receiver<()>,
}

impl Printed {
    fn read(mut from: PipeReader) -> io::Result<Printed> {
        let kept = Arc::new(Mutex::new((Vec::new(), 0)));
        let (done, end) = channel();
        let into = kept.clone();
        let read = move || {
            let mut buffer = [0; 4096];
            while let Ok(1..) = from.read(&mut buffer).inspect(|count| {
                let mut into = into.lock().unwrap_or_else(PoisonError::into_inner);
                let room = (KEPT - into.0.len()).min(*count);
                into.0.extend_from_slice(&buffer[..room]);
                into.1 += count - room;
            }) {}
            // Nobody waits for this when the program succeeded.
            let _ = done.send(());
        };
        thread::Builder::new().name("printed".into()).spawn(read)?;
        Ok(Printed { kept, end })
    }

    fn so_far(&self) -> String {
        // Late is no failure: what there is by then is shown.
        let _ = self.end.recv_timeout(REST);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept.0);
        let more = if kept.1 > 0 { format!(" [{} bytes more]", kept.1) } else { String::new() };
        format!("{}{more}", text.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_program_that_succeeds_says_nothing() {
        run(shell("echo out; echo err >&2"), LONG).unwrap();
    }

    #[test]
    fn a_failure_shows_what_was_printed_and_how_it_ended() {
        let failed = run(shell("echo out; echo err >&2; exit 7"), LONG).unwrap_err();
        assert_eq!(failed.printed, "out\nerr");
        assert!(failed.error.message().contains("exit status: 7"), "{}", failed.error);
        let failed = run(Command::new("/no/such/program"), LONG).unwrap_err();
        assert!(failed.error.message().contains("/no/such/program"), "{}", failed.error);
    }

    #[test]
    fn much_output_neither_stops_the_program_nor_is_kept() {
        run(shell("head -c 1000000 /dev/zero"), LONG).unwrap();
        let failed = run(shell("head -c 1000000 /dev/zero | tr '\\0' x; exit 1"), LONG).unwrap_err();
        assert!(failed.printed.len() < KEPT + 100 && failed.printed.ends_with("[995904 bytes more]"));
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_all_that_it_started() {
        let start = Instant::now();
        // Both write to the pipe until they end; it ends only when both are gone.
        let failed = run(shell("sleep 1000 & echo $!; sleep 1000"), Duration::from_millis(300)).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Timeout);
        assert!(start.elapsed() < LONG);
        let inner: i32 = failed.printed.trim().parse().unwrap();
        let gone = || match std::fs::read_to_string(format!("/proc/{inner}/stat")) {
            // Killed, and perhaps not collected by whoever adopted it.
            Ok(stat) => stat.contains(") Z "),
            Err(_) => true,
        };
        while !gone() {
            assert!(start.elapsed() < LONG, "the program's child still runs");
            thread::yield_now();
        }
    }

    #[test]
    fn what_goes_on_in_the_background_does_not_hold_us_up() {
        let start = Instant::now();
        run(shell("sleep 20 & exit 0"), LONG).unwrap();
        let failed = run(shell("sleep 20 & echo done; exit 1"), LONG).unwrap_err();
        assert_eq!(failed.printed, "done");
        assert!(start.elapsed() < Duration::from_secs(15));
    }
}
