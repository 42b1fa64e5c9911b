//! A peer that knows PROTOCOL.md and nothing else: it streams what it has, and we import that.

use std::sync::Arc;
use std::time::Duration;

use fmail_api::{
    Clock, Context, Delivery, Error, ErrorKind, Event, EventStream, ImportManyRequest, Imported, MessageId, Notice,
    NoticeKind, RelayRequest, Request, Result, Since, Timestamp,
};
use futures::stream::{FuturesUnordered, StreamExt, unfold};
use tokio::time::timeout;

use super::batch::{gather, parts};
use super::dial::{PlainConnection, say};
use super::end::{End, refuses};
use super::link::brief;
use super::pace::Pace;
use super::status::{LinkState, Way};
use crate::wire::{Heard, Line, heard, heard_of, outgoing};

/// A peer that says nothing for so long is asked again: its answer proves that it is there, and nothing else could.
const SILENCE: Duration = Duration::from_secs(60);
/// What a peer may have received late is asked for again.
const OVERLAP: Duration = Duration::from_secs(600);

/// What is remembered of a plain peer as long as this process runs: its newest message that came.
#[derive(Default)]
pub struct LastSeen(Option<MessageId>);

impl LastSeen {
    /// Where to go on: at the very beginning once, then a little before the newest message. A peer whose clock is ahead
    /// must not make us miss what it says when its clock has been set right.
    pub fn since(&self, clock: &dyn Clock) -> Since {
        Since::Time(match self.0 {
            None => Timestamp::from_unix(0, 0),
            Some(id) => id.time().min(clock.now()).before(OVERLAP),
        })
    }
}

/// Asks for everything since then over a connection of its own.
pub async fn ask(mut connection: PlainConnection, context: &Context, since: Since) -> Result<EventStream> {
    let request = Request::Relay(RelayRequest { since: Some(since), to: None });
    say(&mut connection.writer, &outgoing::request(context, &request, "relay")?).await?;
    loop {
        match connection.lines.next().await {
            Ok(Line::Whole(line)) => match heard(&line)? {
                Heard::Answer(_) => break,
                Heard::Refused(error) => return Err(Error::new(error.kind(), format!("it says: {}", brief(&error)))),
                Heard::Event(_) | Heard::End | Heard::Other => {}
            },
            Ok(Line::TooLong) => return Err(gone("the peer sends a line that is longer than the limit")),
            Ok(Line::CutOff | Line::End) | Err(_) => return Err(gone("the peer closed the connection")),
        }
    }
    Ok(unfold(Some(connection), |connection| async {
        let mut connection = connection?;
        let next = next(&mut connection).await;
        let more = next.is_ok();
        Some((next, more.then_some(connection)))
    })
    .boxed())
}

async fn next(connection: &mut PlainConnection) -> Result<Event> {
    loop {
        let line = match timeout(SILENCE, connection.lines.next()).await {
            Ok(Ok(Line::Whole(line))) => line,
            Ok(Ok(Line::TooLong)) => return Err(gone("the peer sends a line that is longer than the limit")),
            Ok(Ok(Line::CutOff)) => return Err(gone("the peer closed the connection in the middle of a line")),
            Ok(Ok(Line::End)) => return Err(gone("the peer closed the connection")),
            Ok(Err(error)) => return Err(gone(&format!("the connection is lost: {error}"))),
            Err(_) => return Err(Error::new(ErrorKind::Cancelled, "the peer has said nothing for a while")),
        };
        let Ok((_, heard)) = heard_of(&line) else {
            return Err(gone("the peer sends what is no line of the protocol"));
        };
        match heard {
            Ok(Heard::Event(event)) => return Ok(event),
            Ok(Heard::Refused(error)) => {
                return Err(Error::new(error.kind(), format!("the peer says: {}", brief(&error))));
            }
            Ok(Heard::Answer(_) | Heard::End | Heard::Other) => {}
            Err(error) => return Ok(Event::Notice(Notice { kind: NoticeKind::Broken, text: brief(&error) })),
        }
    }
}

/// Imports what a plain peer streams, until it ends.
pub async fn take_in(
    here: &End,
    mut events: EventStream,
    pace: &Pace,
    state: &Arc<LinkState>,
    seen: &mut LastSeen,
) -> Error {
    let mut under_way = FuturesUnordered::new();
    loop {
        let room = under_way.len() < pace.batches;
        tokio::select! {
            biased;
            Some(done) = under_way.next(), if !under_way.is_empty() => {
                // What could not be stored is asked for again when the peer is dialled again.
                if let Err(error) = done {
                    return error;
                }
            }
            gathered = gather(&mut events, ImportManyRequest::MOST), if room => {
                for hint in &gathered.hints {
                    if let Event::Notice(notice) = hint && notice.kind == NoticeKind::Broken {
                        tracing::warn!(peer = state.peer(), problem = notice.text, "a message of a peer is refused");
                        state.refused(Way::Inward, 1);
                    }
                }
                let newest = gathered.messages.iter().map(|delivery| delivery.message.id).max();
                seen.0 = seen.0.max(newest);
                if !gathered.messages.is_empty() {
                    under_way.push(import(here, gathered.messages, state));
                }
                if let Some(ended) = gathered.ended {
                    // What came before the end is still stored.
                    while let Some(done) = under_way.next().await {
                        if let Err(error) = done {
                            return error;
                        }
                    }
                    return ended.err().unwrap_or_else(|| gone("the peer has ended its stream"));
                }
            }
        }
    }
}

async fn import(here: &End, messages: Vec<Delivery>, state: &LinkState) -> Result<()> {
    for part in parts(messages, |delivery| delivery.line().len()) {
        let ids: Vec<MessageId> = part.iter().map(|delivery| delivery.message.id).collect();
        let messages = part.into_iter().map(|delivery| delivery.message.clone()).collect();
        for (id, verdict) in ids.into_iter().zip(here.import_all(messages, None).await) {
            settled(id, verdict, state)?;
        }
    }
    Ok(())
}

fn settled(id: MessageId, verdict: Result<Imported>, state: &LinkState) -> Result<()> {
    match verdict {
        Ok(imported) => {
            if let Imported::Refused(reason) = &imported {
                tracing::warn!(peer = state.peer(), message = %id, ?reason, "a message is refused");
            }
            state.imported(Way::Inward, id, &imported);
            Ok(())
        }
        Err(error) if refuses(error.kind()) => {
            tracing::warn!(peer = state.peer(), message = %id, %error, "a message is refused");
            state.refused(Way::Inward, 1);
            Ok(())
        }
        Err(error) => Err(Error::new(error.kind(), format!("this host cannot store a message now: {error}"))),
    }
}

fn gone(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, why)
}
