//! Runs a script once: in a process group of its own, fed and read at the same time, up to a cap and a deadline.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process_group};

/// How often is looked whether the script has ended or nobody waits for it any more.
const TICK: Duration = Duration::from_millis(20);
/// How long the pipe of a script that has ended may stay open. All that it has written itself is in the pipe by then.
const HELD: Duration = Duration::from_millis(100);
/// How much is kept of what a script says to its operator: the end of it.
const STDERR_KEPT: usize = 16 << 10;
/// How long a program that somebody else is just writing is tried again.
const BUSY: Duration = Duration::from_secs(2);

/// One run.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub command: Vec<String>,
    pub directory: Option<PathBuf>,
    /// What the script reads; without it, its input ends at once.
    pub input: Option<Vec<u8>>,
    pub timeout: Duration,
    pub max_output: usize,
}

/// A run that came to its end by itself.
#[derive(Debug)]
pub(crate) struct Ended {
    pub status: ExitStatus,
    pub output: Vec<u8>,
    /// The end of what it wrote to standard error.
    pub said: String,
    /// Something that it has started still holds its output open.
    pub held: bool,
}

/// Why a run has no end of its own.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It could not be started.
    NotStarted(io::Error),
    /// It took longer than was allowed. It is gone, with all of its group.
    Overdue { said: String },
    /// It wrote more than was allowed. It is gone, with all of its group.
    TooMuch { said: String },
    /// Its pipes cannot be used.
    Pipe(io::Error),
    /// Nobody waits for it any more. It is gone, with all of its group.
    Abandoned,
}

/// So many processes may run at the same time.
pub(crate) struct Slots {
    free: Mutex<usize>,
    changed: Condvar,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Arc<Self> {
        Arc::new(Slots { free: Mutex::new(count), changed: Condvar::new() })
    }

    fn take(self: &Arc<Self>) -> Slot {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.changed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Slot(self.clone())
    }
}

struct Slot(Arc<Slots>);

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.changed.notify_one();
    }
}

/// Runs a script on a thread of its own. When the future is dropped, the script is ended.
pub(crate) async fn run(job: Job, slots: Arc<Slots>) -> Result<Ended, Broken> {
    let (answer, ended) = oneshot::channel();
    let work = move || {
        let _slot = slots.take();
        let result = match answer.is_canceled() {
            true => Err(Broken::Abandoned),
            false => run_here(&job, || answer.is_canceled()),
        };
        // Whoever has given up does not listen.
        let _ = answer.send(result);
    };
    thread::Builder::new().name("fmail-exec".into()).spawn(work).map_err(Broken::NotStarted)?;
    ended.await.unwrap_or(Err(Broken::Abandoned))
}

/// A script in a process group of its own, which ends with this value.
pub(crate) struct Group {
    pub child: Child,
    ended: Option<ExitStatus>,
}

impl Group {
    /// Starts a script. Its input, output and errors are pipes that do not block.
    pub(crate) fn start(command: &[String], directory: Option<&PathBuf>, fed: bool) -> io::Result<Group> {
        let (program, arguments) =
            command.split_first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no program"))?;
        let mut starting = Command::new(program);
        starting.args(arguments).process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        starting.stdin(if fed { Stdio::piped() } else { Stdio::null() });
        if let Some(directory) = directory {
            starting.current_dir(directory);
        }
        let begun = Instant::now();
        loop {
            match starting.spawn() {
                // A file that somebody has open for writing, if only for a moment in a fork, cannot be run.
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && begun.elapsed() < BUSY => {
                    thread::sleep(TICK);
                }
                other => return other.map(|child| Group { child, ended: None }),
            }
        }
    }

    /// Whether the script itself has ended.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Ends the script and all that it has started in its group, and waits for it.
    pub(crate) fn kill(&mut self) -> io::Result<ExitStatus> {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // The group is gone when the script and all that it has started are.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        match self.ended {
            Some(status) => Ok(status),
            None => self.child.wait().inspect(|status| self.ended = Some(*status)),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.kill();
        }
    }
}

/// Lets reads and writes of a pipe come back at once.
pub(crate) fn unblock(pipe: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&pipe)?;
    Ok(rustix::fs::fcntl_setfl(&pipe, flags | OFlags::NONBLOCK)?)
}

fn run_here(job: &Job, abandoned: impl Fn() -> bool) -> Result<Ended, Broken> {
    let deadline = Instant::now() + job.timeout;
    let mut group =
        Group::start(&job.command, job.directory.as_ref(), job.input.is_some()).map_err(Broken::NotStarted)?;
    let mut pipes = Pipes::of(&mut group.child, job.input.clone().unwrap_or_default()).map_err(Broken::Pipe)?;
    let mut ended_at: Option<Instant> = None;
    loop {
        pipes.turn(TICK, job.max_output).map_err(Broken::Pipe)?;
        let now = Instant::now();
        if pipes.output.len() > job.max_output {
            let _ = group.kill();
            return Err(Broken::TooMuch { said: pipes.said() });
        }
        if let Some(status) = group.ended().map_err(Broken::Pipe)? {
            // A stream that never pauses has no last byte: what comes behind the end is not the script's.
            let since = *ended_at.get_or_insert(now);
            if pipes.at_end() || now.duration_since(since) >= HELD {
                let (held, said) = (!pipes.at_end(), pipes.said());
                return Ok(Ended { status, output: pipes.output, said, held });
            }
        }
        if now >= deadline && ended_at.is_none() {
            let _ = group.kill();
            return Err(Broken::Overdue { said: pipes.said() });
        }
        if abandoned() {
            let _ = group.kill();
            return Err(Broken::Abandoned);
        }
    }
}

/// The three pipes of a run.
struct Pipes {
    stdin: Option<std::process::ChildStdin>,
    stdout: Option<std::process::ChildStdout>,
    stderr: Option<std::process::ChildStderr>,
    input: Vec<u8>,
    written: usize,
    output: Vec<u8>,
    errors: Vec<u8>,
}

impl Pipes {
    fn of(child: &mut Child, input: Vec<u8>) -> io::Result<Self> {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        stdin.as_ref().map_or(Ok(()), unblock)?;
        stdout.as_ref().map_or(Ok(()), unblock)?;
        stderr.as_ref().map_or(Ok(()), unblock)?;
        Ok(Pipes { stdin, stdout, stderr, input, written: 0, output: Vec::new(), errors: Vec::new() })
    }

    /// Whether the script and all that it has started have closed their output.
    fn at_end(&self) -> bool {
        self.stdout.is_none() && self.stderr.is_none()
    }

    /// Waits until something can be done, at most for a while, and does it.
    fn turn(&mut self, pause: Duration, max_output: usize) -> io::Result<()> {
        self.wait(pause)?;
        self.feed()?;
        let mut open = true;
        if let Some(stdout) = &mut self.stdout {
            open = drain(stdout, &mut self.output, max_output + 1)?;
        }
        self.stdout = self.stdout.take().filter(|_| open);
        let mut open = true;
        if let Some(stderr) = &mut self.stderr {
            open = drain(stderr, &mut self.errors, usize::MAX)?;
            keep_end(&mut self.errors, STDERR_KEPT);
        }
        self.stderr = self.stderr.take().filter(|_| open);
        Ok(())
    }

    fn wait(&self, pause: Duration) -> io::Result<()> {
        let mut watched = Vec::new();
        watched.extend(self.stdin.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
        watched.extend(self.stdout.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        watched.extend(self.stderr.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        // Nothing is left but the end of the process, which comes at once.
        let pause = if self.at_end() { Duration::from_millis(1) } else { pause };
        if self.at_end() {
            thread::sleep(pause);
            return Ok(());
        }
        let pause = Timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) as _ };
        match poll(&mut watched, Some(&pause)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes what the pipe takes. A script need not read what it is told.
    fn feed(&mut self) -> io::Result<()> {
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        while self.written < self.input.len() {
            match stdin.write(&self.input[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                Err(error) => return Err(error),
            }
        }
        self.stdin = None;
        Ok(())
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.errors).trim().to_string()
    }
}

/// Reads what is there, up to a limit in all. False when the pipe is at its end.
pub(crate) fn drain(pipe: &mut impl Read, into: &mut Vec<u8>, limit: usize) -> io::Result<bool> {
    let mut piece = [0; 64 << 10];
    // A writer that never pauses must not keep us from the clock.
    for _ in 0..16 {
        let room = limit.saturating_sub(into.len()).min(piece.len());
        if room == 0 {
            return Ok(true);
        }
        match pipe.read(&mut piece[..room]) {
            Ok(0) => return Ok(false),
            Ok(count) => into.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Keeps the end of a text that has grown too long.
pub(crate) fn keep_end(text: &mut Vec<u8>, most: usize) {
    if text.len() > 2 * most {
        text.drain(..text.len() - most);
    }
}
