//! Endurance: everything at once for three quarters of a minute (ten minutes with `FMAIL_TEST_FULL`, or as many as
//! `FMAIL_TEST_MINUTES` says), then an account of every message.
//!
//! Two hosts relay to each other. On both are senders over sockets, `fmail send` with and without the daemon, messages to
//! several recipients, agents who read, acknowledge and archive, and watches; on the first also files that are written by hand, old
//! ones for `gc`, and watches that stop reading. Daemons are killed and restarted, and then run for long; the link between
//! them breaks, tears, falls silent and heals. The load is bound by time and not by what the machine can do. In the end nothing is
//! lost, doubled or disordered, both hosts hold the same, and whoever ran for long holds hardly more descriptors,
//! threads and memory than near its start.

mod by_hand;
mod load;
mod mail;
mod plan;
mod sites;
mod watching;

use std::time::{Duration, Instant};

use fmail_e2e::checker::{Account, Journal, Origin, check, summary};
use fmail_e2e::{Daemon, Footprint, full, minutes, report, seed, send_the_end};
use fmail_relay_tests::{Direction, Way};

use load::Load;
use plan::{Ending, Incident, Plan};
use sites::{Site, Sites};
use watching::Watches;

/// The topics that everybody writes to, and the agents who get direct messages. `task` gets the last message of all.
const MAILBOXES: [&str; 9] = ["@brisk", "@slow", "@viewer", "@alone", "@clerk", "@porter", "status", "build", "task"];

/// How much more memory a process may hold at the end of a long life than near its start, in kilobytes. A host that relays keeps
/// some hundred bytes for each message, and a heap keeps what the largest messages and one look at the project have taken.
const GROWTH: u64 = 24 * 1024;

/// How many more descriptors are no leak: whoever catches up holds the directories of the mailboxes that it reads, and a link that was
/// cut takes a while to go. One that is left behind with each connection, incident or message is far more within seconds.
const MORE_DESCRIPTORS: usize = 16;

/// How much passes before a watch that has stopped reading is surely left behind: the daemon keeps 4096 messages, or 8 MB.
const MORE_THAN_A_RING: u64 = 10 * 1024 * 1024;
const MORE_THAN_A_RING_OF_MESSAGES: u64 = 4_200;

/// How long a round is: short lives, then a long one. In the second half of the rounds, the other host's daemon ends in the middle of it.
const ROUND: Duration = Duration::from_secs(300);

/// What was done to daemons and to the link.
#[derive(Default)]
struct Counts {
    kills: u64,
    stops: u64,
    link_faults: u64,
    slow_readers: u64,
}

/// Whoever starts and ends daemons, and breaks the link.
struct Conductor<'a> {
    load: &'a Load<'a>,
    plan: Plan,
    counts: Counts,
    near: Option<Daemon>,
    far: Option<Daemon>,
    /// What processes held near the start of their lives.
    before: Vec<(String, Footprint)>,
    wrong: Vec<String>,
}

impl Conductor<'_> {
    fn end(counts: &mut Counts, daemon: Option<Daemon>, ending: Ending) {
        let Some(daemon) = daemon else { return };
        match ending {
            Ending::Killed => {
                counts.kills += 1;
                daemon.kill();
            }
            Ending::Stopped => {
                counts.stops += 1;
                daemon.stop();
            }
        }
    }

    fn start(site: &Site, daemon: &mut Option<Daemon>) {
        daemon.get_or_insert_with(|| site.start());
    }

    /// Lives of the first host's daemon that end before it has settled; the other host's ends in the middle of the second.
    fn short_lives(&mut self, lives: usize) {
        let sites = self.load.sites;
        Self::start(&sites.far, &mut self.far);
        for life in 0..lives {
            let (time, ending) = self.plan.short_life();
            println!("a life of {time:?}, then {ending:?}");
            Self::start(&sites.near, &mut self.near);
            std::thread::sleep(time / 2);
            if life % 3 == 1 {
                Self::end(&mut self.counts, self.far.take(), ending);
                std::thread::sleep(time / 2);
                Self::start(&sites.far, &mut self.far);
            } else {
                std::thread::sleep(time / 2);
            }
            // The first two are different whatever the seed is.
            let ending = if life < 2 { [Ending::Killed, Ending::Stopped][life] } else { ending };
            Self::end(&mut self.counts, self.near.take(), ending);
        }
    }

    /// A long life: full load, readers that stop, a link that fails, and two quiet moments to compare.
    fn long_life(&mut self, end: Instant, other_may_end: bool, watches: &Watches) {
        let sites = self.load.sites;
        Self::start(&sites.near, &mut self.near);
        Self::start(&sites.far, &mut self.far);
        // First everything that makes a daemon as large as it ever gets: all that it keeps for those who lag behind, in many
        // messages and in large ones, and readers that catch up.
        self.load.flood(MORE_THAN_A_RING_OF_MESSAGES);
        self.slow_readers();
        let lives = self.counts.kills + self.counts.stops;
        let before = self.footprints(watches);
        let began = Instant::now();
        loop {
            let (incident, rest) = self.plan.incident(other_may_end);
            println!("{incident:?}, then {rest:?}");
            self.happens(incident);
            std::thread::sleep(rest);
            if Instant::now() >= end {
                break;
            }
        }
        sites.link.heal();
        self.slow_readers();
        let after = self.footprints(watches);
        let far_has_ended = self.counts.kills + self.counts.stops > lives;
        for (name, after) in after {
            let is_of_far_daemon = name == daemon_of(&sites.far);
            // A watch is compared with its very beginning.
            let early = self.before.iter().find(|(known, _)| *known == name);
            let Some((_, before)) = early.or_else(|| before.iter().find(|(known, _)| *known == name)) else { continue };
            println!("{name}: {before}; after {:?}: {after}", began.elapsed());
            if !(is_of_far_daemon && far_has_ended) {
                let allowed = Footprint { descriptors: before.descriptors + MORE_DESCRIPTORS, ..*before };
                let grown = after.growth_since(allowed, GROWTH);
                self.wrong.extend(grown.into_iter().map(|what| format!("leaked: {name}: {what}")));
            }
        }
        if self.before.is_empty() {
            self.before = before.into_iter().filter(|(name, _)| !name.starts_with("forged")).collect();
        }
    }

    fn slow_readers(&mut self) {
        self.load.leave_slow_watches_behind();
        self.counts.slow_readers += load::SLOW;
    }

    /// What everybody who lives long holds, while nobody does anything and nothing is under way between the hosts.
    fn footprints(&self, watches: &Watches) -> Vec<(String, Footprint)> {
        let sites = self.load.sites;
        self.load.quietly(|| {
            sites.await_link();
            let mut found = watches.footprints();
            for (site, daemon) in [(&sites.near, &self.near), (&sites.far, &self.far)] {
                let daemon = daemon.as_ref().expect("both run");
                found.push((daemon_of(site), Footprint::settled(|| daemon.footprint())));
                println!("{} holds {:?}", daemon_of(site), Footprint::held(daemon.pid()));
            }
            found
        })
    }

    fn happens(&mut self, incident: Incident) {
        let sites = self.load.sites;
        self.counts.link_faults += u64::from(!matches!(incident, Incident::Away(..) | Incident::SlowReaders));
        match incident {
            Incident::Cut => sites.link.cut(),
            Incident::Refused(attempts) => {
                sites.link.refuse(attempts);
                sites.link.cut();
            }
            Incident::Torn(after) => {
                sites.link.set(Direction::Forth, Way { truncate_after: Some(after), ..Way::default() });
            }
            Incident::Silent(time) => {
                let silent = Way { stalled: true, ..Way::default() };
                [Direction::Forth, Direction::Back].iter().for_each(|direction| sites.link.set(*direction, silent));
                std::thread::sleep(time);
                sites.link.heal();
            }
            Incident::Away(ending, time) => {
                Self::end(&mut self.counts, self.far.take(), ending);
                std::thread::sleep(time);
                Self::start(&sites.far, &mut self.far);
            }
            Incident::SlowReaders => self.slow_readers(),
        }
    }
}

fn daemon_of(site: &Site) -> String {
    format!("forged of host {}", site.host)
}

#[test]
fn everything_at_once_loses_doubles_disorders_and_leaks_nothing() {
    let seed = seed(0x50a1);
    println!("FMAIL_TEST_SEED={seed}");
    let usual = Duration::from_secs(if full() { 600 } else { 30 });
    let time = minutes().unwrap_or(usual);
    let rounds = (time.as_secs() / ROUND.as_secs()).max(1) as u32;
    let lives = if time < ROUND { 3 } else { 6 };
    let sites = Sites::new();
    let load = Load::new(&sites);
    let started = Instant::now();
    let (account, mut wrong, counts) = std::thread::scope(|scope| {
        let working = load::start(scope, &load);
        let watches = Watches::start(scope, &load);
        let end = load.end_on_drop();
        let mut conductor = Conductor {
            load: &load,
            plan: Plan::of(seed),
            counts: Counts::default(),
            near: None,
            far: None,
            before: Vec::new(),
            wrong: Vec::new(),
        };
        for round in 1..=rounds {
            if let Some(daemon) = conductor.near.take() {
                Conductor::end(&mut conductor.counts, Some(daemon), Ending::Stopped);
            }
            conductor.short_lives(lives);
            conductor.long_life(started + time * round / rounds, round * 2 > rounds && rounds > 1, &watches);
        }
        drop(end);
        let mut account = Account::default();
        for worker in working {
            let Account { journals, marks, .. } = worker.join().unwrap();
            account.journals.extend(journals);
            account.marks.extend(marks);
        }
        sites.link.heal();
        for site in sites.both() {
            site.sandbox.agent("janitor").arg("gc").ok();
        }
        sites.await_same();
        for site in sites.both() {
            let sent = send_the_end(&site.serving, site.host, &MAILBOXES);
            account.journals.push(Journal { host: site.host, origin: Origin::Farewell, sent });
        }
        sites.await_same();
        account.watches = watches.end();
        account.listed = mail::list_when_same(&sites);
        [conductor.near, conductor.far].into_iter().flatten().for_each(Daemon::stop);
        (account, conductor.wrong, conductor.counts)
    });
    for (origin, count) in account.counts() {
        println!("{count} messages: {origin:?}");
        assert!(count > 0, "nothing was sent: {origin:?}");
    }
    assert!(account.marks.len() > 10, "hardly any mail was worked through: {}", account.marks.len());
    let verdict = check(&sites.stores(), &account);
    println!("{} in {:?}", verdict.counts, started.elapsed());
    report(
        "soak",
        "two-hosts",
        seed,
        &[
            ("messages", verdict.count("sent")),
            ("files", verdict.count("files")),
            ("watched", verdict.count("seen")),
            ("marks", verdict.count("marks")),
            ("kills", counts.kills),
            ("stops", counts.stops),
            ("link_faults", counts.link_faults),
            ("slow_readers", counts.slow_readers),
        ],
    );
    wrong.extend(verdict.wrong);
    assert!(wrong.is_empty(), "{}", summary(&wrong));
}
