//! Agents at work on all hosts: raw lines over the daemon's socket, and the real `fmail`, with the daemon and past it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use fmail_e2e::Wire;
use serde_json::{Value, json};

use crate::host::Host;
use crate::ledger::Ledger;
use crate::network::Network;

/// What the load does.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// The pause between two requests of a client that speaks lines.
    pub lines_every: Duration,
    /// The pause between two commands; none are run without it.
    pub commands_every: Option<Duration>,
    /// Whether messages are deleted too.
    pub deletes: bool,
}

impl Default for Mix {
    fn default() -> Self {
        let lines_every = Duration::from_millis(25);
        Mix { lines_every, commands_every: Some(Duration::from_millis(120)), deletes: true }
    }
}

/// Clients on all hosts that work until they are told to end.
pub struct Load<'scope> {
    ends: Arc<AtomicBool>,
    threads: Vec<ScopedJoinHandle<'scope, u64>>,
}

impl<'scope> Load<'scope> {
    /// Starts two clients on each host, whether its daemon runs or not.
    pub fn start<'env>(scope: &'scope Scope<'scope, 'env>, network: &'env Network, seed: u64, mix: Mix) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (number, host) in network.hosts.iter().enumerate() {
            let client = |kind: u64| Client {
                host,
                ledger: &network.ledger,
                chance: Chance::new(seed.wrapping_mul(1_000).wrapping_add(number as u64 * 10 + kind)),
                mix,
                prefix: format!("h{number}{}", if kind == 0 { "l" } else { "c" }),
                sent: 0,
            };
            let (lines, ending) = (client(0), ends.clone());
            threads.push(scope.spawn(move || lines.speak(&ending)));
            if let Some(pause) = mix.commands_every {
                let (commands, ending) = (client(1), ends.clone());
                threads.push(scope.spawn(move || commands.command(pause, &ending)));
            }
        }
        Load { ends, threads }
    }

    /// Ends it, and gives the number of messages that were acknowledged.
    pub fn end(self) -> u64 {
        self.ends.store(true, Relaxed);
        let joined = self.threads.into_iter().map(|thread| match thread.join() {
            Ok(sent) => sent,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.sum()
    }
}

/// A small generator of its own for each client, so that none of them depends on how fast the others are.
pub struct Chance(u64);

impl Chance {
    /// A generator. Neighbouring seeds have nothing in common.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

const TOPICS: [&str; 3] = ["task", "status", "build"];

/// Who has mail. The same names on all hosts: an agent may read its mail wherever it works.
const WORKERS: [&str; 3] = ["worker-0", "worker-1", "worker-2"];

struct Client<'a> {
    host: &'a Host,
    ledger: &'a Ledger,
    chance: Chance,
    mix: Mix,
    prefix: String,
    sent: u64,
}

impl Client<'_> {
    /// Requests as lines, for as long as there is a daemon; and looks for one when there is none.
    fn speak(mut self, ends: &AtomicBool) -> u64 {
        let mut acknowledged = 0;
        let mut wire = None;
        while !ends.load(Relaxed) {
            std::thread::sleep(self.mix.lines_every);
            let disk = self.host.use_disk();
            if wire.is_none() {
                wire = self.host.wire();
            }
            let Some(open) = &mut wire else { continue };
            match self.one_request(open) {
                Some(counted) => acknowledged += u64::from(counted),
                None => wire = None,
            }
            drop(disk);
        }
        acknowledged
    }

    /// Asks for one thing; whether a message was acknowledged, or nothing when the daemon is gone.
    fn one_request(&mut self, wire: &mut Wire) -> Option<bool> {
        match self.chance.below(100) {
            0..60 => self.send(wire, None),
            60..78 => {
                let parent = self.some_message();
                self.send(wire, parent)
            }
            78..90 => self.mark(wire, "ack"),
            90..97 => self.mark(wire, "read"),
            _ if self.mix.deletes => self.mark(wire, "delete"),
            _ => self.send(wire, None),
        }
    }

    fn send(&mut self, wire: &mut Wire, parent: Option<Found>) -> Option<bool> {
        let (from, to, body) = self.next(parent.as_ref());
        let mut request = json!({"cmd": "send", "agent": from, "to": to, "body": body});
        if let Some(parent) = parent {
            request["reply_to"] = parent.id.into();
        }
        match wire.ask(&request) {
            Some(answer) if answer["ok"] == true => {
                let id = answer["id"].as_str().unwrap_or_else(|| panic!("an answer without an id: {answer}"));
                self.ledger.sent(self.host.number(), id, &from, &to, &body);
                Some(true)
            }
            // What was refused is not stored, except where the answer says that nobody knows.
            Some(_) => {
                self.ledger.perhaps(self.host.number(), &from, &to, &body);
                Some(false)
            }
            None => {
                self.ledger.perhaps(self.host.number(), &from, &to, &body);
                None
            }
        }
    }

    /// Reads, acknowledges or deletes some mail of some worker.
    fn mark(&mut self, wire: &mut Wire, what: &str) -> Option<bool> {
        let agent = WORKERS[self.chance.below(3) as usize];
        let Some(found) = self.pick(&self.host.store().join("dm").join(agent)) else { return Some(false) };
        let answer = wire.ask(&json!({"cmd": what, "agent": agent, "id": found.id}));
        let done = answer.as_ref().is_some_and(|answer| answer["ok"] == true);
        if !done && what == "delete" {
            let why = answer.clone().unwrap_or_default();
            self.ledger.note(&json!({"op": "unsure", "what": what, "host": self.host.number(), "agent": agent,
                "marker": found.marker, "why": why}));
        }
        answer?;
        if done && what == "read" {
            while wire.line()?.get("msg").is_some() {}
        }
        let operation = match what {
            "ack" => "acked",
            "read" => "read",
            _ => "deleted",
        };
        if done {
            self.ledger.marked(operation, self.host.number(), agent, &found.marker);
        }
        Some(false)
    }

    /// The real `fmail`: half of the time past the daemon.
    fn command(mut self, pause: Duration, ends: &AtomicBool) -> u64 {
        let mut acknowledged = 0;
        while !ends.load(Relaxed) {
            std::thread::sleep(pause);
            let disk = self.host.use_disk();
            let parent = if self.chance.below(4) == 0 { self.some_message() } else { None };
            let (from, to, body) = self.next(parent.as_ref());
            let mut command =
                if self.chance.below(2) == 0 { self.host.standalone(&from) } else { self.host.fmail(&from) };
            command.arg("send").arg(&to);
            if let Some(parent) = &parent {
                command.args(["--reply-to", &parent.id]);
            }
            let text = body.as_str().map_or_else(|| body.to_string(), String::from);
            let output = command.arg("--").arg(text).output().expect("fmail starts");
            let id = String::from_utf8_lossy(&output.stdout).trim_end().to_string();
            if output.status.success() {
                self.ledger.sent(self.host.number(), &id, &from, &to, &body);
                acknowledged += 1;
            } else {
                self.ledger.perhaps(self.host.number(), &from, &to, &body);
            }
            drop(disk);
        }
        acknowledged
    }

    /// A message that nobody has sent yet: from, to and body.
    fn next(&mut self, parent: Option<&Found>) -> (String, String, Value) {
        self.sent += 1;
        let marker = format!("{}-{}", self.prefix, self.sent);
        let from = format!("agent-{}", self.prefix);
        let to = if self.chance.below(4) == 0 {
            format!("@{}", WORKERS[self.chance.below(3) as usize])
        } else {
            TOPICS[self.chance.below(3) as usize].to_string()
        };
        let filler = "x".repeat(self.chance.below(400) as usize);
        let body = match (self.chance.below(2), parent) {
            (0, None) => json!({"marker": marker, "n": self.sent, "text": filler}),
            (0, Some(parent)) => json!({"marker": marker, "re": parent.marker, "text": filler}),
            (_, None) => json!(format!("{marker} {filler}.")),
            (_, Some(parent)) => json!(format!("{marker} re:{} {filler}.", parent.marker)),
        };
        (from, to, body)
    }

    fn some_message(&mut self) -> Option<Found> {
        let topic = TOPICS[self.chance.below(3) as usize];
        self.pick(&self.host.store().join("topics").join(topic))
    }

    /// Some message in a directory, read as a file.
    fn pick(&mut self, directory: &Path) -> Option<Found> {
        let files: Vec<PathBuf> = fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()).collect();
        let file = files.get(self.chance.below(files.len() as u64) as usize)?;
        let fields: Value = serde_json::from_str(&fs::read_to_string(file).ok()?).ok()?;
        Some(Found { id: fields["id"].as_str()?.into(), marker: marker_of(&fields["body"])? })
    }
}

/// A message that was found in a host's files.
struct Found {
    id: String,
    marker: String,
}

/// What is unique about a body; as in `checker.py`.
pub fn marker_of(body: &Value) -> Option<String> {
    let marker = body["marker"].as_str().or_else(|| body.as_str()?.split_whitespace().next());
    marker.map(String::from)
}

/// Writes a message with this id into a host's files, as another program may, and notes it.
pub fn plant(network: &Network, host: usize, to: &str, id: &str, body: &Value, reply_to: Option<&str>) {
    let time = format!("{}-{}-{}T{}:{}:{}Z", &id[..4], &id[4..6], &id[6..8], &id[9..11], &id[11..13], &id[13..15]);
    let mut message = json!({"id": id, "from": "planter", "to": to, "time": time, "body": body});
    if let Some(parent) = reply_to {
        message["reply_to"] = parent.into();
    }
    let store = network.hosts[host].store();
    let private = to.starts_with('@');
    let directory = match to.strip_prefix('@') {
        Some(agent) => store.join("dm").join(agent),
        None => store.join("topics").join(to),
    };
    make(&directory, if private { 0o700 } else { 0o755 });
    // Beside its place first: a program that writes into a directory which is watched does so.
    let temporary = store.with_file_name(format!("planted-{host}-{}", PLANTED.fetch_add(1, Relaxed)));
    fs::write(&temporary, message.to_string()).expect("own file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(if private { 0o600 } else { 0o644 });
    fs::set_permissions(&temporary, mode).expect("own file");
    fs::rename(&temporary, directory.join(format!("{id}.json"))).expect("own file");
    network.ledger.sent(host, id, "planter", to, body);
}

static PLANTED: AtomicU64 = AtomicU64::new(0);

fn make(directory: &Path, mode: u32) {
    use std::os::unix::fs::DirBuilderExt;
    let above = directory.parent().expect("below .fmail");
    fs::DirBuilder::new().recursive(true).mode(mode).create(above).expect("own directory");
    fs::DirBuilder::new().recursive(true).mode(mode).create(directory).expect("own directory");
}
