//! Many requests at a time over one connection.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Task, Poll};
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{Client, Context, Error, ErrorKind, Event, Notice, NoticeKind, Reply, Request, Response, Result};
use futures::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::conversation::Answer;
use crate::wire::{Heard, Line, LineReader, heard_of, outgoing, response};

/// How many lines wait to be written. Who has another one waits.
const TO_WRITE: usize = 64;
/// How many events of a stream wait for their reader. When it is slow, the connection is not read on.
const TO_READ: usize = 64;
/// An end that does not take what we write for so long is gone.
const WRITE: Duration = Duration::from_secs(30);

/// The operations of a project at the other end of a connection on which `hello` was said.
///
/// Answers come in any order; each line belongs to a request by its `req_id`. What is kept for the other end is bounded both
/// ways: who asks waits until there is room to write, and a stream that is not read holds up the connection.
pub struct Link {
    lines: mpsc::Sender<String>,
    asked: Arc<Asked>,
    next: AtomicU64,
    ended: watch::Receiver<Option<Error>>,
    /// The reader and the writer, which end with the link.
    _work: JoinSet<()>,
}

/// What was asked and is not answered yet, by its number.
#[derive(Default)]
struct Asked(Mutex<HashMap<u64, Waiting>>);

enum Waiting {
    /// For the answer; behind it perhaps for events.
    Answer(oneshot::Sender<Result<Answer>>, Option<Events>),
    /// For the next event.
    Events(Events),
}

#[derive(Clone)]
struct Events {
    sender: mpsc::Sender<Result<Event>>,
    /// The stream has come to its end. Without this, its end is the connection's.
    finished: Arc<AtomicBool>,
}

impl Asked {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    /// A link over both directions of a connection. Lines over the limit end it.
    pub fn new<R, W>(lines: LineReader<R>, writer: W) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, to_write) = mpsc::channel(TO_WRITE);
        let (ending, ended) = watch::channel(None);
        let asked = Arc::new(Asked::default());
        let mut work = JoinSet::new();
        let ending = Arc::new(ending);
        let (reads, heard, told) = (ending.clone(), asked.clone(), ending);
        work.spawn(async move {
            let error = read(lines, &heard).await;
            end(&reads, error);
            heard.lock().clear();
        });
        work.spawn(async move {
            if let Err(error) = write(writer, to_write).await {
                let error = Error::new(ErrorKind::Unavailable, format!("the connection is lost: {error}"));
                end(&told, error);
            }
        });
        Link { lines: sender, asked, next: AtomicU64::new(1), ended, _work: work }
    }

    /// Resolves when the connection is gone, with the reason.
    pub async fn ended(&self) -> Error {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(error) => error.clone().unwrap_or_else(lost),
            Err(_) => lost(),
        }
    }

    fn lost(&self) -> Error {
        self.ended.borrow().clone().unwrap_or_else(lost)
    }
}

#[async_trait]
impl Client for Link {
    async fn call(&self, context: &Context, request: Request) -> Result<Reply> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let line = outgoing::request(context, &request, &number.to_string())?;
        let (answered, answer) = oneshot::channel();
        let (events, receiver) = match request.streams() {
            true => {
                let (sender, receiver) = mpsc::channel(TO_READ);
                let finished = Arc::new(AtomicBool::new(false));
                (Some(Events { sender, finished: finished.clone() }), Some((receiver, finished)))
            }
            false => (None, None),
        };
        self.asked.lock().insert(number, Waiting::Answer(answered, events));
        let given_up = GivenUp { asked: self.asked.clone(), number, answered: false };
        if self.lines.send(line).await.is_err() || self.ended.borrow().is_some() {
            return Err(self.lost());
        }
        let answer = answer.await.map_err(|_| self.lost())?;
        given_up.keep();
        let head = response(context, &request, answer?)?;
        match receiver {
            Some((receiver, finished)) if streams(&head) => {
                let ended = self.ended.clone();
                Ok(Reply::streaming(head, Listening { receiver, finished, ended, over: false }.boxed()))
            }
            _ => Ok(Reply::new(head)),
        }
    }
}

/// Forgets a question whose asker has gone.
struct GivenUp {
    asked: Arc<Asked>,
    number: u64,
    answered: bool,
}

impl GivenUp {
    fn keep(mut self) {
        self.answered = true;
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if !self.answered {
            self.asked.lock().remove(&self.number);
        }
    }
}

fn streams(head: &Response) -> bool {
    matches!(head, Response::Watching(_) | Response::Fetching | Response::Log { .. } | Response::Collecting(_))
}

/// The events of one request.
struct Listening {
    receiver: mpsc::Receiver<Result<Event>>,
    finished: Arc<AtomicBool>,
    ended: watch::Receiver<Option<Error>>,
    over: bool,
}

impl Stream for Listening {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<Self::Item>> {
        if self.over {
            return Poll::Ready(None);
        }
        let next = std::task::ready!(self.receiver.poll_recv(task));
        self.over = !matches!(next, Some(Ok(_)));
        if next.is_none() && !self.finished.load(Ordering::Acquire) {
            let error = self.ended.borrow().clone().unwrap_or_else(lost);
            return Poll::Ready(Some(Err(error)));
        }
        Poll::Ready(next)
    }
}

/// The first reason counts; what follows comes from it.
fn end(ended: &watch::Sender<Option<Error>>, error: Error) {
    ended.send_if_modified(|ended| {
        let first = ended.is_none();
        ended.get_or_insert(error);
        first
    });
}

/// Hands each line to who waits for it, until there are no more.
async fn read<R: AsyncRead + Unpin>(mut lines: LineReader<R>, asked: &Asked) -> Error {
    let ended = |why: String| Error::new(ErrorKind::Unavailable, why);
    loop {
        let line = match lines.next().await {
            Ok(Line::Whole(line)) => line,
            Ok(Line::TooLong) => return ended("the peer sends a line that is longer than the limit".into()),
            Ok(Line::CutOff) => return ended("the peer closed the connection in the middle of a line".into()),
            Ok(Line::End) => return ended("the peer closed the connection".into()),
            Err(error) => return ended(format!("the connection is lost: {error}")),
        };
        let Ok((req_id, heard)) = heard_of(&line) else {
            return ended("the peer sends what is no line of the protocol".into());
        };
        let number = req_id.and_then(|req_id| req_id.parse().ok());
        match (number, heard) {
            (Some(number), heard) => hand_over(asked, number, heard).await,
            // Whatever it is about, nothing good can follow it.
            (None, Ok(Heard::Refused(error))) => return ended(format!("the peer says: {}", brief(&error))),
            (None, _) => {}
        }
    }
}

async fn hand_over(asked: &Asked, number: u64, heard: Result<Heard>) {
    let event = match heard {
        Ok(Heard::Answer(answer)) => return answered(asked, number, Ok(answer)),
        Ok(Heard::Refused(error)) => {
            let waiting = asked.lock().remove(&number);
            match waiting {
                Some(Waiting::Answer(sender, _)) => drop(sender.send(Err(error))),
                Some(Waiting::Events(events)) => drop(events.sender.send(Err(error)).await),
                None => {}
            }
            return;
        }
        Ok(Heard::End) => {
            if let Some(Waiting::Events(events)) = asked.lock().remove(&number) {
                events.finished.store(true, Ordering::Release);
            }
            return;
        }
        Ok(Heard::Other) => return,
        Ok(Heard::Event(event)) => event,
        Err(error) => Event::Notice(Notice { kind: NoticeKind::Broken, text: brief(&error) }),
    };
    let sender = match asked.lock().get(&number) {
        Some(Waiting::Events(events)) => events.sender.clone(),
        _ => return,
    };
    if sender.send(Ok(event)).await.is_err() {
        asked.lock().remove(&number);
    }
}

/// From here on the request waits for its events, before its asker knows of the answer.
fn answered(asked: &Asked, number: u64, answer: Result<Answer>) {
    let mut waiting = asked.lock();
    if let Some(Waiting::Answer(sender, events)) = waiting.remove(&number) {
        if let Some(events) = events {
            waiting.insert(number, Waiting::Events(events));
        }
        drop(waiting);
        drop(sender.send(answer));
    }
}

/// Writes what is there together, until nobody can ask any more.
async fn write<W: AsyncWrite + Unpin>(mut writer: W, mut lines: mpsc::Receiver<String>) -> io::Result<()> {
    let mut batch = Vec::new();
    while lines.recv_many(&mut batch, TO_WRITE).await > 0 {
        let text = batch.concat();
        batch.clear();
        let written = async {
            writer.write_all(text.as_bytes()).await?;
            writer.flush().await
        };
        timeout(WRITE, written).await.map_err(|_| io::ErrorKind::TimedOut)??;
    }
    writer.shutdown().await
}

/// An error of a peer's, as it is shown to people.
pub(super) fn brief(error: &Error) -> String {
    super::status::brief(error.message())
}

fn lost() -> Error {
    Error::new(ErrorKind::Unavailable, "the connection is lost")
}
