//! A simulated host: a store that outlives the daemon, a daemon that can be started again, and a clock that may be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fmail_api::{
    AgentName, Bulk, Client, Clock, Context, DEFAULT_MAX_MESSAGE_BYTES, Event, Expect, Mark, MarkRequest, Message,
    MessageId, Node, NodeId, Place, Query, REPLY_HASH, REPLY_ORIGIN, Record, RecordKey, Request, Response, Store,
    Timestamp,
};
use fmail_backends::MemoryStore;
use fmail_core::Operations;
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::flag::Flag;

/// The time of a host: the simulated one, wrong by so much.
pub struct Skewed {
    began: Instant,
    days: Arc<Mutex<Duration>>,
    /// In milliseconds.
    pub skew: Mutex<i64>,
}

impl Skewed {
    pub fn new(days: Arc<Mutex<Duration>>) -> Arc<Self> {
        Arc::new(Skewed { began: Instant::now(), days, skew: Mutex::new(0) })
    }
}

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        let skew = *self.skew.lock().unwrap();
        let right = Timestamp::from_unix(1_768_059_000, 0).after(self.since_boot());
        let by = Duration::from_millis(skew.unsigned_abs());
        if skew < 0 { right.before(by) } else { right.after(by) }
    }

    fn since_boot(&self) -> Duration {
        self.began.elapsed() + *self.days.lock().unwrap()
    }
}

/// What lies on a host's disk.
pub struct Image {
    messages: Vec<Message>,
    records: Vec<Record>,
}

/// A host.
pub struct Host {
    pub number: usize,
    pub clock: Arc<Skewed>,
    pub store: Arc<MemoryStore>,
    pub operations: Arc<Operations>,
    pub node: Node,
    /// Turns true when this run of the daemon ends.
    pub gone: Flag<bool>,
}

impl Host {
    pub fn new(number: usize, id: u64, run: u64, days: Arc<Mutex<Duration>>) -> Host {
        let clock = Skewed::new(days);
        let store = Arc::new(MemoryStore::new(DEFAULT_MAX_MESSAGE_BYTES, clock.clone()));
        let value = json!({"id": "proj-sim", "created": clock.now()});
        block_on(store.put(&RecordKey::project(), Expect::Absent, value, false)).unwrap();
        let node = Node { id: NodeId::new(id.into()), run: NodeId::new(run.into()), host: format!("host-{number}") };
        let operations = Arc::new(operations(&store, &clock, &node));
        Host { number, clock, store, operations, node, gone: Flag::new(false) }
    }

    /// Ends this run and begins another: what was in memory only is gone.
    pub fn restart(&mut self, run: u64) {
        self.gone.set(true);
        self.node.run = NodeId::new(run.into());
        self.operations = Arc::new(operations(&self.store, &self.clock, &self.node));
        self.gone = Flag::new(false);
    }

    /// The same with what was on the disk some time ago.
    pub fn restore(&mut self, image: &Image, run: u64) {
        let store = Arc::new(MemoryStore::new(DEFAULT_MAX_MESSAGE_BYTES, self.clock.clone()));
        for record in &image.records {
            block_on(store.put(&record.key, Expect::Absent, record.value.clone(), false)).unwrap();
        }
        for message in &image.messages {
            block_on(store.import(message.clone())).unwrap();
        }
        self.store = store;
        self.restart(run);
    }

    pub fn image(&self) -> Image {
        let records = block_on(async { self.store.list("").await.unwrap().map(Result::unwrap).collect().await });
        Image { messages: self.messages(), records }
    }

    /// What is stored, as it is stored.
    pub fn messages(&self) -> Vec<Message> {
        block_on(async {
            let scan = self.store.scan(Query::default()).await.unwrap();
            let message = |event| async {
                match event {
                    Ok(Event::Message(delivery)) => Some(Message::clone(&delivery.message)),
                    _ => None,
                }
            };
            scan.messages.filter_map(message).collect().await
        })
    }

    /// The places that are held. Each once: a message that is stored twice is a failure.
    pub fn places(&self) -> BTreeSet<Place> {
        let messages = self.messages();
        let places: BTreeSet<Place> = messages.iter().map(Place::of).collect();
        assert_eq!(places.len(), messages.len(), "host {} holds a message twice", self.number);
        places
    }

    /// Which message each reply answers here.
    pub fn answered(&self) -> BTreeMap<Place, Place> {
        let held: Vec<(Place, Message)> = self.messages().into_iter().map(|held| (Place::of(&held), held)).collect();
        let by_id: BTreeMap<MessageId, Place> = held.iter().map(|(place, message)| (message.id, *place)).collect();
        let by_birth: BTreeMap<(MessageId, String), Place> =
            held.iter().map(|(place, _)| ((place.origin, place.hash.to_string()), *place)).collect();
        let answered = |(place, message): &(Place, Message)| {
            let aside = || message.extra.get(REPLY_ORIGIN)?.as_str()?.parse().ok();
            let reply_to = message.reply_to.or_else(aside)?;
            let answered = match message.extra.get(REPLY_HASH).and_then(Value::as_str) {
                // What it answers was not here when it came; it is known by the id of its birth.
                Some(hash) => by_birth.get(&(reply_to, hash.to_string())),
                None => by_id.get(&reply_to),
            };
            Some((*place, *answered?))
        };
        held.iter().filter_map(answered).collect()
    }

    /// How these messages are stored here.
    pub fn tell(&self, places: &[Place]) -> String {
        let known = |message: &&Message| places.contains(&Place::of(message));
        let line = |message: &Message| format!("\n  host {}: {}", self.number, message.to_line());
        self.messages().iter().filter(known).map(line).collect()
    }

    /// Below this everything was swept away.
    pub fn horizon(&self) -> Option<Timestamp> {
        let record = block_on(self.store.get(&RecordKey::horizon())).unwrap()?;
        record.value.get("before")?.as_str()?.parse().ok()
    }

    /// Has seen so many agents.
    pub fn know_agents(&self, count: usize) {
        let now = self.clock.now();
        for number in 0..count {
            let name: AgentName = format!("agent-{number}").parse().unwrap();
            let value = json!({"name": name, "first_seen": now, "last_seen": now});
            block_on(self.store.put(&RecordKey::agent(&name), Expect::Absent, value, false)).unwrap();
        }
    }

    /// An agent reads all its mail.
    pub fn read_everything(&self, agent: &str) {
        let bulk = Some(Bulk { all: true, ..Bulk::default() });
        let request = MarkRequest { mark: Mark::Read, ids: Vec::new(), bulk, token: None, dry_run: false };
        self.call(agent, Request::Mark(request)).unwrap();
    }

    /// How many messages an agent has not read.
    pub fn unread(&self, agent: &str) -> u64 {
        match self.call(agent, Request::Count).unwrap() {
            Response::Counted { count, .. } => count.unread,
            other => panic!("{other:?}"),
        }
    }

    /// Runs an operation of an agent of this host to its end.
    pub fn call(&self, agent: &str, request: Request) -> fmail_api::Result<fmail_api::Response> {
        let mut context = Context::local(agent.parse().unwrap());
        context.host = Some(self.node.host.clone());
        block_on(async {
            let reply = self.operations.call(&context, request).await?;
            if let Some(mut events) = reply.events {
                while let Some(event) = events.next().await {
                    event?;
                }
            }
            Ok(reply.head)
        })
    }
}

fn operations(store: &Arc<MemoryStore>, clock: &Arc<Skewed>, node: &Node) -> Operations {
    Operations::new(store.clone(), clock.clone()).identified_by("sim").on(node.clone())
}
