//! Those who send.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use fmail_e2e::checker::{Journal, Message, Origin, digest};
use fmail_e2e::{Sandbox, Sender, Serving, Tally};
use serde_json::json;

use crate::{MAILBOXES, by_hand};

/// How many senders have a connection of their own.
const CONNECTED: usize = 4;
/// How many watches stop reading when they are told to.
pub const SLOW: u64 = 2;

/// What all who take part share.
pub struct Load<'a> {
    pub sandbox: &'a Sandbox,
    pub serving: Serving,
    /// How many bytes were acknowledged over sockets.
    pub bytes: Tally,
    /// How often the slow watches were told to stop reading.
    pub holds: AtomicU64,
    /// How often slow watches were left behind and have recovered.
    pub recovered: Tally,
    /// Held for reading by whoever does something, for writing by who wants quiet.
    turn: RwLock<()>,
    bulk: AtomicBool,
    over: AtomicBool,
}

impl<'a> Load<'a> {
    pub fn new(sandbox: &'a Sandbox) -> Load<'a> {
        Load {
            sandbox,
            serving: Serving::new(sandbox),
            bytes: Tally::default(),
            holds: AtomicU64::new(0),
            recovered: Tally::default(),
            turn: RwLock::new(()),
            bulk: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Does something again and again at a bound rate, until it is over.
    pub fn repeat(&self, pace: Duration, mut step: impl FnMut(u64)) {
        for number in 0.. {
            std::thread::sleep(if self.bulk.load(Ordering::Relaxed) { pace / 2 } else { pace });
            let _turn = self.turn.read().expect("nobody panics");
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            step(number);
        }
    }

    /// Looks while nobody does anything.
    pub fn quietly<T>(&self, look: impl FnOnce() -> T) -> T {
        let _quiet = self.turn.write().expect("nobody panics");
        look()
    }

    /// Has large messages sent until so many bytes have passed.
    pub fn send_bulk(&self, bytes: u64) {
        self.bulk.store(true, Ordering::Relaxed);
        self.bytes.reach(self.bytes.get() + bytes);
        self.bulk.store(false, Ordering::Relaxed);
    }

    /// Tells the slow watches to stop reading, and sends large messages until each was left behind and reads again.
    pub fn leave_slow_watches_behind(&self) {
        let recovered = self.recovered.get();
        self.bulk.store(true, Ordering::Relaxed);
        self.holds.fetch_add(1, Ordering::Relaxed);
        self.recovered.reach(recovered + SLOW);
        self.bulk.store(false, Ordering::Relaxed);
    }

    /// Ends what everybody does.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// A sender with a connection, which it takes up again whenever it is lost.
    fn connected(&self, name: usize) -> Vec<Journal> {
        let mut sender = Sender::new(&self.serving, &format!("connected-{name}"));
        let mut sent = Vec::new();
        self.repeat(Duration::from_millis(40), |number| {
            let to = MAILBOXES[(name + number as usize) % MAILBOXES.len()];
            let size = if self.bulk.load(Ordering::Relaxed) { 60_000 } else { 200 };
            let body = json!({"connected": name, "number": number, "fill": "x".repeat(size)});
            sent.push(sender.send(to, body));
            self.bytes.add(size as u64);
        });
        vec![Journal { origin: Origin::Acknowledged, sent }]
    }

    /// An agent that runs `fmail send`, through the daemon when there is one or always without it.
    fn process(&self, agent: &str, transports: &str) -> Vec<Journal> {
        let mut sent = Vec::new();
        self.repeat(Duration::from_millis(300), |number| {
            let to = MAILBOXES[number as usize % MAILBOXES.len()];
            let body = json!({"process": agent, "number": number});
            let command = self.sandbox.agent(agent).env("FMAIL_TRANSPORTS", transports);
            let output = command.args(["send", to, &body.to_string()]).ok();
            let id = output.stdout.trim_end().to_string();
            sent.push(Message { id, from: agent.into(), to: to.into(), body: digest(&body) });
        });
        vec![Journal { origin: Origin::Acknowledged, sent }]
    }
}

/// Starts everybody who sends. Each gives its journals when it is over.
pub fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    load: &'scope Load,
) -> Vec<ScopedJoinHandle<'scope, Vec<Journal>>> {
    let mut senders: Vec<_> = (0..CONNECTED).map(|name| scope.spawn(move || load.connected(name))).collect();
    senders.push(scope.spawn(|| load.process("process", "unix")));
    senders.push(scope.spawn(|| load.process("standalone", "")));
    senders.push(scope.spawn(|| by_hand::drop_files(load)));
    senders.push(scope.spawn(|| by_hand::plant_and_collect(load)));
    senders
}
