//! The messages of one client: each request runs by itself, and its answer goes out when it is there.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fmail_api::{Error, Result};
use fmail_mcp::{Outcome as Answered, Peer, Server};
use futures::StreamExt;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use super::input::{self, LONGEST, Line};
use super::output;
use crate::guard::reader_gone;
use crate::output::{Outcome, Stop};

/// So many requests run at a time; the next line is read when one of them has ended.
const AT_A_TIME: usize = 256;
/// How long what is under way may take when a signal ends the server. Clients kill who takes longer than two seconds.
const GRACE: Duration = Duration::from_secs(1);
/// How long a client may take to read the last lines then.
const PARTING: Duration = Duration::from_millis(500);

/// How long to wait before changes are watched for again.
const AGAIN: Duration = Duration::from_secs(1);

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const INTERNAL_ERROR: i64 = -32603;
/// A code of our own, from those that are left to servers.
const ENDING: i64 = -32000;

type Messages = BoxStream<'static, Value>;

/// A client, while it is served.
pub(super) struct Conversation {
    server: Arc<Server>,
    peer: Peer,
    /// What is under way. Each sends its own answer, so that nobody else waits for a client that does not read.
    requests: JoinSet<Option<Messages>>,
    /// The ids of the requests that run, by their tasks.
    ids: HashMap<Id, (Value, AbortHandle)>,
    /// What goes on until somebody ends it: subscriptions.
    streams: JoinSet<()>,
    streaming: HashMap<String, AbortHandle>,
}

/// Why no further line is read.
enum End {
    /// The client has closed its side. What it has asked for, it gets.
    Input,
    /// A signal came.
    Signal,
    /// Nobody can read what is written.
    Output(Outcome),
}

impl Conversation {
    /// A conversation with this client.
    pub(super) fn new(server: Arc<Server>, peer: Peer) -> Conversation {
        Conversation {
            server,
            peer,
            requests: JoinSet::new(),
            ids: HashMap::new(),
            streams: JoinSet::new(),
            streaming: HashMap::new(),
        }
    }

    /// Answers until the client goes or a signal comes.
    pub(super) async fn run(mut self) -> Outcome {
        let mut signals = Signals::listen()?;
        let mut lines = input::lines()?;
        let (output, mut written) = output::lines()?;
        let mut gone = pin!(readers_end()?);
        self.tell_changes(&output);
        let end = loop {
            let room = self.requests.len() < AT_A_TIME;
            tokio::select! {
                biased;
                outcome = &mut written => break End::Output(outcome.unwrap_or(Ok(()))),
                () = &mut gone => break End::Output(Err(Stop::ReaderGone)),
                () = signals.any() => break End::Signal,
                Some(done) = self.requests.join_next_with_id() => self.ended(done, &output),
                line = lines.recv(), if room => match line {
                    Some(line) => self.take(line, &output),
                    None => break End::Input,
                },
            }
        };
        match end {
            End::Output(outcome) => return outcome,
            End::Input => {
                tokio::select! {
                    () = self.finish(&output) => {}
                    () = signals.any() => self.finish_soon(&output).await,
                    outcome = &mut written => return outcome.unwrap_or(Ok(())),
                    () = &mut gone => return Err(Stop::ReaderGone),
                }
            }
            End::Signal => self.finish_soon(&output).await,
        }
        self.streams.abort_all();
        while self.streams.join_next().await.is_some() {}
        drop(output);
        // A client that reads no further does not keep us.
        match timeout(PARTING, written).await {
            Ok(Ok(outcome)) => outcome,
            _ => Ok(()),
        }
    }

    /// Takes a line: begins what it asks for, or says what is wrong with it.
    fn take(&mut self, line: Line, output: &Sender<Value>) {
        let message: Value = match line {
            Line::Whole(bytes) if bytes.iter().all(u8::is_ascii_whitespace) => return,
            Line::Whole(bytes) => match serde_json::from_slice(&bytes) {
                Ok(message) => message,
                Err(error) => return self.refuse(&Value::Null, PARSE_ERROR, &format!("Parse error: {error}"), output),
            },
            Line::TooLong => {
                let text = format!("Parse error: a line has at most {LONGEST} bytes; this one was passed over");
                return self.refuse(&Value::Null, PARSE_ERROR, &text, output);
            }
        };
        if message["method"] == "notifications/cancelled" {
            return self.cancel(&message["params"]["requestId"]);
        }
        let id = message.get("id").cloned().unwrap_or_default();
        if !id.is_null() && message.get("method").is_some() && self.is_known(&id) {
            let text = format!("Invalid Request: the request {id} is still under way, and this one has its id");
            return self.refuse(&id, INVALID_REQUEST, &text, output);
        }
        let (server, peer, output) = (self.server.clone(), self.peer.clone(), output.clone());
        let task = self.requests.spawn(async move {
            match server.handle(&peer, message).await {
                Answered::Answer(answer) => say(&output, answer).await,
                Answered::Accepted => {}
                Answered::Stream(messages) => return Some(messages),
            }
            None
        });
        self.ids.insert(task.id(), (id, task));
    }

    /// Says no.
    fn refuse(&mut self, id: &Value, code: i64, message: &str, output: &Sender<Value>) {
        let (answer, output) = (refusal(id, code, message), output.clone());
        self.requests.spawn(async move {
            say(&output, answer).await;
            None
        });
    }

    fn is_known(&self, id: &Value) -> bool {
        self.streaming.contains_key(&id.to_string()) || self.ids.values().any(|(known, _)| known == id)
    }

    /// Gives a request up. There is no answer to it then, as the protocol has it.
    fn cancel(&mut self, id: &Value) {
        for (_, task) in self.ids.values().filter(|(known, _)| known == id && !id.is_null()) {
            task.abort();
        }
        if let Some(stream) = self.streaming.remove(&id.to_string()) {
            stream.abort();
        }
    }

    /// Takes note that a request is over, and goes on with what it has begun.
    fn ended(&mut self, done: Result<(Id, Option<Messages>), JoinError>, output: &Sender<Value>) {
        let task = done.as_ref().map_or_else(JoinError::id, |(task, _)| *task);
        let id = self.ids.remove(&task).map(|(id, _)| id).unwrap_or_default();
        match done {
            Ok((_, Some(messages))) => self.forward(messages, output, &id),
            Err(error) if error.is_panic() && !id.is_null() => {
                let text = "Internal error: this is a defect of fmail; what it knows of it is on standard error";
                self.refuse(&id, INTERNAL_ERROR, text, output);
            }
            _ => {}
        }
    }

    /// Passes on what comes, until its end or the client's.
    fn forward(&mut self, mut messages: Messages, output: &Sender<Value>, id: &Value) {
        let output = output.clone();
        let task = self.streams.spawn(async move {
            while let Some(message) = messages.next().await {
                say(&output, message).await;
            }
        });
        self.streaming.retain(|_, stream| !stream.is_finished());
        self.streaming.insert(id.to_string(), task);
    }

    /// Tells what changes in what the client has subscribed to. The stream of that ends when a project cannot be watched;
    /// it is taken up again, and goes on where it stopped.
    fn tell_changes(&mut self, output: &Sender<Value>) {
        let (server, peer, output) = (self.server.clone(), self.peer.clone(), output.clone());
        self.streams.spawn(async move {
            loop {
                let mut changes = server.notifications(&peer);
                while let Some(change) = changes.next().await {
                    say(&output, change).await;
                }
                sleep(AGAIN).await;
            }
        });
    }

    /// Waits for what is under way.
    async fn finish(&mut self, output: &Sender<Value>) {
        while let Some(done) = self.requests.join_next_with_id().await {
            self.ended(done, output);
        }
    }

    /// The same, but not for long.
    async fn finish_soon(&mut self, output: &Sender<Value>) {
        if timeout(GRACE, self.finish(output)).await.is_ok() {
            return;
        }
        self.requests.abort_all();
        for (id, _) in self.ids.values().filter(|(id, _)| !id.is_null()) {
            // Who does not read has no room for more.
            let _ = output.try_send(refusal(id, ENDING, "the server is ending; ask again when it is back"));
        }
    }
}

/// Sends a message. When nobody writes any more, the conversation is about to end.
async fn say(output: &Sender<Value>, message: Value) {
    let _ = output.send(message).await;
}

fn refusal(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// Resolves when nobody can read standard output any more; never, where that cannot be told.
fn readers_end() -> Result<impl Future<Output = ()>> {
    let (tell, gone) = oneshot::channel();
    let spawned = std::thread::Builder::new().name("reader".into()).spawn(|| reader_gone(tell));
    spawned.map_err(|error| Error::io("no thread to watch standard output", &error))?;
    Ok(async {
        if gone.await.is_err() {
            std::future::pending().await
        }
    })
}

/// The signals that end a server.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> Result<Signals> {
        let listen = |kind| signal(kind).map_err(|error| Error::io("cannot listen for signals", &error));
        Ok(Signals { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
