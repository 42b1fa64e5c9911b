//! An instance over a child, and what the tests ask of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use fmail_abi::{Calls, Level, Peer};
use fmail_api::{Error, Result};
use fmail_host::plugin::{Instance, Listener, Manifest, Process, Program};
use futures::executor::block_on;

/// Longer than anything here takes, however loaded the machine is.
pub const LONG: Duration = Duration::from_secs(60);

/// The program that does what it is told.
pub fn wicked(start: &[&str]) -> Vec<OsString> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/program.py");
    let mut command: Vec<OsString> = vec!["python3".into(), file.into()];
    command.extend(start.iter().map(OsString::from));
    command
}

/// The example of the guide.
pub fn example() -> PathBuf {
    let path = "../plugins/examples/python-memory/fmail-plugin-example-python";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A shell script that begins with the protocol's greeting being read.
pub fn shell(script: &str) -> Vec<OsString> {
    ["sh", "-c", script].iter().map(OsString::from).collect()
}

/// A host that remembers what was logged.
pub struct Heard {
    pub calls: Arc<Calls>,
    pub lost: AtomicUsize,
    child: Mutex<Option<Arc<dyn Peer>>>,
    log: Mutex<Vec<String>>,
    more: Condvar,
}

impl Listener for Heard {
    fn started(&self, child: Arc<dyn Peer>) {
        *self.child.lock().unwrap() = Some(child);
    }

    fn leaving(&self) {}

    fn lost(&self) {
        self.lost.fetch_add(1, Ordering::SeqCst);
    }

    fn done(&self, id: u64, status: i32, body: &[u8]) {
        self.calls.done(id, status, body);
    }

    fn item(&self, id: u64, body: &[u8]) {
        self.calls.item(id, body);
    }

    /// Says what it was asked.
    fn call(&self, id: u64, method: &str, context: &[u8], request: &[u8]) {
        let [context, request] = [context, request].map(String::from_utf8_lossy);
        let child = self.child.lock().unwrap().clone().unwrap();
        child.done(id, 0, format!("{method} {context} {request}").as_bytes());
    }

    fn pull(&self, _: u64, _: u32) {}

    fn cancel(&self, _: u64) {}

    fn log(&self, level: Level, target: &str, message: &str, _: &[u8]) {
        self.log.lock().unwrap().push(format!("{level:?} {target}: {message}"));
        self.more.notify_all();
    }
}

impl Heard {
    /// Waits for a line of the log that contains this.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        let (mut log, start) = (self.log.lock().unwrap(), Instant::now());
        loop {
            if let Some(line) = log.iter().find(|line| line.contains(text)) {
                return line.clone();
            }
            assert!(start.elapsed() < LONG, "no line with {text:?} in {log:?}");
            log = self.more.wait_timeout(log, Duration::from_secs(1)).unwrap().0;
        }
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

/// An instance over a child.
pub struct Rig {
    pub instance: Instance,
    pub heard: Arc<Heard>,
}

/// Starts it; no call of this takes longer than `deadline`.
pub fn start(command: Vec<OsString>, deadline: Duration) -> Result<Rig> {
    start_as(Program::new("wicked", command, deadline)?)
}

pub fn start_as(program: Program) -> Result<Rig> {
    let (calls, deadline) = (Arc::new(Calls::new()), program.deadline);
    let heard = Arc::new(Heard {
        calls: calls.clone(),
        lost: AtomicUsize::new(0),
        child: Mutex::default(),
        log: Mutex::default(),
        more: Condvar::new(),
    });
    let process = Arc::new(Process::start(program, heard.clone())?);
    let manifest = Manifest::parse(std::str::from_utf8(process.manifest()).unwrap(), "the program")?;
    let making = Instance::create("wicked", Arc::new(manifest), calls, process, deadline, b"{\"role\":\"store\"}");
    Ok(Rig { instance: block_on(making)?, heard })
}

impl Rig {
    /// The wicked program, with all the time in the world.
    pub fn wicked() -> Rig {
        start(wicked(&[]), LONG).unwrap()
    }

    /// Tells the program what to do, as a method that only looks.
    pub fn tell(&self, command: &str) -> Result<String> {
        self.call("read", command)
    }

    pub fn call(&self, method: &'static str, request: &str) -> Result<String> {
        let body = block_on(self.instance.call(method, b"", request.as_bytes()))?;
        Ok(String::from_utf8(body).unwrap())
    }

    pub fn pid(&self) -> u32 {
        self.tell("pid").unwrap().parse().unwrap()
    }

    /// Ends it; every process that it was must be gone, and not even a zombie left.
    #[track_caller]
    pub fn close(self) {
        let pid = self.pid();
        block_on(self.instance.close(LONG)).unwrap();
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} is left");
    }
}

/// Waits until a process that is not ours is gone, or waits only for its new parent to collect it.
#[track_caller]
pub fn wait_until_gone(pid: u32) {
    let start = Instant::now();
    loop {
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) if !stat.contains(") Z ") => {}
            _ => return,
        }
        assert!(start.elapsed() < LONG, "process {pid} still runs");
        std::thread::yield_now();
    }
}

/// The error, which contains all of this.
#[track_caller]
pub fn expect<T>(result: Result<T>, parts: &[&str]) -> Error {
    let Err(error) = result else { panic!("expected an error with {parts:?}") };
    let text = format!("{error:?} {error}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    error
}
