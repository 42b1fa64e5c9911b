//! Hosts and links, and what happens to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fmail_api::{
    Bulk, Client, Context, GcRequest, HelloRequest, Mark, MarkRequest, Operation, Place, Request, Response,
    SendRequest, Timestamp,
};
use fmail_transports::peer::{End, LinkState, Pace, Session};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::flag::Flag;
use crate::host::{Host, Image};
use crate::net::{Connection, Net, Weather, Wire};

/// Who dials whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    Mesh,
    Hub,
    Chain,
    /// A mesh in which each dials the other, and both links work.
    Doubled,
}

impl Topology {
    /// The links, each as who dials and who is dialled.
    pub fn links(self, hosts: usize) -> Vec<(usize, usize)> {
        match self {
            Topology::Mesh => (0..hosts).flat_map(|one| (one + 1..hosts).map(move |two| (one, two))).collect(),
            Topology::Doubled => (0..hosts)
                .flat_map(|one| (0..hosts).filter(move |two| one != *two).map(move |two| (one, two)))
                .collect(),
            Topology::Hub => (1..hosts).map(|spoke| (spoke, 0)).collect(),
            Topology::Chain => (1..hosts).map(|host| (host - 1, host)).collect(),
        }
    }
}

/// Everything there is in a run.
pub struct World {
    pub net: Arc<Net>,
    hosts: Arc<Mutex<Vec<Host>>>,
    pub links: Vec<Arc<LinkState>>,
    weather: Vec<Flag<Weather>>,
    days: Arc<Mutex<Duration>>,
    images: Vec<Option<Image>>,
    /// What was acknowledged and must be there in the end.
    owed: BTreeSet<Place>,
    /// What was deleted and must not be there in the end.
    deleted: BTreeSet<Place>,
    /// What is an answer to what.
    answers: BTreeMap<Place, Place>,
    sent: usize,
    work: JoinSet<()>,
}

impl World {
    pub fn new(seed: u64, hosts: usize, topology: Topology) -> World {
        let (net, days) = (Net::new(seed), Arc::new(Mutex::new(Duration::ZERO)));
        let new = |number| Host::new(number, net.number(), net.number(), days.clone());
        let hosts: Vec<Host> = (0..hosts).map(new).collect();
        let images = hosts.iter().map(|_| None).collect();
        let links = topology.links(hosts.len());
        let hosts = Arc::new(Mutex::new(hosts));
        let mut work = JoinSet::new();
        let (mut states, mut weather) = (Vec::new(), Vec::new());
        for (number, (dials, dialled)) in links.into_iter().enumerate() {
            let sky = Flag::new(Weather::Clear);
            let clock = hosts.lock().unwrap()[dials].clock.clone();
            let state = Arc::new(LinkState::new(format!("host-{dialled}"), "proj-sim", clock));
            let link = Link { number, dials, dialled, net: net.clone(), hosts: hosts.clone(), weather: sky.clone() };
            work.spawn(link.keep(state.clone()));
            states.push(state);
            weather.push(sky);
        }
        World {
            net,
            hosts,
            links: states,
            weather,
            days,
            images,
            owed: BTreeSet::new(),
            deleted: BTreeSet::new(),
            answers: BTreeMap::new(),
            sent: 0,
            work,
        }
    }

    pub fn hosts(&self) -> MutexGuard<'_, Vec<Host>> {
        self.hosts.lock().unwrap()
    }

    fn some_host(&self) -> usize {
        let count = self.hosts().len();
        self.net.roll(count)
    }

    /// Sends a message from a host, which acknowledges it.
    pub fn send(&mut self, host: usize) {
        self.sent += 1;
        let to = ["task", "build", "@bob", "@carol"][self.net.roll(4)];
        let mut request = SendRequest::new(to.parse().unwrap(), format!("message {} of host {host}", self.sent));
        let hosts = self.hosts.lock().unwrap();
        let mut answered = None;
        if self.net.roll(3) == 0 && self.sent < 1_000 {
            let held = hosts[host].messages();
            if let Some(message) = held.get(self.net.roll(held.len())) {
                request.reply_to = Some(message.id.to_string());
                answered = Some(Place::of(message));
            }
        }
        let answer = hosts[host].call("alice", Request::Send(Box::new(request)));
        // Ids that have run ahead of a clock which was set back are refused, and then nothing is owed.
        if let Ok(Response::Sent(sent)) = answer {
            let place = Place::of(&sent.message);
            self.net.trace(&format!("host {host} sends {place}"));
            self.owed.insert(place);
            self.answers.extend(answered.map(|answered| (place, answered)));
        }
    }

    /// Deletes everything in a mailbox, for good.
    pub fn delete(&mut self, host: usize) {
        let hosts = self.hosts.lock().unwrap();
        let before = hosts[host].places();
        let bulk = Some(Bulk { all: true, ..Bulk::default() });
        let request = MarkRequest { mark: Mark::Deleted, ids: Vec::new(), bulk, token: None, dry_run: false };
        hosts[host].call("bob", Request::Mark(request)).unwrap();
        let after = hosts[host].places();
        let gone: Vec<Place> = before.difference(&after).copied().collect();
        self.net.trace(&format!("host {host} deletes {}", gone.len()));
        self.owed.retain(|place| !gone.contains(place));
        self.deleted.extend(gone);
    }

    /// Sweeps away what is older than a day.
    pub fn gc(&mut self, host: usize) {
        let hosts = self.hosts.lock().unwrap();
        hosts[host].call("alice", Request::Gc(GcRequest { days: 1, dry_run: false })).unwrap();
        self.net.trace(&format!("host {host} sweeps {:?}", hosts[host].horizon()));
    }

    pub fn days_pass(&mut self) {
        *self.days.lock().unwrap() += Duration::from_secs(3 * 86_400);
    }

    pub fn restart(&mut self, host: usize) {
        let run = self.net.number();
        self.hosts()[host].restart(run);
        self.net.trace(&format!("host {host} restarts"));
    }

    pub fn take_image(&mut self, host: usize) {
        let image = self.hosts()[host].image();
        self.images[host] = Some(image);
    }

    /// Starts a host with what was on its disk when the image was taken. What only it held is lost, and so owed no more.
    pub fn restore(&mut self, host: usize) {
        let Some(image) = self.images[host].take() else { return };
        let run = self.net.number();
        let mut hosts = self.hosts.lock().unwrap();
        hosts[host].restore(&image, run);
        let held: BTreeSet<Place> = hosts.iter().flat_map(Host::places).collect();
        // A grave that was dug since is lost with the disk too; what it held back may come again from others.
        self.owed.retain(|place| held.contains(place));
        self.deleted.retain(|place| !held.contains(place));
        self.net.trace(&format!("host {host} comes back with an old disk"));
    }

    /// Sets a clock forward by up to two hours. One that is set back is the store's own business: the one in memory gives no
    /// ids until it has caught up.
    pub fn skew(&mut self, host: usize) {
        let by = self.net.roll(7_200_000) as i64;
        *self.hosts()[host].clock.skew.lock().unwrap() += by;
        self.net.trace(&format!("host {host} has its clock set forward by {by} ms"));
    }

    /// Gives every host a clock that is up to four hours off.
    pub fn skew_all(&mut self) {
        for host in self.hosts().iter() {
            *host.clock.skew.lock().unwrap() = self.net.roll(8 * 3_600_000) as i64 - 4 * 3_600_000;
        }
    }

    pub fn set_weather(&self, link: usize, weather: Weather) {
        self.weather[link].set(weather);
        self.net.trace(&format!("link {link} {weather:?}"));
    }

    /// Whether deletions travel in this version.
    pub fn records_travel(&self) -> bool {
        let hello = self.hosts()[0].call("alice", Request::Hello(HelloRequest::default())).unwrap();
        matches!(hello, Response::Hello(hello) if hello.operations.contains(&Operation::Records))
    }

    /// One thing that happens.
    pub fn happens(&mut self, deletes: bool) {
        let (host, link) = (self.some_host(), self.net.roll(self.weather.len()));
        match self.net.roll(40) {
            0..=19 => self.send(host),
            20..=22 => (0..1 + self.net.roll(30)).for_each(|_| self.send(host)),
            // All at one moment: with clocks that agree, they all choose one id.
            23..=24 => {
                let count = self.hosts().len();
                (0..count).for_each(|host| self.send(host));
            }
            25..=27 => self.set_weather(link, Weather::Cut),
            28..=30 => self.set_weather(link, Weather::Clear),
            31 => self.set_weather(link, Weather::Stalled),
            32..=33 => self.restart(host),
            34 => self.take_image(host),
            35 => self.restore(host),
            36 => self.skew(host),
            37 if deletes => self.delete(host),
            38 => self.days_pass(),
            39 => self.gc(host),
            _ => self.send(host),
        }
    }

    pub fn heal(&self) {
        (0..self.weather.len()).for_each(|link| self.set_weather(link, Weather::Clear));
    }

    /// Waits until all hosts hold the same; the error is what differs.
    pub async fn converge(&self, within: Duration) -> Result<Duration, String> {
        let began = Instant::now();
        loop {
            let found = self.check();
            match found {
                Ok(()) => return Ok(began.elapsed()),
                Err(why) if began.elapsed() > within => return Err(why),
                Err(_) => sleep(Duration::from_millis(500)).await,
            }
        }
    }

    /// The same places on every host, above what was swept away anywhere; each once; nothing that is owed is missing.
    pub fn check(&self) -> Result<(), String> {
        let hosts = self.hosts();
        let horizon: Option<Timestamp> = hosts.iter().filter_map(Host::horizon).max();
        let counts = |place: &Place| horizon.is_none_or(|horizon| place.time >= horizon);
        let of_host = |host: &Host| -> BTreeSet<Place> { host.places().into_iter().filter(counts).collect() };
        let first = of_host(&hosts[0]);
        for host in hosts.iter() {
            let held = of_host(host);
            if held != first {
                let (more, less) = (held.difference(&first).count(), first.difference(&held).count());
                let some: Vec<String> = held.symmetric_difference(&first).take(3).map(Place::to_string).collect();
                return Err(format!("host {} has {more} more and {less} less than host 0: {some:?}", host.number));
            }
            if let Some(own) = host.horizon()
                && let Some(place) = host.places().iter().find(|place| place.time < own)
            {
                return Err(format!("host {} holds {place}, which it has swept away", host.number));
            }
        }
        if let Some(place) = self.owed.iter().filter(|place| counts(place)).find(|place| !first.contains(place)) {
            return Err(format!("{place} was acknowledged and is missing"));
        }
        if let Some(place) = self.deleted.iter().find(|place| first.contains(place)) {
            return Err(format!("{place} was deleted and is there"));
        }
        // An answer to what was removed somewhere before it could travel may have lost its way; all others have not.
        let there = |(reply, answered): &(&Place, &Place)| first.contains(reply) && first.contains(answered);
        for host in hosts.iter() {
            let found = host.answered();
            let wrong = self.answers.iter().filter(there).find(|(reply, answered)| found.get(reply) != Some(answered));
            if let Some((reply, answered)) = wrong {
                let told: String = hosts.iter().map(|host| host.tell(&[*reply, *answered])).collect();
                let (number, found) = (host.number, found.get(reply));
                return Err(format!("{reply} answers {answered}, and on host {number} it answers {found:?}{told}"));
            }
        }
        Ok(())
    }

    /// How many messages there are.
    pub fn held(&self) -> usize {
        self.hosts()[0].places().len()
    }

    pub async fn end(mut self) -> u64 {
        self.work.shutdown().await;
        self.net.traced()
    }
}

/// A link: who dials whom.
struct Link {
    number: usize,
    dials: usize,
    dialled: usize,
    net: Arc<Net>,
    hosts: Arc<Mutex<Vec<Host>>>,
    weather: Flag<Weather>,
}

impl Link {
    async fn keep(self, state: Arc<LinkState>) {
        loop {
            self.weather.wait_for(|weather| weather != Weather::Cut).await;
            self.once(state.clone()).await;
            sleep(Duration::from_millis(1_500 + self.net.roll(1_000) as u64)).await;
        }
    }

    async fn once(&self, state: Arc<LinkState>) {
        let (node, here, ends, connection) = {
            let hosts = self.hosts.lock().unwrap();
            let (here, there) = (&hosts[self.dials], &hosts[self.dialled]);
            let connection = Connection {
                link: self.number,
                net: self.net.clone(),
                weather: self.weather.clone(),
                gone: there.gone.clone(),
                there: there.operations.clone(),
            };
            (here.node.clone(), here.operations.clone(), here.gone.clone(), Arc::new(connection))
        };
        let mut context = Context::local("relay".parse().unwrap());
        context.project = Some("proj-sim".into());
        let wire = Wire(connection.clone());
        let hello =
            wire.call(&context, Request::Hello(HelloRequest { node: Some(node.clone()), ..Default::default() }));
        let Ok(Ok(reply)) = timeout(Duration::from_secs(2), hello).await else { return };
        let Response::Hello(hello) = reply.head else { panic!() };
        let run = hello.node.unwrap().run;
        // Every third link is to a host of an earlier version.
        let many = self.number % 3 != 2;
        let here = End { client: here, context: context.clone(), run: node.run, many: true };
        let there = End { client: Arc::new(wire), context, run, many };
        let session = Session::new(node, here, there, Pace::default(), state, None);
        tokio::select! {
            biased;
            () = ends.wait_for(|gone| gone) => {}
            _ = session.run(connection.ended()) => {}
        }
    }
}

/// Runs the future on a runtime of its own whose time moves when nothing else does.
pub fn simulated<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(work)
}
