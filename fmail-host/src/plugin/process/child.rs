//! A child that runs: its pipes, its end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fmail_api::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::lines::{Filled, Lines};
use super::said::Said;
use super::spawn::spawn;
use super::{Listener, Program};

/// A line that is longer than this is none: the largest message, escaped as JSON escapes at worst, with as much again for
/// what stands beside it.
pub(super) const LONGEST_LINE: usize = 16 << 20;

/// So many chunks are read after the end of a child: more than its pipe holds, and not without end, since something that it
/// started may go on writing.
pub(super) const LAST_CHUNKS: usize = 32;

/// How long a child that has closed a pipe may take to end: usually it is ending.
const ENDING: Duration = Duration::from_millis(500);

/// A child that runs, until [`Child::end`]; dropped before that, it is killed.
pub(super) struct Child {
    process: std::process::Child,
    exit: OwnedFd,
    /// Shared with those who write; see `Link`.
    pub(super) stdin: Option<Arc<OwnedFd>>,
    stdout: OwnedFd,
    stderr: Option<OwnedFd>,
    pub(super) lines: Lines,
    said: Said,
    listener: Arc<dyn Listener>,
    collected: bool,
}

/// How a child ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// The rest of a sentence that begins with the program: "ended with exit status: 3".
    pub(super) how: String,
    /// What it last said on standard error, as the end of that sentence: "; it last said: …". Empty if it said nothing.
    pub(super) quoted: String,
}

impl Ended {
    /// The sentence, with something in the middle.
    pub(super) fn with(&self, middle: &str) -> String {
        format!("{}{middle}{}", self.how, self.quoted)
    }
}

/// What can go on.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Ready {
    /// Something came on standard output, or it is at its end.
    pub(super) input: bool,
    /// The child has ended.
    pub(super) exited: bool,
    /// The child reads no more.
    pub(super) deaf: bool,
}

impl Child {
    pub(super) fn start(program: &Program, listener: Arc<dyn Listener>) -> Result<Child> {
        let failed = |error: &io::Error| {
            let why = match error.kind() {
                io::ErrorKind::NotFound => "there is no such program".to_string(),
                io::ErrorKind::PermissionDenied => {
                    "it is not executable, or may not be executed by this user".to_string()
                }
                _ if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
                    "it is neither a program for this machine nor a script that begins with #!".to_string()
                }
                _ => error.to_string(),
            };
            Error::new(ErrorKind::Unavailable, format!("cannot run `{}`: {why}", program.shown()))
                .help("check mail.plugin.<name>.file or .command; a program file needs its x bit, a script its #! line")
        };
        let mut process = spawn(program).map_err(|error| failed(&error))?;
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(Error::internal("a child without its pipes"));
        };
        let (stdin, stdout, stderr) = (OwnedFd::from(stdin), OwnedFd::from(stdout), OwnedFd::from(stderr));
        let exit = pidfd_open(Pid::from_child(&process), PidfdFlags::empty());
        let prepared = [&stdin, &stdout, &stderr].into_iter().try_for_each(|fd| fcntl_setfl(fd, OFlags::NONBLOCK));
        let exit = match exit.and_then(|exit| prepared.map(|()| exit)) {
            Ok(exit) => exit,
            Err(error) => {
                // Nobody could wait for this child: it must not stay. What cannot be killed is gone already.
                let _ = process.kill();
                let _ = process.wait();
                return Err(failed(&error.into()));
            }
        };
        Ok(Child {
            process,
            exit,
            stdin: Some(Arc::new(stdin)),
            stdout,
            stderr: Some(stderr),
            lines: Lines::default(),
            said: Said::default(),
            listener,
            collected: false,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits until something can go on, at most so long: input is there, the child has ended, `wake` was written to, or,
    /// if that is wanted, output is taken. What comes on standard error is logged on the way.
    pub(super) fn wait(&mut self, wake: Option<&OwnedFd>, output: bool, limit: Duration) -> Ready {
        let deadline = Instant::now() + limit;
        let mut fds = vec![PollFd::new(&self.stdout, PollFlags::IN), PollFd::new(&self.exit, PollFlags::IN)];
        // That nobody reads any more is told without being asked for.
        let writable = if output { PollFlags::OUT } else { PollFlags::empty() };
        let stdin = self.stdin.clone();
        let stdin = also(&mut fds, stdin.as_deref(), writable);
        let stderr = also(&mut fds, self.stderr.as_ref(), PollFlags::IN);
        also(&mut fds, wake, PollFlags::IN);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            // Any other failure is taken as an event: reading then tells what there is.
            if poll(&mut fds, Some(&limit)) != Err(Errno::INTR) {
                break;
            }
        }
        let events = |index: Option<usize>| index.map_or(PollFlags::empty(), |index| fds[index].revents());
        let ready = Ready {
            input: !events(Some(0)).is_empty(),
            exited: !events(Some(1)).is_empty(),
            deaf: events(stdin).contains(PollFlags::ERR),
        };
        if !events(stderr).is_empty() {
            self.hear_stderr();
        }
        ready
    }

    /// Reads from standard output.
    pub(super) fn fill(&mut self) -> Filled {
        self.lines.fill(&self.stdout)
    }

    fn hear_stderr(&mut self) {
        let Some(stderr) = &self.stderr else { return };
        if self.said.read(stderr, |line| self.listener.said(line)) == Filled::End {
            self.stderr = None;
        }
    }

    /// A child that has closed a pipe is usually ending; waits a little for that.
    pub(super) fn is_ending(&mut self) -> bool {
        let deadline = Instant::now() + ENDING;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // Standard output is at its end and would make every wait a short one.
            if poll_one(&self.exit, left.min(Duration::from_millis(20))) {
                return true;
            }
            self.hear_stderr();
            if left.is_zero() {
                return false;
            }
        }
    }

    /// Tells the child and all that it started to end: closes its input and gives it `grace`, then a signal and `grace`
    /// again, then kills it. What it prints meanwhile is read, so that it never waits for us.
    pub(super) fn end_gently(mut self, grace: Duration) -> Ended {
        self.stdin = None;
        if !self.leaves_within(grace) {
            self.signal(Signal::TERM);
            let _ = self.leaves_within(grace);
        }
        self.end(None)
    }

    fn leaves_within(&mut self, grace: Duration) -> bool {
        let deadline = Instant::now() + grace;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let ready = self.wait(None, false, left);
            if ready.exited || left.is_zero() {
                return ready.exited;
            }
            if self.fill() == Filled::End {
                return poll_one(&self.exit, left);
            }
            self.lines.forget_rest();
        }
    }

    /// Ends the child and all that it started and did not put into another group, at once, and collects it. `fault` is why
    /// it has to go, if it has not gone on its own.
    pub(super) fn end(mut self, fault: Option<&str>) -> Ended {
        let status = self.collect();
        for _ in 0..LAST_CHUNKS {
            let Some(stderr) = &self.stderr else { break };
            match self.said.read(stderr, |line| self.listener.said(line)) {
                Filled::Some => {}
                // Something that the child started may hold the pipe open: nobody waits for that.
                Filled::Nothing | Filled::End => break,
            }
        }
        let listener = self.listener.clone();
        self.said.tell_left_out(&mut |line: &str| listener.said(line));
        let how = match (fault, status) {
            (Some(fault), _) => format!("{fault}, and was killed"),
            (None, Ok(status)) => format!("ended with {status}"),
            (None, Err(error)) => format!("ended, and nobody can tell how ({error})"),
        };
        Ended { how, quoted: self.said.quoted() }
    }

    fn collect(&mut self) -> io::Result<ExitStatus> {
        // It is not collected yet, so the number of its group is nobody else's.
        self.signal(Signal::KILL);
        self.collected = true;
        self.process.wait()
    }

    fn signal(&self, signal: Signal) {
        // Whoever is gone already needs no signal.
        let _ = kill_process_group(Pid::from_child(&self.process), signal);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.collected {
            // Nobody wants to know how.
            let _ = self.collect();
        }
    }
}

/// Waits for this as well, if it is there; where it stands.
fn also<'a>(fds: &mut Vec<PollFd<'a>>, fd: Option<&'a OwnedFd>, flags: PollFlags) -> Option<usize> {
    fds.push(PollFd::from_borrowed_fd(fd?.as_fd(), flags));
    Some(fds.len() - 1)
}

/// Whether something is there within this time.
pub(super) fn poll_one(fd: impl AsFd, limit: Duration) -> bool {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)).is_ok_and(|count| count > 0)
}
