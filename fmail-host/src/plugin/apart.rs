//! Work in a child process: whatever happens to the child - it crashes, hangs, prints - is told and harms nobody.
//!
//! The child answers on its standard input, which is a socket. Its standard output is left to the plugins that it loads:
//! what a library in C prints may be written out only when the process ends, so nobody but the parent can hear it.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use fmail_api::{Error, ErrorKind, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// So much of what a child prints is kept.
const KEPT: usize = 4096;
/// How long a child that has answered may take to end.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<T> {
    Answer(T),
    Error(Error),
}

/// In the child: answers the parent.
pub fn answer<T: Serialize>(answer: Result<T>) -> Result<()> {
    let line = match answer {
        Ok(value) => serde_json::to_vec(&Line::Answer(value)),
        Err(error) => serde_json::to_vec(&Line::<T>::Error(error)),
    };
    let line = line.map_err(|error| Error::internal(format!("an answer has no JSON form: {error}")))?;
    let mut rest = line.as_slice();
    while !rest.is_empty() {
        let written = rustix::io::write(rustix::stdio::stdin(), rest).map_err(|error| {
            Error::io("cannot answer on the standard input", &error.into())
                .help("this command is for fmail's own use: fmail starts it with a socket there")
        })?;
        rest = &rest[written..];
    }
    Ok(())
}

/// What became of a child.
pub struct Asked<T> {
    /// Its answer; an error of its own; that it ended without one (`internal`), or hung (`timeout`).
    pub answer: Result<T>,
    /// What it printed on standard output.
    pub stdout: Printed,
    /// What it printed on standard error.
    pub stderr: Printed,
}

/// What a child printed.
#[derive(Debug, Clone, Default)]
pub struct Printed {
    /// How many bytes.
    pub bytes: usize,
    /// The last of them.
    pub text: String,
}

/// Runs a command that answers with [`answer`], at most so long.
pub fn ask<T: DeserializeOwned>(mut command: Command, deadline: Duration) -> Result<Asked<T>> {
    let failed =
        |error: io::Error| Error::io(format_args!("cannot start {}", command.get_program().to_string_lossy()), &error);
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let started = Instant::now();
    let child = {
        // A group of its own, so that what it has started ends with it.
        command.process_group(0).stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn()
    };
    // The command holds the child's end of the socket, which nobody else may hold.
    drop(command);
    let mut child = Group(child.map_err(|error| Error::io("cannot start a process for the plugin", &error))?);
    let (stdout, stderr) = (reader(child.0.stdout.take(), KEPT), reader(child.0.stderr.take(), KEPT));
    let said = reader(Some(ours), usize::MAX).recv_timeout(deadline).ok();
    let status = said.as_ref().and_then(|_| child.ended_by(started + deadline + GRACE));
    drop(child);
    let printed = |from: Receiver<(usize, Vec<u8>)>| {
        // It is gone and prints no more; what it has started and let go of may still hold the pipe.
        let (bytes, kept) = from.recv_timeout(GRACE).unwrap_or_default();
        Printed { bytes, text: String::from_utf8_lossy(&kept).into_owned() }
    };
    Ok(Asked { answer: judged(said, status, deadline), stdout: printed(stdout), stderr: printed(stderr) })
}

fn judged<T: DeserializeOwned>(
    said: Option<(usize, Vec<u8>)>,
    status: Option<ExitStatus>,
    deadline: Duration,
) -> Result<T> {
    let Some((_, line)) = said else {
        return Err(Error::new(ErrorKind::Timeout, format!("it has not come back within {deadline:?} and was killed")));
    };
    let Some(status) = status else {
        return Err(Error::new(ErrorKind::Timeout, "its process did not end and was killed"));
    };
    // An answer is worth nothing when the process crashes behind it.
    if line.is_empty() || !status.success() {
        return Err(Error::internal(format!("its process ended without an answer: {}", shown(status))));
    }
    match serde_json::from_slice(&line) {
        Ok(Line::Answer(answer)) => Ok(answer),
        Ok(Line::Error(error)) => Err(error),
        Err(error) => Err(Error::internal(format!("the answer of its process cannot be understood: {error}"))),
    }
}

/// How a process ended, as one says it.
fn shown(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let name = Signal::from_named_raw(signal).map(|signal| format!("{signal:?}")).unwrap_or_default();
            let name = name.trim_matches('"').trim_start_matches("Signal::");
            format!("signal {signal} ({name})")
        }
        (_, Some(code)) => format!("exit code {code}"),
        _ => status.to_string(),
    }
}

/// Reads a pipe to its end on a thread of its own: how much came, and the last `most` bytes of it.
fn reader(pipe: Option<impl Read + Send + 'static>, most: usize) -> Receiver<(usize, Vec<u8>)> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let (mut count, mut kept) = (0, Vec::new());
        let mut buffer = [0; 16 * 1024];
        if let Some(mut pipe) = pipe {
            // An error is an end: the process at the other end is gone.
            while let Some(read) = pipe.read(&mut buffer).ok().filter(|read| *read > 0) {
                count += read;
                kept.extend_from_slice(&buffer[..read]);
                let excess = kept.len().saturating_sub(most);
                kept.drain(..excess);
            }
        }
        // Nobody waits any more when the deadline was first.
        let _ = sender.send((count, kept));
    });
    receiver
}

/// A process with all that it has started, which ends with this.
struct Group(Child);

impl Group {
    /// Waits for its end until this moment.
    fn ended_by(&mut self, moment: Instant) -> Option<ExitStatus> {
        loop {
            match self.0.try_wait() {
                Ok(None) if Instant::now() < moment => thread::sleep(Duration::from_millis(2)),
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whoever is gone already needs no signal.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}
