//! A project in memory, for the tests of this crate.

mod bare;
mod failing;
mod memory_log;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fmail_api::{
    Client, Clock, Context, Event, Expect, Message, RecordKey, Reply, Request, Response, Result, SendRequest, Sent,
    Store, Timestamp,
};
use fmail_backends::MemoryStore;
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::{Value, json};

use crate::Operations;
pub(crate) use bare::{Bare, Twist};
pub(crate) use failing::{Failing, Fails};
pub(crate) use memory_log::MemoryLog;

/// A clock that moves when it is told to.
pub(crate) struct ManualClock(Mutex<Duration>);

impl ManualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(ManualClock(Mutex::new(Duration::ZERO)))
    }

    pub(crate) fn advance(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix(1_768_059_000, 0).after(*self.0.lock().unwrap())
    }

    fn since_boot(&self) -> Duration {
        *self.0.lock().unwrap()
    }
}

/// A project in memory with its operations.
pub(crate) struct Project {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) operations: Operations,
}

/// The context of an agent's command.
pub(crate) fn context(agent: &str) -> Context {
    Context::local(agent.parse().unwrap())
}

impl Project {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(MemoryStore::new(10_000, clock.clone()));
        let operations = Operations::new(store.clone(), clock.clone());
        Project { store, clock, operations }
    }

    /// The same project for a process whose store fails; and how often the store has answered.
    pub(crate) fn failing(&self, fails: Fails) -> (Operations, Arc<AtomicUsize>) {
        let store = Failing::new(self.store.clone(), fails);
        let answers = store.answers();
        (Operations::new(Arc::new(store), self.clock.clone()), answers)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Gives the project its record, as `init` does.
    pub(crate) fn create(&self) {
        let value = json!({"id": "proj-test", "created": self.now()});
        block_on(self.store.put(&RecordKey::project(), Expect::Anything, value, true)).unwrap();
    }

    pub(crate) fn call(&self, agent: &str, request: Request) -> Result<Reply> {
        block_on(self.operations.call(&context(agent), request))
    }

    /// Sends and moves the clock on by a tick, so that every message has an id of its own second tick.
    pub(crate) fn send(&self, from: &str, to: &str, body: impl Into<Value>) -> Sent {
        self.try_send(from, SendRequest::new(to.parse().unwrap(), body)).unwrap()
    }

    pub(crate) fn try_send(&self, from: &str, request: SendRequest) -> Result<Sent> {
        match self.call(from, Request::Send(Box::new(request)))?.head {
            Response::Sent(sent) => Ok(*sent),
            other => panic!("unexpected answer {other:?}"),
        }
    }
}

/// The next `count` messages of a stream.
pub(crate) fn take(reply: Reply, count: usize) -> Vec<Arc<Message>> {
    let messages = reply.events.unwrap().filter_map(|event| async {
        match event.unwrap() {
            Event::Message(delivery) => Some(delivery.message.clone()),
            _ => None,
        }
    });
    block_on(messages.take(count).collect())
}

/// The bodies of messages, as text.
pub(crate) fn bodies(messages: &[Arc<Message>]) -> Vec<&str> {
    messages.iter().map(|message| message.body.as_str().unwrap()).collect()
}
