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

/// How fast a connected sender sends, and how much.
struct Pace {
    pause: Duration,
    size: usize,
}

const USUAL: &Pace = &Pace { pause: Duration::from_millis(40), size: 200 };
const BULK: &Pace = &Pace { pause: Duration::from_millis(20), size: 60_000 };
const FLOOD: &Pace = &Pace { pause: Duration::ZERO, size: 1_500 };

/// What all who take part share.
pub struct Load<'a> {
    pub sandbox: &'a Sandbox,
    pub serving: Serving,
    /// How many bytes were acknowledged over sockets.
    pub bytes: Tally,
    /// How many messages were.
    messages: Tally,
    /// How often the slow watches were told to stop reading.
    pub holds: AtomicU64,
    /// How often slow watches were left behind and have recovered.
    pub recovered: Tally,
    /// Held for reading by whoever does something, for writing by who wants quiet.
    turn: RwLock<()>,
    pace: RwLock<&'static Pace>,
    over: AtomicBool,
}

impl<'a> Load<'a> {
    pub fn new(sandbox: &'a Sandbox) -> Load<'a> {
        Load {
            sandbox,
            serving: Serving::new(sandbox),
            bytes: Tally::default(),
            messages: Tally::default(),
            holds: AtomicU64::new(0),
            recovered: Tally::default(),
            turn: RwLock::new(()),
            pace: RwLock::new(USUAL),
            over: AtomicBool::new(false),
        }
    }

    /// Does something again and again at a bound rate, until it is over.
    pub fn repeat(&self, pause: Duration, step: impl FnMut(u64)) {
        self.repeat_at(|| pause, step);
    }

    fn repeat_at(&self, pause: impl Fn() -> Duration, mut step: impl FnMut(u64)) {
        for number in 0.. {
            std::thread::sleep(pause());
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

    /// Has messages sent as fast as it goes until so many have passed.
    pub fn flood(&self, messages: u64) {
        self.pace(FLOOD);
        // In steps: a machine may be slow, but not stand still.
        let start = self.messages.get();
        for number in (start..=start + messages).step_by(100) {
            self.messages.reach(number);
        }
        self.pace(USUAL);
    }

    /// Tells the slow watches to stop reading, and sends large messages until each was left behind and reads again.
    pub fn leave_slow_watches_behind(&self) {
        let recovered = self.recovered.get();
        self.pace(BULK);
        self.holds.fetch_add(1, Ordering::Relaxed);
        self.recovered.reach(recovered + SLOW);
        self.pace(USUAL);
    }

    fn pace(&self, pace: &'static Pace) {
        *self.pace.write().expect("nobody panics") = pace;
    }

    /// Ends what everybody does when it is dropped, so that a test that fails ends too.
    pub fn end_on_drop(&self) -> End<'_> {
        End(&self.over)
    }

    /// A sender with a connection, which it takes up again whenever it is lost.
    fn connected(&self, name: usize) -> Vec<Journal> {
        let mut sender = Sender::new(&self.serving, &format!("connected-{name}"));
        let mut sent = Vec::new();
        let pace = || *self.pace.read().expect("nobody panics");
        let pause = || pace().pause;
        self.repeat_at(pause, |number| {
            let to = MAILBOXES[(name + number as usize) % MAILBOXES.len()];
            let size = pace().size;
            let body = json!({"connected": name, "number": number, "fill": "x".repeat(size)});
            sent.push(sender.send(to, body));
            self.bytes.add(size as u64);
            self.messages.add(1);
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

/// Ends the load when it is dropped.
pub struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
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
