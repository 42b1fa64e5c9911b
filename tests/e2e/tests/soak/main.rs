//! Endurance: everything at once for a minute (ten with `FMAIL_TEST_FULL`), then an account of every message.
//!
//! Senders over sockets, `fmail send` with and without the daemon, files written by hand, `gc`, watches that are brisk and
//! watches that stop reading, and a daemon that is killed, restarted, and then runs for long. The load is bound by time
//! and not by what the machine can do. At the end nothing is lost, doubled or disordered, and the daemon that ran for
//! long holds as many descriptors as before and hardly more memory.

mod by_hand;
mod load;
mod watching;

use std::time::{Duration, Instant};

use fmail_e2e::checker::{Journal, Origin, Watched, check, summary};
use fmail_e2e::{Daemon, Footprint, Random, Sandbox, full, send_the_end};

use load::Load;

/// The topics that everybody writes to, and the agents who get direct messages.
const MAILBOXES: [&str; 7] = ["@brisk", "@slow", "@viewer", "@alone", "status", "build", "task"];

/// How much more memory a daemon may hold at the end of a long life than near its start, in kilobytes. The allocator has a
/// heap for each of some sixteen threads, and each keeps what one look at the project has taken: little here, a megabyte in
/// the project that the full form ends with.
fn growth() -> u64 {
    if full() { 16 * 1024 } else { 8 * 1024 }
}

/// How much passes before a watch that has stopped reading is surely left behind: the daemon keeps 4096 messages, or 8 MB.
const MORE_THAN_A_RING: u64 = 10 * 1024 * 1024;
const MORE_THAN_A_RING_OF_MESSAGES: u64 = 4_200;

/// Lives of a daemon that end before it has settled.
fn short_lives(sandbox: &Sandbox, load: &Load, random: &mut Random) {
    for ending in 0..3 {
        let daemon = Daemon::start(sandbox);
        load.serving.announce();
        std::thread::sleep(Duration::from_millis(2_500 + random.below(1_500)));
        if ending == 1 { daemon.stop() } else { daemon.kill() }
    }
}

/// A long life: full load, readers that stop, and two quiet moments to compare.
fn long_life(sandbox: &Sandbox, load: &Load, time: Duration) -> (Daemon, Vec<String>) {
    let daemon = Daemon::start(sandbox);
    load.serving.announce();
    // First everything that makes a daemon as large as it ever gets: all that it keeps for those who lag behind, in many
    // messages and in large ones, and readers that catch up.
    load.flood(MORE_THAN_A_RING_OF_MESSAGES);
    load.leave_slow_watches_behind();
    let quiet_moment = || load.quietly(|| Footprint::settled(|| daemon.footprint()));
    let before = quiet_moment();
    let end = Instant::now() + time;
    load.leave_slow_watches_behind();
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
    let after = quiet_moment();
    println!("forged before: {before}; after {time:?}: {after}");
    (daemon, after.growth_since(before, growth()))
}

#[test]
fn a_minute_of_everything_loses_doubles_disorders_and_leaks_nothing() {
    let (rounds, long) = if full() { (10, Duration::from_secs(45)) } else { (1, Duration::from_secs(25)) };
    let mut random = Random::new(0x50a1);
    let sandbox = Sandbox::new();
    sandbox.fmail().arg("init").ok();
    let load = Load::new(&sandbox);
    let started = Instant::now();
    let mut wrong = Vec::new();
    let (journals, watches) = std::thread::scope(|scope| {
        let senders = load::start(scope, &load);
        let watches = watching::start(scope, &load);
        let end = load.end_on_drop();
        let mut last: Option<Daemon> = None;
        for _ in 0..rounds {
            if let Some(daemon) = last.take() {
                daemon.stop();
            }
            short_lives(&sandbox, &load, &mut random);
            let (daemon, grown) = long_life(&sandbox, &load, long);
            wrong.extend(grown);
            last = Some(daemon);
        }
        drop(end);
        let mut journals: Vec<Journal> = senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect();
        sandbox.agent("janitor").arg("gc").ok();
        journals.push(Journal { origin: Origin::Acknowledged, sent: send_the_end(&load.serving, &MAILBOXES) });
        let watches: Vec<Watched> = watches.into_iter().map(|watch| watch.join().unwrap()).collect();
        last.expect("there was a round").stop();
        (journals, watches)
    });
    for origin in [Origin::Acknowledged, Origin::ByHand, Origin::ByHandDatedBack, Origin::Outdated] {
        let of_origin = journals.iter().filter(|journal| journal.origin == origin);
        let count: usize = of_origin.map(|journal| journal.sent.len()).sum();
        println!("{count} messages: {origin:?}");
        assert!(count > 0, "nothing was sent: {origin:?}");
    }
    wrong.extend(check(&sandbox.store(), &journals, &watches));
    println!("{:?} in all", started.elapsed());
    assert!(wrong.is_empty(), "{}", summary(&wrong));
}
