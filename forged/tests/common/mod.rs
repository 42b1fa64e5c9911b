//! A daemon in a directory of its own, and a client that is nothing but a socket.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before the test fails.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// A directory with an empty project and a home.
pub struct Place {
    pub top: TempDir,
}

impl Place {
    pub fn new() -> Place {
        let top = tempfile::Builder::new().prefix("forged-").tempdir().unwrap();
        std::fs::create_dir_all(top.path().join("project")).unwrap();
        std::fs::create_dir_all(top.path().join("home")).unwrap();
        Place { top }
    }

    pub fn root(&self) -> PathBuf {
        self.top.path().join("project")
    }

    /// `forged` in a directory, with a clean environment.
    pub fn command(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_forged"), directory);
        command.args(arguments);
        command
    }

    /// A program in a directory, with a clean environment.
    pub fn program(&self, name: &str, directory: &Path) -> Command {
        let mut command = Command::new(name);
        command
            .current_dir(directory)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.top.path().join("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts a daemon and waits until it says that it is ready.
    pub fn start_in(&self, directory: &Path, arguments: &[&str]) -> Daemon {
        self.launch(self.command(directory, arguments))
    }

    pub fn start(&self, arguments: &[&str]) -> Daemon {
        self.start_in(&self.root(), arguments)
    }

    pub fn launch(&self, mut command: Command) -> Daemon {
        let path = self.top.path().join("notify");
        let _ = std::fs::remove_file(&path);
        let notify = UnixDatagram::bind(&path).unwrap();
        notify.set_read_timeout(Some(DEADLINE)).unwrap();
        let log = self.top.path().join("log");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        command.env("NOTIFY_SOCKET", &path).stderr(file);
        let mut child = command.spawn().unwrap();
        let mut state = [0; 64];
        notify.set_nonblocking(true).unwrap();
        let end = Instant::now() + DEADLINE;
        loop {
            match notify.recv(&mut state) {
                Ok(length) => {
                    assert_eq!(&state[..length], b"READY=1");
                    return Daemon { child, log, notify };
                }
                Err(_) => {
                    let ended = child.try_wait().unwrap();
                    assert!(ended.is_none(), "forged ended: {}", std::fs::read_to_string(&log).unwrap());
                    assert!(Instant::now() < end, "forged is not ready");
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }

    /// A connection to the project's socket.
    pub fn connect(&self) -> Raw {
        Raw::unix(&self.root().join(".fmail/forged.sock"))
    }

    /// The stored messages of a topic, as the files say, by name.
    pub fn stored(&self, topic: &str) -> Vec<Value> {
        stored(&self.root(), topic)
    }
}

pub fn stored(root: &Path, topic: &str) -> Vec<Value> {
    let Ok(entries) = std::fs::read_dir(root.join(".fmail/topics").join(topic)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).expect("whole JSON")).collect()
}

/// A running daemon; killed when dropped.
pub struct Daemon {
    pub child: Child,
    log: PathBuf,
    pub notify: UnixDatagram,
}

impl Daemon {
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "forged does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How much memory it holds, in bytes.
    pub fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    }

    /// The address of its TCP listener, as its log tells it.
    pub fn tcp(&self) -> String {
        let log = self.log();
        let start = log.rfind("tcp://").expect("a TCP listener") + 6;
        log[start..].split('"').next().unwrap().split_whitespace().next().unwrap().to_string()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A client that knows nothing but bytes.
pub struct Raw {
    writer: Box<dyn Stream>,
    reader: BufReader<Box<dyn Stream>>,
    pub unix: Option<UnixStream>,
}

impl Raw {
    pub fn unix(path: &Path) -> Raw {
        Raw::over(UnixStream::connect(path).unwrap())
    }

    pub fn over(stream: UnixStream) -> Raw {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (reader, unix) = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
        Raw { writer: Box::new(stream), reader: BufReader::new(Box::new(reader)), unix: Some(unix) }
    }

    pub fn tcp(address: &str) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let reader = stream.try_clone().unwrap();
        Raw { writer: Box::new(stream), reader: BufReader::new(Box::new(reader)), unix: None }
    }

    /// Writes these bytes as they are.
    pub fn bytes(&mut self, bytes: impl AsRef<[u8]>) -> &mut Raw {
        self.writer.write_all(bytes.as_ref()).unwrap();
        self
    }

    /// Writes a line.
    pub fn send(&mut self, line: &str) -> &mut Raw {
        self.bytes(format!("{line}\n"))
    }

    /// The next line, with its end; empty when the connection is closed.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("a line in time");
        line
    }

    /// The next line as JSON.
    #[track_caller]
    pub fn json(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends a line and gives the answer.
    #[track_caller]
    pub fn ask(&mut self, line: &str) -> Value {
        self.send(line).json()
    }

    /// Sends a line that must be refused with this code.
    #[track_caller]
    pub fn refused(&mut self, line: &str, code: &str) -> Value {
        let answer = self.ask(line);
        assert_eq!(answer["ok"], false, "{line}\n{answer}");
        assert_eq!(answer["error"]["code"], code, "{line}\n{answer}");
        assert!(answer["error"]["message"].is_string() && answer["error"]["retryable"].is_boolean(), "{answer}");
        answer
    }

    /// Requires that the peer has closed the connection.
    #[track_caller]
    pub fn closed(&mut self) {
        let line = self.line();
        assert_eq!(line, "", "the connection is still open");
    }
}

impl Raw {
    /// Sends and gives the answer; nothing when the daemon is gone.
    pub fn exchange(&mut self, bytes: &[u8]) -> Option<Value> {
        self.writer.write_all(bytes).ok()?;
        self.heard()
    }

    /// The next whole line; nothing when the daemon is gone.
    pub fn heard(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.reader.read_line(&mut line).ok()?;
        line.ends_with('\n').then(|| serde_json::from_str(&line).expect("a whole line is JSON"))
    }
}

/// Runs a command to its end: its exit code, standard output and standard error.
pub fn output(mut command: std::process::Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}
