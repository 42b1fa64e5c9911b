//! The relay's logic under a simulated network and simulated clocks: the real operations over stores in memory, the real
//! sessions, links that delay, stall and break.
//!
//! A run is a function of its seed. `FMAIL_TEST_SEED=7` runs that one schedule, `FMAIL_RELAY_SIMULATED=20000` so many from there on,
//! `FMAIL_RELAY_TRACE=1` tells what happens.

mod flag;
mod host;
mod net;
mod world;

use std::time::{Duration, Instant};

use fmail_fuzz::Dice;
use net::Weather;
use tokio::time::sleep;
use world::{Topology, World, simulated};

/// How many schedules run without being told otherwise.
const SCHEDULES: u64 = 1_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is {text}")))
}

/// Everything happens, then everything heals. The error is what is wrong in the end; the trace is that of all that happened.
fn run(seed: u64) -> (Result<(usize, Duration), String>, u64) {
    simulated(async {
        let mut dice = Dice::new(seed);
        let hosts = 3 + dice.roll(3);
        let topology = dice.pick(&[
            Topology::Mesh,
            Topology::Hub,
            Topology::Chain,
            Topology::Hub,
            Topology::Chain,
            Topology::Doubled,
        ]);
        let mut world = World::new(dice.number(), hosts, topology);
        let deletes = world.records_travel();
        if dice.roll(2) == 0 {
            world.skew_all();
        }
        for _ in 0..10 + dice.roll(60) {
            let longest = if dice.roll(8) == 0 { 20_000 } else { 700 };
            sleep(Duration::from_millis(dice.roll(longest) as u64)).await;
            world.happens(deletes);
        }
        world.heal();
        let converged = world.converge(Duration::from_secs(180)).await;
        let held = world.held();
        (converged.map(|time| (held, time)), world.end().await)
    })
}

#[test]
fn after_whatever_has_happened_all_hosts_hold_the_same() {
    let began = Instant::now();
    let (first, count) = match (number("FMAIL_TEST_SEED"), number("FMAIL_RELAY_SIMULATED")) {
        (Some(seed), count) => (seed, count.unwrap_or(1)),
        (None, count) => (1, count.unwrap_or(SCHEDULES)),
    };
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let (mut messages, mut slowest) = (0, Duration::ZERO);
    let mut failures = Vec::new();
    std::thread::scope(|scope| {
        let part = |thread| (first..first + count).filter(move |seed| seed % threads == thread);
        let runs = |thread| scope.spawn(move || part(thread).map(|seed| (seed, run(seed).0)).collect::<Vec<_>>());
        let parts: Vec<_> = (0..threads).map(runs).collect();
        for (seed, found) in parts.into_iter().flat_map(|part| part.join().unwrap()) {
            match found {
                Ok((held, time)) => (messages, slowest) = (messages + held, slowest.max(time)),
                Err(why) => failures.push(format!("FMAIL_TEST_SEED={seed}: {why}")),
            }
        }
    });
    assert!(failures.is_empty(), "{} of {count} schedules fail:\n{}", failures.len(), failures.join("\n"));
    println!("torture relay/simulated seed={first} simulated_schedules={count} simulated_messages={messages}");
    println!(
        "{count} schedules, {messages} messages, healed within {:.1} s of simulated time, in {:.1} s",
        slowest.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    for seed in 1..20 {
        let (one, two) = (run(seed).1, run(seed).1);
        assert_eq!(one, two, "FMAIL_TEST_SEED={seed}");
        assert_ne!(one, run(seed + 1_000).1);
    }
}

#[test]
fn around_a_hub_each_message_crosses_each_link_once() {
    simulated(async {
        let mut world = World::new(7, 4, Topology::Hub);
        sleep(Duration::from_secs(5)).await;
        for number in 0..200 {
            world.send(number % 4);
            sleep(Duration::from_millis(50)).await;
        }
        world.converge(Duration::from_secs(5)).await.unwrap();
        sleep(Duration::from_secs(120)).await;
        let crossings = world.net.crossings.lock().unwrap().clone();
        assert_eq!(crossings.len(), 200 * 3);
        let twice: Vec<_> = crossings.iter().filter(|(_, count)| **count != 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
        for link in &world.links {
            let counts = link.view().counts;
            assert_eq!((counts.sent + counts.received, counts.duplicates, counts.refused), (200, 0, 0), "{counts:?}");
        }
        world.end().await;
    });
}

#[test]
fn what_one_missed_comes_in_few_requests_and_nothing_else() {
    simulated(async {
        let mut world = World::new(7, 2, Topology::Chain);
        sleep(Duration::from_secs(5)).await;
        (0..3_000).for_each(|_| world.send(0));
        world.converge(Duration::from_secs(60)).await.unwrap();
        world.set_weather(0, Weather::Cut);
        (0..500).for_each(|number| world.send(number % 2));
        world.set_weather(0, Weather::Clear);
        world.converge(Duration::from_secs(60)).await.unwrap();
        let crossings = world.net.crossings.lock().unwrap().clone();
        assert_eq!((crossings.len(), crossings.values().sum::<usize>()), (3_500, 3_500));
        world.end().await;
    });
}

#[test]
fn a_host_whose_link_stalls_is_found_out_and_catches_up() {
    simulated(async {
        let mut world = World::new(7, 2, Topology::Chain);
        sleep(Duration::from_secs(5)).await;
        world.set_weather(0, Weather::Stalled);
        world.send(0);
        sleep(Duration::from_secs(15)).await;
        let status = world.links[0].view();
        assert!(!status.connected || status.problem.is_some() || status.queued > 0, "{status:?}");
        world.heal();
        world.converge(Duration::from_secs(30)).await.unwrap();
        world.end().await;
    });
}

/// The other host keeps 10,000 agents of others and no more: the rest differs for ever, and is more than one answer lists.
#[test]
fn what_a_host_does_not_take_holds_up_nothing_else() {
    simulated(async {
        let mut world = World::new(7, 2, Topology::Chain);
        sleep(Duration::from_secs(5)).await;
        world.hosts()[0].know_agents(17_000);
        (0..100).for_each(|_| world.send(0));
        world.converge(Duration::from_secs(60)).await.unwrap();
        world.hosts()[0].read_everything("bob");
        let mut unread = Vec::new();
        // What took long to look at serves for a while, and that by the real clock.
        let began = Instant::now();
        while unread != [0, 0] && began.elapsed() < Duration::from_secs(60) {
            sleep(Duration::from_secs(5)).await;
            unread = world.hosts().iter().map(|host| host.unread("bob")).collect();
        }
        assert_eq!(unread, [0, 0]);
        world.end().await;
    });
}
