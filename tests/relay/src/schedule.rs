//! A sequence of faults that follows from a number.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::ground::Ground;
use crate::host::Image;
use crate::link::{Direction, Way};
use crate::load::{Chance, Load, Mix, marker_of, plant};
use crate::network::{Loss, Network, Topology};
use crate::verdict::Verdict;

/// Hosts, how they begin, and what happens to them.
#[derive(Debug, Clone)]
pub struct Schedule {
    seed: u64,
    hosts: usize,
    topology: Topology,
    /// By how many seconds each clock is wrong.
    skews: Vec<i64>,
    /// Two hosts have one name.
    twins: bool,
    /// The disk of this host is small.
    small_disk: Option<usize>,
    /// The first two hosts begin with the same messages, as from a repository.
    shared_past: bool,
    /// The last host is started only when it joins; it has been used without a daemon until then.
    joins_late: bool,
    steps: Vec<(Duration, Step)>,
}

/// What happens to a network under load.
#[derive(Debug, Clone)]
enum Step {
    Partition(usize, usize, Loss),
    Rejoin(usize, usize),
    /// The link is named by its place among all links.
    Delay(usize, Direction, Duration),
    Stall(usize, Direction),
    Truncate(usize, Direction, u64),
    Cut(usize),
    /// All links and partitions.
    Heal,
    Kill(usize),
    Stop(usize),
    Start(usize),
    /// The disk is copied, for a later [`Step::Restore`].
    Copy(usize),
    Restore(usize),
    Rename(usize, String),
    FillDisk(usize),
    EmptyDisk(usize),
    /// A file by hand, with an id of ten days ago.
    Plant(usize),
    Sweep(usize),
}

/// The oldest that `Step::Sweep` leaves.
const DAYS_KEPT: i64 = 7;
const DAY: i64 = 86_400;

impl Schedule {
    /// The schedule of this number, always the same.
    pub fn of(seed: u64) -> Schedule {
        let mut chance = Chance::new(seed);
        let hosts = 3 + chance.below(3) as usize;
        let topology = [Topology::Mesh, Topology::Hub, Topology::Chain][chance.below(3) as usize];
        let hours = |chance: &mut Chance| (chance.below(13) as i64 - 6) * 3_600 + chance.below(60) as i64;
        let skews = (0..hosts).map(|_| if chance.below(3) == 0 { hours(&mut chance) } else { 0 }).collect();
        let small_disk = (chance.below(4) == 0).then(|| chance.below(hosts as u64) as usize);
        let mut schedule = Schedule {
            seed,
            hosts,
            topology,
            skews,
            twins: chance.below(4) == 0,
            small_disk,
            shared_past: chance.below(3) == 0,
            joins_late: chance.below(3) == 0,
            steps: Vec::new(),
        };
        let steps = 10 + chance.below(5);
        schedule.steps = (0..steps).flat_map(|_| schedule.draw(&mut chance)).collect();
        if schedule.joins_late {
            let middle = schedule.steps.len() / 2;
            schedule.steps.insert(middle, (Duration::from_millis(100), Step::Start(hosts - 1)));
        }
        schedule
    }

    /// One fault, mostly with its end.
    fn draw(&self, chance: &mut Chance) -> Vec<(Duration, Step)> {
        let hosts = self.hosts as u64;
        let pause = |chance: &mut Chance| Duration::from_millis(100 + chance.below(500));
        let host = chance.below(hosts) as usize;
        let other = (host + 1 + chance.below(hosts - 1) as usize) % self.hosts;
        let link = chance.below(64) as usize;
        let direction = [Direction::Forth, Direction::Back][chance.below(2) as usize];
        let lasts = chance.below(3) == 0;
        let ended = |first: Step, end: Step| if lasts { vec![first] } else { vec![first, end] };
        let steps = match chance.below(20) {
            0..4 => {
                let loss = [Loss::Forth, Loss::Back, Loss::Both, Loss::Both][chance.below(4) as usize];
                ended(Step::Partition(host, other, loss), Step::Rejoin(host, other))
            }
            4 => vec![Step::Delay(link, direction, Duration::from_millis(chance.below(300)))],
            5..7 => ended(Step::Stall(link, direction), Step::Heal),
            7..9 => vec![Step::Truncate(link, direction, chance.below(3_000))],
            9..11 => vec![Step::Cut(link)],
            11..13 => ended(Step::Kill(host), Step::Start(host)),
            13 => ended(Step::Stop(host), Step::Start(host)),
            14 => vec![Step::Copy(host), Step::Restore(host)],
            15 => {
                vec![Step::Copy(host), Step::Cut(link), Step::Partition(host, other, Loss::Both), Step::Restore(host)]
            }
            16 => vec![Step::Rename(host, format!("renamed-{}", chance.below(3)))],
            17 => match self.small_disk {
                Some(small) => ended(Step::FillDisk(small), Step::EmptyDisk(small)),
                None => vec![Step::Cut(link)],
            },
            18 => vec![Step::Plant(host), Step::Plant(other)],
            _ => vec![Step::Plant(host), Step::Sweep(other)],
        };
        steps.into_iter().map(|step| (pause(chance), step)).collect()
    }

    /// Plays it under load, heals everything, and waits until the checker finds nothing wrong.
    pub fn run(&self) -> Verdict {
        println!("FMAIL_TEST_SEED={}: {self:?}", self.seed);
        let network = Network::new(self.hosts, self.topology);
        self.prepare(&network);
        let mut play = Play { network: &network, images: vec![None; self.hosts], full: BTreeSet::new(), planted: 0 };
        let sent = std::thread::scope(|scope| {
            let load = Load::start(scope, &network, self.seed, Mix::default());
            for (pause, step) in &self.steps {
                std::thread::sleep(*pause);
                play.step(step);
            }
            play.end();
            load.end()
        });
        let verdict = network.converge();
        // What has become the same stays the same, and nothing comes a second time.
        network.await_round_trips();
        network.converge();
        network.stop();
        let refused = network.ledger.entries().into_iter().filter(|entry| entry["why"].is_object());
        refused.for_each(|entry| println!("a delete was refused: {entry}"));
        println!(
            "FMAIL_TEST_SEED={}: {} acknowledged, the same on {} hosts after {:.1} s: {}",
            self.seed,
            sent,
            self.hosts,
            verdict.after.as_secs_f64(),
            verdict.counts
        );
        verdict
    }

    fn prepare(&self, network: &Network) {
        for (host, skew) in network.hosts.iter().zip(&self.skews) {
            host.skew(*skew);
        }
        if self.twins {
            network.hosts[0].rename("twin");
            network.hosts[1].rename("twin");
        }
        if let (Some(small), Ground::Namespaces) = (self.small_disk, network.ground()) {
            network.hosts[small].small_disk(8 << 20).unwrap_or_else(|why| panic!("no small disk: {why}"));
        }
        if self.shared_past {
            share_past(network);
        }
        let late = self.joins_late.then_some(self.hosts - 1);
        network.hosts.iter().filter(|host| Some(host.number()) != late).for_each(crate::Host::start);
    }
}

/// The first host has sent something, and its messages have come to the second.
fn share_past(network: &Network) {
    for number in 0..5 {
        let body = json!({"marker": format!("past-{number}")});
        let id = network.hosts[0].send_standalone("elder", "task", &body);
        network.ledger.sent(0, &id, "elder", "task", &body);
    }
    let store = network.hosts[1].store();
    fs::create_dir_all(&store).expect("own directory");
    let copied = Command::new("cp").arg("-a").arg(network.hosts[0].store().join("topics")).arg(&store).status();
    assert!(copied.is_ok_and(|status| status.success()));
}

/// A schedule that is being played.
struct Play<'a> {
    network: &'a Network,
    /// The last copy of each disk, and how long the ledger was then.
    images: Vec<Option<(Image, usize)>>,
    /// Whose disks are full.
    full: BTreeSet<usize>,
    planted: u64,
}

impl Play<'_> {
    fn step(&mut self, step: &Step) {
        let network = self.network;
        let links: Vec<&crate::Link> = network.links().map(|(_, link)| link).collect();
        let link = |place: &usize| links[place % links.len()];
        match step {
            Step::Partition(one, other, loss) => network.partition(*one, *other, *loss),
            Step::Rejoin(one, other) => network.rejoin(*one, *other),
            Step::Delay(place, direction, delay) => {
                link(place).set(*direction, Way { delay: *delay, ..Way::default() });
            }
            Step::Stall(place, direction) => link(place).set(*direction, Way { stalled: true, ..Way::default() }),
            Step::Truncate(place, direction, after) => {
                link(place).set(*direction, Way { truncate_after: Some(*after), ..Way::default() });
            }
            Step::Cut(place) => link(place).cut(),
            Step::Heal => network.heal(),
            Step::Kill(host) => network.hosts[*host].kill(),
            Step::Stop(host) => self.stop(*host),
            Step::Start(host) => self.start(*host),
            Step::Copy(host) => self.copy(*host),
            Step::Restore(host) => self.restore(*host),
            Step::Rename(host, name) => {
                network.hosts[*host].rename(name);
                self.restart(*host);
            }
            Step::FillDisk(host) => self.fill(*host),
            Step::EmptyDisk(host) => self.empty(*host),
            Step::Plant(host) => self.plant(*host),
            Step::Sweep(host) => self.sweep(*host),
        }
    }

    /// Whatever is still broken is mended, and every daemon runs.
    fn end(&mut self) {
        for host in 0..self.network.hosts.len() {
            self.empty(host);
            self.start(host);
        }
        self.network.heal();
    }

    fn start(&self, host: usize) {
        // A daemon whose disk is full may not be able to start. That is no promise of a relay.
        if !self.network.hosts[host].runs() && !self.full.contains(&host) {
            self.network.hosts[host].start();
        }
    }

    fn stop(&self, host: usize) {
        if !self.full.contains(&host) {
            self.network.hosts[host].stop();
        }
    }

    fn restart(&self, host: usize) {
        if self.network.hosts[host].runs() {
            self.network.hosts[host].kill();
            self.start(host);
        }
    }

    fn copy(&mut self, host: usize) {
        let (length, ran) = (self.network.ledger.length(), self.network.hosts[host].runs());
        self.network.hosts[host].kill();
        self.images[host] = Some((self.network.hosts[host].image(), length));
        if ran {
            self.start(host);
        }
    }

    /// The old disk is put back. What only the disk of before held is lost with it, by nobody's fault; that is found out by
    /// looking at all the others.
    fn restore(&mut self, host: usize) {
        let Some((image, length)) = self.images[host].clone() else { return };
        if self.full.contains(&host) {
            return;
        }
        let hosts = &self.network.hosts;
        let ran = hosts[host].runs();
        hosts[host].kill();
        let elsewhere = hosts.iter().filter(|other| other.number() != host).map(|other| other.store());
        let mut kept: BTreeSet<String> = elsewhere.flat_map(|store| markers(&store)).collect();
        kept.extend(markers(&image.project().join(".fmail")));
        let entries = self.network.ledger.entries();
        // What is acknowledged from here on, until the disk is exchanged, is on the disk that goes.
        let seen = entries.len();
        hosts[host].restore(&image);
        let mut later = self.network.ledger.entries();
        let on_old_disk = later.split_off(seen).into_iter().filter(|entry| entry["host"] == host);
        let sent = entries.into_iter().chain(on_old_disk).filter(|entry| entry["op"] == "sent");
        let lost: Vec<String> =
            sent.filter_map(|entry| marker_of(&entry["body"])).filter(|one| !kept.contains(one)).collect();
        self.network.ledger.restored(host, length, &lost);
        if ran {
            self.start(host);
        }
    }

    fn fill(&mut self, host: usize) {
        if self.network.ground() == Ground::Namespaces && self.full.insert(host) {
            self.network.hosts[host].fill_disk();
        }
    }

    fn empty(&mut self, host: usize) {
        if self.full.remove(&host) {
            self.network.hosts[host].empty_disk();
        }
    }

    fn plant(&mut self, host: usize) {
        if self.full.contains(&host) {
            return;
        }
        self.planted += 1;
        let _disk = self.network.hosts[host].use_disk();
        let id = format!("{}-{:04}", stamp(now() - 10 * DAY), self.planted);
        let body = json!({"marker": format!("old-{}", self.planted)});
        plant(self.network, host, "task", &id, &body, None);
    }

    fn sweep(&self, host: usize) {
        let on = &self.network.hosts[host];
        let _disk = on.use_disk();
        let before = now() + on.skewed() - DAYS_KEPT * DAY;
        let days = DAYS_KEPT.to_string();
        let output = on.fmail("sweeper").args(["gc", "--days", &days]).output().expect("fmail starts");
        if output.status.success() {
            self.network.ledger.swept(host, before);
        }
    }
}

/// The markers of all messages that a store holds, read as files.
fn markers(store: &Path) -> Vec<String> {
    let below = |directory: &Path| -> Vec<std::path::PathBuf> {
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let mailboxes = ["topics", "dm"].map(|kind| below(&store.join(kind))).concat();
    let files = mailboxes.iter().flat_map(|mailbox| below(mailbox));
    let read = |file: std::path::PathBuf| -> Option<String> {
        let fields: Value = serde_json::from_str(&fs::read_to_string(file).ok()?).ok()?;
        marker_of(&fields["body"])
    };
    files.filter_map(read).collect()
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// The part of an id that tells the second: `YYYYMMDD-HHMMSS`.
pub(crate) fn stamp(seconds: i64) -> String {
    let (day, time) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    // The calendar repeats every 400 years; years begin in March here, so that a leap day is the last one.
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", time / 3_600, time / 60 % 60, time % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_gives_the_same_schedule_each_time_and_another_number_another() {
        assert_eq!(format!("{:?}", Schedule::of(7)), format!("{:?}", Schedule::of(7)));
        assert_ne!(format!("{:?}", Schedule::of(7)), format!("{:?}", Schedule::of(8)));
    }

    #[test]
    fn schedules_have_three_to_five_hosts_and_between_them_every_fault() {
        let schedules: Vec<Schedule> = (0..200).map(Schedule::of).collect();
        assert!(schedules.iter().all(|schedule| (3..=5).contains(&schedule.hosts)));
        let all = format!("{schedules:?}");
        for fault in [
            "Partition",
            "Rejoin",
            "Delay",
            "Stall",
            "Truncate",
            "Cut",
            "Heal",
            "Kill",
            "Stop",
            "Start",
            "Copy",
            "Restore",
            "Rename",
            "FillDisk",
            "EmptyDisk",
            "Plant",
            "Sweep",
            "Mesh",
            "Hub",
            "Chain",
            "twins: true",
            "shared_past: true",
            "joins_late: true",
        ] {
            assert!(all.contains(fault), "{fault} does not happen in 200 schedules");
        }
    }

    #[test]
    fn stamps_are_those_of_ids() {
        assert_eq!(stamp(1_768_059_000), "20260110-153000");
        assert_eq!(stamp(951_782_400), "20000229-000000");
    }
}
