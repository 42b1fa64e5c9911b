//! Those who send.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use fmail_e2e::checker::{Account, Journal, Message, Origin};
use fmail_e2e::{Sender, Tally};
use serde_json::json;

use crate::sites::{Site, Sites};
use crate::{MAILBOXES, by_hand, mail};

/// How many senders have a connection of their own on the first host, and on the second.
const CONNECTED: [usize; 2] = [4, 2];
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
    pub sites: &'a Sites,
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
    pub fn new(sites: &'a Sites) -> Load<'a> {
        Load {
            sites,
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

    /// A sender with a connection, which it takes up again whenever it is lost. Those of the first host change their pace.
    fn connected(&self, site: &Site, name: usize) -> Account {
        let agent = format!("connected-{}-{name}", site.host);
        let mut sender = Sender::new(&site.serving, &agent);
        let mut sent = Vec::new();
        let pace = || if site.host == 0 { *self.pace.read().expect("nobody panics") } else { USUAL };
        let pause = || pace().pause;
        self.repeat_at(pause, |number| {
            let size = pace().size;
            let body = json!({"fill": "x".repeat(size), "marker": format!("{agent}/{number}")});
            sent.push(sender.send_to(&mailboxes(name, number), &body));
            if site.host == 0 {
                self.bytes.add(size as u64);
                self.messages.add(1);
            }
        });
        journal(site, Origin::Acknowledged, sent)
    }

    /// An agent that runs `fmail send`, through the daemon when there is one or always without it.
    fn process(&self, site: &Site, agent: &str, transports: &str) -> Account {
        let agent = format!("{agent}-{}", site.host);
        let mut sent = Vec::new();
        self.repeat(Duration::from_millis(300), |number| {
            let to = mailboxes(3, number);
            let body = json!({"marker": format!("{agent}/{number}")});
            let command = site.sandbox.agent(&agent).env("FMAIL_TRANSPORTS", transports);
            let output = command.args(["send", &to.join(","), &body.to_string()]).ok();
            sent.push(Message::acknowledged(output.stdout.trim_end(), &agent, &to, &body));
        });
        journal(site, Origin::Acknowledged, sent)
    }
}

/// Whom a message is for: one mailbox, and of every fifth message two or three.
fn mailboxes(name: usize, number: u64) -> Vec<&'static str> {
    let at = |offset: usize| MAILBOXES[(name + number as usize + offset) % MAILBOXES.len()];
    match number % 10 {
        4 => vec![at(0), at(1)],
        9 => vec![at(0), at(1), at(4)],
        _ => vec![at(0)],
    }
}

/// The account of somebody who sent.
pub fn journal(site: &Site, origin: Origin, sent: Vec<Message>) -> Account {
    Account { journals: vec![Journal { host: site.host, origin, sent }], ..Account::default() }
}

/// Ends the load when it is dropped.
pub struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Starts everybody who sends, reads mail or removes. Each gives an account when it is over.
pub fn start<'scope>(scope: &'scope Scope<'scope, '_>, load: &'scope Load) -> Vec<ScopedJoinHandle<'scope, Account>> {
    let mut working = Vec::new();
    for site in load.sites.both() {
        for name in 0..CONNECTED[site.host] {
            working.push(scope.spawn(move || load.connected(site, name)));
        }
        working.push(scope.spawn(move || load.process(site, "process", "unix")));
        working.push(scope.spawn(move || load.process(site, "standalone", "")));
        working.push(scope.spawn(move || mail::work(load, site)));
    }
    working.push(scope.spawn(|| by_hand::drop_files(load)));
    working.push(scope.spawn(|| by_hand::plant_and_collect(load)));
    working
}
