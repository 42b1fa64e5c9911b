//! Running a command to its end, or reading it line by line while it runs.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use serde_json::Value;

/// How long anything may take before the test fails. Far above what is needed, also on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A command that is being put together.
pub struct Fmail {
    command: Command,
    stdin: Option<Vec<u8>>,
}

/// What a command did.
#[derive(Debug, Clone)]
pub struct Output {
    /// The exit code; 128 + n after signal n, as a shell tells it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Fmail {
    pub(crate) fn new(command: Command) -> Fmail {
        Fmail { command, stdin: None }
    }

    /// Sets FMAIL_AGENT.
    #[must_use]
    pub fn agent(self, name: &str) -> Fmail {
        self.env("FMAIL_AGENT", name)
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Fmail {
        self.command.env(name, value);
        self
    }

    /// Runs in another directory.
    #[must_use]
    pub fn cwd(mut self, directory: impl AsRef<Path>) -> Fmail {
        self.command.current_dir(directory);
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Fmail {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Fmail {
        self.command.args(args);
        self
    }

    /// Runs as a user who owns nothing. As root that is another user; without root it is this one, for whom permissions
    /// count already.
    #[must_use]
    pub fn unprivileged(self) -> Fmail {
        if !rustix::process::geteuid().is_root() {
            return self;
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(self.command.get_program());
        command.args(self.command.get_args()).env_clear();
        command.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(directory) = self.command.get_current_dir() {
            command.current_dir(directory);
        }
        Fmail { command, stdin: self.stdin }
    }

    /// Gives these bytes on standard input; otherwise it is empty.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Fmail {
        self.stdin = Some(bytes.into());
        self
    }

    /// Runs it to its end.
    pub fn run(self) -> Output {
        self.spawn().wait()
    }

    /// Runs it to its end and requires exit code 0.
    pub fn ok(self) -> Output {
        let shown = format!("{:?}", self.command);
        let output = self.run();
        assert_eq!(output.code, 0, "{shown}\n{output}");
        output
    }

    /// Runs it to its end and requires this exit code and an empty standard output: a refusal gives no data.
    pub fn fails(self, code: i32) -> Output {
        let shown = format!("{:?}", self.command);
        let output = self.run();
        assert_eq!(output.code, code, "{shown}\n{output}");
        assert_eq!(output.stdout, "", "{shown}\n{output}");
        output
    }

    /// Starts it.
    pub fn spawn(mut self) -> Running {
        let input = if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
        let bytes = self.stdin.take();
        let mut running = self.started(input);
        if let (Some(bytes), Some(mut pipe)) = (bytes, running.child.stdin.take()) {
            // A command that refuses before it reads closes the pipe; that is its right.
            std::thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        running
    }

    /// Starts it, and gives its standard input to be written to.
    pub fn spawn_with_input(self) -> (Running, ChildStdin) {
        let mut running = self.started(Stdio::piped());
        let input = running.child.stdin.take().expect("piped");
        (running, input)
    }

    fn started(mut self, input: Stdio) -> Running {
        let shown = format!("{:?}", self.command);
        // A group of its own, so that what a script leaves behind ends with it.
        self.command.process_group(0).stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
        let stdout = Lines::of(child.stdout.take().expect("piped"));
        let stderr = Lines::of(child.stderr.take().expect("piped"));
        Running { child, shown, stdout, stderr, ended: false }
    }
}

impl Output {
    /// Standard output as one JSON value.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON ({error}):\n{self}"))
    }

    /// Standard output as JSON Lines.
    pub fn json_lines(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("not JSON ({error}): {line}"));
        self.stdout.lines().map(parse).collect()
    }

    /// Requires that standard error contains each of these.
    #[track_caller]
    pub fn says(&self, parts: &[&str]) -> &Output {
        for part in parts {
            assert!(self.stderr.contains(part), "standard error does not say {part:?}\n{self}");
        }
        self
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "exit {}\n--- stdout\n{}--- stderr\n{}---", self.code, self.stdout, self.stderr)
    }
}

/// A command that runs; killed when dropped, with everything that it started.
pub struct Running {
    child: Child,
    shown: String,
    stdout: Lines,
    stderr: Lines,
    ended: bool,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of standard output; fails when none comes within the deadline.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let line = self.stdout.next(DEADLINE);
        line.unwrap_or_else(|| panic!("{}: no further line; stderr:\n{}", self.shown, self.stderr.so_far()))
    }

    /// The next line of standard output as JSON.
    #[track_caller]
    pub fn json(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("not JSON ({error}): {line}"))
    }

    /// The next line of standard output, or nothing when none comes in this time or the output ends.
    pub fn line_within(&mut self, time: Duration) -> Option<String> {
        self.stdout.next(time)
    }

    /// The next line of standard error; fails when none comes within the deadline.
    #[track_caller]
    pub fn stderr_line(&mut self) -> String {
        self.stderr.next(DEADLINE).unwrap_or_else(|| panic!("{}: nothing on stderr", self.shown))
    }

    /// The next line of standard error, or nothing when none comes in this time or the output ends.
    pub fn stderr_line_within(&mut self, time: Duration) -> Option<String> {
        self.stderr.next(time)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).expect("own child");
    }

    /// Sends a signal to it and to all that it started, as Ctrl+C on a terminal does.
    pub fn signal_all(&self, signal: Signal) {
        kill_process_group(self.id(), signal).expect("own child");
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.await_end(Duration::ZERO)
    }

    /// Waits until a `fmail watch` (this command, or one that it started) has taken its place and waits for the kernel
    /// to wake it: from then on it misses nothing.
    #[track_caller]
    pub fn await_watching(&mut self) -> &mut Self {
        crate::eventually(DEADLINE.as_secs(), "a watch that waits", || {
            assert!(!self.has_ended(), "{} ended; stderr:\n{}", self.shown, self.stderr.so_far());
            family(self.pid()).into_iter().any(waits_for_files).then_some(())
        });
        self
    }

    /// Waits for its end, within the deadline. What was already read by line is not repeated.
    #[track_caller]
    pub fn wait(self) -> Output {
        self.wait_within(DEADLINE)
    }

    /// Waits for its end, within this time.
    #[track_caller]
    pub fn wait_within(mut self, time: Duration) -> Output {
        let ended = self.await_end(time);
        let status = self.end();
        let (stdout, stderr) = (self.stdout.rest(), self.stderr.rest());
        assert!(ended, "{}: still running after {time:?}\n--- stdout\n{stdout}--- stderr\n{stderr}", self.shown);
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).expect("code or signal");
        Output { code, stdout, stderr }
    }

    /// Ends what still runs of its group, then collects it. In this order: until it is collected, its id is nobody
    /// else's.
    fn end(&mut self) -> ExitStatus {
        let _ = kill_process_group(self.id(), Signal::KILL);
        self.ended = true;
        self.child.wait().expect("own child")
    }

    fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn await_end(&mut self, time: Duration) -> bool {
        let process = pidfd_open(self.id(), PidfdFlags::empty()).expect("own child");
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return false,
                Ok(_) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("poll: {error}"),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
    }
}

/// The processes of a group.
fn family(group: u32) -> Vec<u32> {
    let of_group = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name, which may contain anything: state, parent, group.
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().nth(2).map(str::parse));
        fields == Some(Some(Ok(group)))
    };
    let processes = std::fs::read_dir("/proc").expect("proc is mounted");
    processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(of_group).collect()
}

/// Whether a process holds an inotify instance.
fn waits_for_files(pid: u32) -> bool {
    let Ok(handles) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let is_inotify = |path: std::path::PathBuf| path.to_string_lossy() == "anon_inode:inotify";
    handles.flatten().any(|handle| std::fs::read_link(handle.path()).is_ok_and(is_inotify))
}

/// The lines of a pipe, read by a thread as they come.
struct Lines {
    incoming: Receiver<String>,
    reader: Option<JoinHandle<()>>,
}

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Lines {
        let (sender, incoming) = channel();
        let reader = std::thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while matches!(pipe.read_until(b'\n', &mut line), Ok(length) if length > 0) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
                line.clear();
            }
        });
        Lines { incoming, reader: Some(reader) }
    }

    fn next(&mut self, time: Duration) -> Option<String> {
        match self.incoming.recv_timeout(time) {
            Ok(line) => Some(line.strip_suffix('\n').unwrap_or(&line).to_string()),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    fn so_far(&self) -> String {
        self.incoming.try_iter().collect()
    }

    /// Everything until the pipe closes. A grandchild may hold the pipe open, so this waits no longer than the deadline.
    fn rest(&mut self) -> String {
        let end = Instant::now() + DEADLINE;
        let mut text = String::new();
        while let Ok(line) = self.incoming.recv_timeout(end.saturating_duration_since(Instant::now())) {
            text.push_str(&line);
        }
        if let Some(reader) = self.reader.take().filter(JoinHandle::is_finished) {
            let _ = reader.join();
        }
        text
    }
}
