//! A daemon that goes and comes back, and clients that outlive it.

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::checker::Message;
use crate::{DEADLINE, Sandbox, Wire};

/// A number that grows, and on which others wait.
#[derive(Default)]
pub struct Tally {
    number: Mutex<u64>,
    grown: Condvar,
}

impl Tally {
    /// The number now.
    pub fn get(&self) -> u64 {
        *self.lock()
    }

    /// Adds to it.
    pub fn add(&self, more: u64) {
        *self.lock() += more;
        self.grown.notify_all();
    }

    /// Waits until it is at least this, and gives it.
    pub fn reach(&self, least: u64) -> u64 {
        let waited = self.grown.wait_timeout_while(self.lock(), DEADLINE, |number| *number < least);
        let (number, late) = waited.unwrap_or_else(PoisonError::into_inner);
        let number = *number;
        assert!(!late.timed_out(), "{least} not reached within {DEADLINE:?}: {number}");
        number
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.number.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where clients find the daemon, and how often it has been started.
pub struct Serving {
    socket: PathBuf,
    starts: Tally,
}

impl Serving {
    /// A project whose daemon will be started.
    pub fn new(sandbox: &Sandbox) -> Serving {
        Serving { socket: sandbox.store().join("forged.sock"), starts: Tally::default() }
    }

    /// Tells the clients that a daemon takes connections.
    pub fn announce(&self) {
        self.starts.add(1);
    }

    /// A connection to the daemon that runs, or to the next one.
    fn connect(&self, life: &mut u64) -> Wire {
        loop {
            if let Ok(wire) = Wire::connect(&self.socket) {
                return wire;
            }
            *life = self.starts.reach(*life + 1);
        }
    }
}

/// An agent with a connection. When it is lost before an answer came, the same request is repeated on the next one: an
/// idempotency key makes that safe.
pub struct Sender<'a> {
    serving: &'a Serving,
    agent: String,
    number: u64,
    life: u64,
    wire: Option<Wire>,
}

impl<'a> Sender<'a> {
    /// A sender that connects with its first message.
    pub fn new(serving: &'a Serving, agent: &str) -> Sender<'a> {
        Sender { serving, agent: agent.into(), number: 0, life: 0, wire: None }
    }

    /// Sends until it is acknowledged.
    pub fn send(&mut self, to: &str, body: &Value) -> Message {
        self.send_to(&[to], body)
    }

    /// Sends to several mailboxes until it is acknowledged.
    pub fn send_to(&mut self, to: &[&str], body: &Value) -> Message {
        self.number += 1;
        let key = format!("{}-{}", self.agent, self.number);
        let mut request = json!({"cmd": "send", "agent": self.agent, "to": to[0], "key": key, "body": body});
        if to.len() > 1 {
            request["recipients"] = json!(to[1..]);
        }
        let answer = self.ask(&request);
        let id = answer["id"].as_str().unwrap_or_else(|| panic!("{request}\n{answer}"));
        Message::acknowledged(id, &self.agent, to, body)
    }

    /// The answer to a request that may be repeated.
    pub fn ask(&mut self, request: &Value) -> Value {
        loop {
            let wire = self.wire.get_or_insert_with(|| self.serving.connect(&mut self.life));
            match wire.ask(request) {
                Some(answer) if answer["ok"] == true => return answer,
                Some(answer) => assert_eq!(answer["error"]["retryable"], true, "{request}\n{answer}"),
                None => {
                    self.wire = None;
                    self.life = self.serving.starts.reach(self.life + 1);
                }
            }
        }
    }
}

impl Sender<'_> {
    /// Asks for a stream that ends, and reads it. When the daemon ends in the middle of it, that is its end.
    pub fn ask_for_stream(&mut self, request: &Value) {
        self.ask(request);
        while let Some(line) = self.wire.as_mut().and_then(Wire::line) {
            if line["event"] == "end" {
                return;
            }
            assert!(line["error"].is_null() || line["error"]["retryable"] == true, "{request}\n{line}");
        }
        self.wire = None;
    }
}

/// What a watch has met besides messages.
#[derive(Debug, Default, Clone, Copy)]
pub struct Interruptions {
    /// The connection was lost, or the daemon ended.
    pub lost: u32,
    /// The daemon ended the watch because it read too slowly.
    pub backpressure: u32,
    /// The cursor was no longer known, and the watch went on behind the last id.
    pub expired: u32,
}

/// A watch over a socket. When it is cut it goes on at the cursor of the last message.
pub struct Watcher<'a> {
    serving: &'a Serving,
    agent: String,
    target: Option<String>,
    life: u64,
    wire: Option<Wire>,
    cursor: Option<String>,
    last: Option<String>,
    /// How often it was cut, and how.
    pub interruptions: Interruptions,
}

impl<'a> Watcher<'a> {
    /// A watch of everything that is stored and that arrives in a mailbox, or in all topics and the agent's own.
    pub fn new(serving: &'a Serving, agent: &str, target: Option<&str>) -> Watcher<'a> {
        Watcher {
            serving,
            agent: agent.into(),
            target: target.map(Into::into),
            life: 0,
            wire: None,
            cursor: None,
            last: None,
            interruptions: Interruptions::default(),
        }
    }

    /// The next message, however often the watch has to be taken up again before it comes.
    pub fn message(&mut self) -> Value {
        loop {
            if self.wire.is_none() {
                self.resume();
            }
            match self.wire.as_mut().and_then(Wire::line) {
                Some(mut line) if line["msg"].is_object() => {
                    self.cursor = line["cursor"].as_str().map(Into::into);
                    self.last = line["msg"]["id"].as_str().map(Into::into);
                    return line["msg"].take();
                }
                Some(line) if line["event"] == "ping" => {}
                Some(line) => self.cut(&line),
                None => {
                    self.interruptions.lost += 1;
                    self.wire = None;
                }
            }
        }
    }

    fn cut(&mut self, line: &Value) {
        assert_eq!(line["error"]["retryable"], true, "a watch ended with {line}");
        if line["error"]["code"] == "backpressure" {
            self.interruptions.backpressure += 1;
        }
        let rest = self.wire.take().and_then(|mut wire| wire.line());
        assert_eq!(rest, None, "something follows the end of a watch");
    }

    fn resume(&mut self) {
        loop {
            let mut wire = self.serving.connect(&mut self.life);
            let since = self.cursor.as_deref().or(self.last.as_deref()).unwrap_or("2020-01-01T00:00:00Z");
            let request = json!({"cmd": "watch", "agent": self.agent, "topic": self.target, "since": since});
            match wire.ask(&request) {
                Some(answer) if answer["ok"] == true => {
                    self.wire = Some(wire);
                    return;
                }
                Some(answer) if answer["error"]["code"] == "expired" && self.cursor.is_some() => {
                    self.interruptions.expired += 1;
                    self.cursor = None;
                }
                Some(answer) => assert_eq!(answer["error"]["retryable"], true, "{request}\n{answer}"),
                None => self.life = self.serving.starts.reach(self.life + 1),
            }
        }
    }
}

/// Sends the last message of each of these mailboxes on a host, so that whoever reads there knows that nothing more will come.
pub fn send_the_end(serving: &Serving, host: usize, mailboxes: &[&str]) -> Vec<Message> {
    let mut sender = Sender::new(serving, &format!("closer-{host}"));
    mailboxes.iter().map(|mailbox| sender.send(mailbox, &json!({"marker": the_end(host, mailbox)}))).collect()
}

fn the_end(host: usize, mailbox: &str) -> String {
    format!("the end of {mailbox} on host {host}")
}

/// Everything that a watch on a host shows until the end of this mailbox there.
pub fn until_the_end(host: usize, mailbox: &str, mut next: impl FnMut() -> Value) -> Vec<Message> {
    let end = the_end(host, mailbox);
    let mut seen = Vec::new();
    loop {
        let message = next();
        seen.push(Message::of(&message).unwrap_or_else(|why| panic!("a message {why}")));
        if message["body"]["marker"] == end.as_str() {
            return seen;
        }
    }
}
