//! A host: a namespace, a directory with a project and a home, a host name, a clock, and a daemon that runs or does not.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use fmail_e2e::{DEADLINE, Wire, eventually, fmail_binary, forged_binary};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::ground::{Land, succeed};
use crate::janitor::MARK;

/// The project that all hosts share.
pub const PROJECT: &str = "relay-proof";

/// One host of a network.
pub struct Host {
    number: usize,
    network: String,
    directory: PathBuf,
    /// Words before each program; the last is the host's name, which may change.
    prefix: Vec<String>,
    address: String,
    state: Mutex<State>,
    /// Written by whoever exchanges the disk; read by whoever uses it meanwhile.
    disk: RwLock<()>,
    images: AtomicU64,
}

struct State {
    name: String,
    peers: Vec<String>,
    /// By how many seconds the clock is wrong.
    skew: i64,
    daemon: Option<Child>,
}

/// A copy of a host's disk.
#[derive(Debug, Clone)]
pub struct Image(PathBuf);

impl Image {
    /// The project in it.
    pub fn project(&self) -> PathBuf {
        self.0.join("project")
    }
}

impl Host {
    pub(crate) fn new(network: &str, top: &Path, land: &Land, number: usize, peers: Vec<String>) -> Host {
        let directory = top.join(format!("h{number}"));
        for part in ["project", "home/.config/fmail"] {
            fs::create_dir_all(directory.join(part)).expect("own directory");
        }
        let name = format!("host-{number}");
        Host {
            number,
            network: network.into(),
            directory,
            prefix: land.prefix(number, &name),
            address: land.address(number).to_string(),
            state: Mutex::new(State { name, peers, skew: 0, daemon: None }),
            disk: RwLock::default(),
            images: AtomicU64::new(0),
        }
    }

    /// Its number in the network.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The root of its project.
    pub fn project(&self) -> PathBuf {
        self.directory.join("project")
    }

    /// Its user's home.
    pub fn home(&self) -> PathBuf {
        self.directory.join("home")
    }

    /// `.fmail` of its project.
    pub fn store(&self) -> PathBuf {
        self.project().join(".fmail")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the disk from being exchanged.
    pub fn use_disk(&self) -> RwLockReadGuard<'_, ()> {
        self.disk.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exchange_disk(&self) -> RwLockWriteGuard<'_, ()> {
        self.disk.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives it another name, from the next program on that it starts.
    pub fn rename(&self, name: &str) {
        self.state().name = name.into();
    }

    /// Sets its clock wrong by so many seconds, from the next program on that it starts.
    pub fn skew(&self, seconds: i64) {
        self.state().skew = seconds;
    }

    /// By how many seconds its clock is wrong.
    pub fn skewed(&self) -> i64 {
        self.state().skew
    }

    /// Whom it dials, from the next start on.
    pub fn dial(&self, peers: Vec<String>) {
        self.state().peers = peers;
    }

    /// Puts its project on a disk of its own that holds so many bytes. Before anything is stored there.
    pub fn small_disk(&self, bytes: u64) -> Result<(), String> {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(self.project());
        succeed(&mut command, None)
    }

    /// A program on this host.
    pub fn command(&self, program: &Path) -> Command {
        let state = self.state();
        let mut words = self.prefix.clone();
        if let Some(name) = words.last_mut() {
            name.clone_from(&state.name);
        }
        words.push(program.to_str().expect("our paths are text").into());
        let mut command = Command::new(&words[0]);
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into());
        command.args(&words[1..]).current_dir(self.project()).env_clear();
        command.env("PATH", path).env("HOME", self.home()).env("LC_ALL", "C.UTF-8").env("GIT_CONFIG_NOSYSTEM", "1");
        command.env("FMAIL_ROOT", self.project()).env("FMAIL_PROJECT", PROJECT).env(MARK, &self.network);
        if state.skew != 0 {
            command.env("FMAIL_TEST_CLOCK_OFFSET", state.skew.to_string());
        }
        command.stdin(Stdio::null());
        command
    }

    /// `fmail` on this host, as this agent.
    pub fn fmail(&self, agent: &str) -> Command {
        let mut command = self.command(fmail_binary());
        command.env("FMAIL_AGENT", agent);
        command
    }

    /// The same past the daemon.
    pub fn standalone(&self, agent: &str) -> Command {
        let mut command = self.fmail(agent);
        command.env("FMAIL_TRANSPORTS", "");
        command
    }

    /// Runs `fmail` to its end and requires success; gives what it printed.
    #[track_caller]
    pub fn run(&self, agent: &str, arguments: &[&str]) -> String {
        let output = self.fmail(agent).args(arguments).output().expect("fmail starts");
        told(arguments, &output)
    }

    /// Sends past the daemon, and gives the id.
    #[track_caller]
    pub fn send_standalone(&self, agent: &str, to: &str, body: &Value) -> String {
        let arguments = ["send", to, "--", &body.to_string()];
        let output = self.standalone(agent).args(arguments).output().expect("fmail starts");
        told(&arguments, &output).trim_end().to_string()
    }

    /// Starts the daemon and waits until it answers.
    #[track_caller]
    pub fn start(&self) {
        self.spawn();
        eventually(DEADLINE.as_secs(), "a daemon that answers", || {
            if let Some(status) = self.state().daemon.as_mut().and_then(|daemon| daemon.try_wait().ok().flatten()) {
                panic!("the daemon of host {} ended with {status}\n{}", self.number, self.log_end());
            }
            self.ask(&json!({"cmd": "hello", "agent": "prober"})).filter(|answer| answer["ok"] == true)
        });
    }

    /// The same without any peers, so that it does what it does alone.
    #[track_caller]
    pub fn start_alone(&self) {
        let peers = std::mem::take(&mut self.state().peers);
        self.start();
        self.dial(peers);
    }

    /// Starts the daemon and waits for nothing.
    pub fn spawn(&self) {
        self.configure();
        let log = OpenOptions::new().create(true).append(true).open(self.log_file()).expect("own file");
        let mut command = self.command(forged_binary());
        let daemon = command.stdout(Stdio::null()).stderr(log).spawn().expect("forged starts");
        let earlier = self.state().daemon.replace(daemon);
        assert!(earlier.is_none(), "host {} has a daemon already", self.number);
    }

    fn configure(&self) {
        let peers: Vec<Value> = self.state().peers.iter().map(|peer| json!(peer)).collect();
        let text = format!(
            "[mail.tcp]\naddress = \"{}\"\ninsecure = true\n\n\
             [mail.relay]\nenabled = true\npeers = {}\ndial_timeout = \"1s\"\nreconnect_interval = \"200ms\"\n",
            self.address,
            Value::from(peers)
        );
        fs::write(self.home().join(".config/fmail/config.toml"), text).expect("own file");
    }

    /// Whether it has a daemon.
    pub fn runs(&self) -> bool {
        self.state().daemon.is_some()
    }

    /// kill -9 of the daemon, if there is one.
    pub fn kill(&self) {
        self.end(Signal::KILL);
    }

    /// Ends the daemon in order, if there is one.
    pub fn stop(&self) {
        self.end(Signal::TERM);
    }

    fn end(&self, signal: Signal) {
        let Some(mut daemon) = self.state().daemon.take() else { return };
        let _ = kill_process(Pid::from_child(&daemon), signal);
        let status = daemon.wait().expect("own child");
        let log = fs::read_to_string(self.log_file()).unwrap_or_default();
        assert!(!log.contains("panicked"), "the daemon of host {} panicked:\n{log}", self.number);
        let well = signal == Signal::KILL || status.success();
        assert!(well, "the daemon of host {} ended with {status}\n{}", self.number, self.log_end());
    }

    /// A connection to the daemon, if it runs.
    pub fn wire(&self) -> Option<Wire> {
        Wire::connect(&self.store().join("forged.sock")).ok()
    }

    /// One question on a connection of its own.
    pub fn ask(&self, request: &Value) -> Option<Value> {
        self.wire()?.ask(request)
    }

    /// The state of its links, as it tells itself.
    pub fn relay_status(&self) -> Option<Value> {
        let answer = self.ask(&json!({"cmd": "relay_status", "agent": "prober"}))?;
        answer.get("relay").cloned()
    }

    /// A copy of the disk, made while no daemon runs.
    pub fn image(&self) -> Image {
        assert!(!self.runs(), "a copy of a disk that is written to is no image");
        let _disk = self.exchange_disk();
        let number = self.images.fetch_add(1, Relaxed);
        let image = self.directory.with_file_name(format!("image-{}-{number}", self.number));
        copy(&self.directory, &image);
        Image(image)
    }

    /// Puts a copy of a disk back, this host's own or another's. What is on the disk is gone.
    pub fn restore(&self, image: &Image) {
        assert!(!self.runs(), "the disk is exchanged under a running daemon");
        let _disk = self.exchange_disk();
        for part in ["project", "home"] {
            let directory = self.directory.join(part);
            // The directory itself stays: it may be a mount point.
            for entry in fs::read_dir(&directory).expect("own directory").flatten() {
                let path = entry.path();
                let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.expect("own file");
            }
            copy(&image.0.join(part), &directory);
        }
    }

    fn log_file(&self) -> PathBuf {
        self.directory.with_file_name(format!("h{}.log", self.number))
    }

    fn log_end(&self) -> String {
        let log = fs::read_to_string(self.log_file()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// What it says of itself, for whoever looks into a failure.
    pub fn account(&self) -> String {
        let status = self.relay_status().map_or_else(|| "no daemon answers".into(), |status| status.to_string());
        format!("--- host {}: {status}\n{}\n", self.number, self.log_end())
    }

    /// Fills the disk to its last byte, until [`Host::empty_disk`].
    pub fn fill_disk(&self) {
        use std::io::Write;
        let mut ballast = File::create(self.ballast()).expect("a new file has room");
        while ballast.write_all(&[0; 4096]).is_ok() {}
    }

    /// Takes away what filled the disk.
    pub fn empty_disk(&self) {
        let _ = fs::remove_file(self.ballast());
    }

    fn ballast(&self) -> PathBuf {
        self.project().join("ballast")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.state().daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Copies what is in a directory, with modes and times.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("own directory");
    let mut command = Command::new("cp");
    command.arg("-a").arg(from.join(".")).arg(to);
    succeed(&mut command, None).unwrap_or_else(|why| panic!("{why}"));
}

#[track_caller]
fn told(arguments: &[&str], output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "fmail {arguments:?}: {}\n{errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
