//! kill -9 of the daemon under load: what it acknowledged is on disk, whole and once, and whoever watches sees each
//! message exactly once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fmail_e2e::checker::{Account, Journal, Message, Origin, Watched, check, summary};
use fmail_e2e::{
    Daemon, Interruptions, Random, Running, Sandbox, Sender, Serving, Tally, Watcher, full, minutes, pause, report,
    seed, send_the_end, until_the_end,
};
use rustix::process::Signal;
use serde_json::json;

const SENDERS: u64 = 16;
const VIEWERS: [&str; 2] = ["viewer-1", "viewer-2"];
/// The watches over a socket: agent and target.
const WATCHERS: [(&str, Option<&str>); 4] =
    [("watcher-1", None), ("watcher-2", None), ("watcher-3", Some("task")), ("watcher-4", Some("@watcher-4"))];

/// The mailboxes in the order in which they get their last message. `task` is the last of all.
const MAILBOXES: [&str; 8] =
    ["@watcher-1", "@watcher-2", "@watcher-4", "@viewer-1", "@viewer-2", "status", "build", "task"];

/// What the threads share.
struct Load<'a> {
    serving: &'a Serving,
    acknowledged: Tally,
    over: AtomicBool,
}

impl Load<'_> {
    /// Sends until it is over, without a pause.
    fn send(&self, name: u64) -> Journal {
        let mut sender = Sender::new(self.serving, &format!("sender-{name}"));
        let mut sent = Vec::new();
        for number in 0_u64.. {
            if self.over.load(Ordering::Relaxed) {
                break;
            }
            // Making a directory is part of the path, and a large message takes longer to write.
            let to = match number % 40 {
                39 => format!("new-{name}-{number}"),
                _ => MAILBOXES[((name + number) % MAILBOXES.len() as u64) as usize].to_string(),
            };
            let fill = if number % 10 == 9 { 20_000 } else { 20 };
            let body = json!({"fill": "x".repeat(fill), "marker": format!("{name}-{number}")});
            sent.push(sender.send(&to, &body));
            self.acknowledged.add(1);
        }
        Journal { host: 0, origin: Origin::Acknowledged, sent }
    }

    fn watch(&self, agent: &str, target: Option<&str>) -> (Watched, Interruptions) {
        let mut watcher = Watcher::new(self.serving, agent, target);
        let seen = until_the_end(0, target.unwrap_or("task"), || watcher.message());
        (watched(agent, target, seen), watcher.interruptions)
    }
}

fn watched(agent: &str, target: Option<&str>, seen: Vec<Message>) -> Watched {
    Watched { host: 0, name: agent.into(), agent: agent.into(), target: target.map(Into::into), seen }
}

/// A real `fmail watch`.
fn view(agent: &str, mut running: Running) -> Watched {
    watched(agent, None, until_the_end(0, "task", || running.json()))
}

/// One life of a daemon, and its end at some moment. How many were killed.
fn live_and_die(sandbox: &Sandbox, load: &Load, random: &mut Random, usual_start: Duration) -> u64 {
    let mut killed = 1;
    if random.below(8) == 0 {
        // Somewhere in its start. Nobody has been told of this one.
        let daemon = Daemon::spawn(sandbox);
        pause(usual_start.mul_f64(random.below(1_200) as f64 / 1_000.0));
        daemon.kill();
        killed += 1;
    }
    let daemon = Daemon::start(sandbox);
    load.serving.announce();
    load.acknowledged.reach(load.acknowledged.get() + random.below(250));
    pause(Duration::from_micros(random.below(10_000)));
    if random.below(8) == 0 {
        // In the middle of draining.
        daemon.signal(Signal::TERM);
        pause(Duration::from_micros(random.below(10_000)));
    }
    daemon.kill();
    killed
}

#[test]
fn kills_under_load_lose_and_double_nothing_that_was_acknowledged() {
    let most = if full() { 300 } else { 40 };
    let seed = seed(0x4b11);
    let mut random = Random::new(seed);
    let sandbox = Sandbox::new();
    let serving = Serving::new(&sandbox);
    let load = Load { serving: &serving, acknowledged: Tally::default(), over: AtomicBool::new(false) };
    let started = Instant::now();
    Daemon::start(&sandbox).kill();
    let usual_start = started.elapsed();
    let mut kills = 0;
    let (journals, watches) = std::thread::scope(|scope| {
        let load = &load;
        let senders: Vec<_> = (0..SENDERS).map(|name| scope.spawn(move || load.send(name))).collect();
        let watchers = WATCHERS.map(|(agent, target)| scope.spawn(move || load.watch(agent, target)));
        let viewers = VIEWERS.map(|agent| {
            let running = sandbox.agent(agent).args(["watch", "--json", "--since", "2020-01-01"]).spawn();
            scope.spawn(move || view(agent, running))
        });
        while kills < most && minutes().is_none_or(|minutes| started.elapsed() < minutes) {
            kills += live_and_die(&sandbox, load, &mut random, usual_start);
        }
        let daemon = Daemon::start(&sandbox);
        serving.announce();
        load.over.store(true, Ordering::Relaxed);
        let mut journals: Vec<Journal> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        journals.push(Journal { host: 0, origin: Origin::Farewell, sent: send_the_end(&serving, 0, &MAILBOXES) });
        let mut watches: Vec<Watched> = viewers.into_iter().map(|viewer| viewer.join().unwrap()).collect();
        for watcher in watchers {
            let (watched, interruptions) = watcher.join().unwrap();
            println!("{}: {interruptions:?}", watched.name);
            watches.push(watched);
        }
        daemon.stop();
        (journals, watches)
    });
    let sent: usize = journals.iter().map(|journal| journal.sent.len()).sum();
    println!("{kills} kills, {sent} messages, {:?}", started.elapsed());
    let account = Account { journals, watches, ..Account::default() };
    let verdict = check(&[sandbox.store()], &account);
    assert!(verdict.wrong.is_empty(), "{}", summary(&verdict.wrong));
    let sent = account.journals.iter().flat_map(|journal| &journal.sent);
    let in_topics = sent.filter(|message| !message.to[0].starts_with('@'));
    assert_eq!(sandbox.log("reader", &[]).len(), in_topics.count(), "what `fmail log` shows");
    let counts = [("kills", kills), ("messages", verdict.count("sent")), ("watched", verdict.count("seen"))];
    report("kills", "daemon", seed, &counts);
}
