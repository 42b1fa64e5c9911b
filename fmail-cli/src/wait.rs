//! `send --wait-for`: staying until a message has had an effect.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use fmail_api::{
    Error, ErrorKind, Event, Message, Receipt, ReceiptRequest, RecipientReceipt, Reply, Request, Response, Result,
    Since, WatchRequest,
};
use futures::StreamExt;
use futures::executor::block_on;

use crate::session::{Session, unexpected};

/// Between two looks at what the recipients have done: at first and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitFor {
    /// Every recipient has it: listed, claimed or watched
    Retrieved,
    /// Every recipient has read it
    Read,
    /// Every recipient has acknowledged it
    Ack,
    /// Somebody has answered it
    Reply,
}

impl WaitFor {
    /// The word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            WaitFor::Retrieved => "retrieved",
            WaitFor::Read => "read",
            WaitFor::Ack => "acknowledged",
            WaitFor::Reply => "answered",
        }
    }

    fn reached(self, recipient: &RecipientReceipt) -> bool {
        match self {
            WaitFor::Retrieved => recipient.retrieved.is_some(),
            WaitFor::Read => recipient.read.is_some(),
            WaitFor::Ack => recipient.acknowledged.is_some(),
            WaitFor::Reply => false,
        }
    }
}

/// What came of waiting.
pub(crate) enum Effect {
    /// What the recipients have done.
    Receipt(Box<Receipt>),
    /// The answer.
    Reply(Box<Message>),
}

/// Waits until the message has had the effect; `timeout` when that takes too long.
pub(crate) fn wait(session: &Session, message: &Message, wait: WaitFor, timeout: Duration) -> Result<Effect> {
    let deadline = Instant::now().checked_add(timeout);
    let late = || {
        Error::new(
            ErrorKind::Timeout,
            format!("{} is stored, and was not {} within {}", message.id, wait.as_str(), shown(timeout)),
        )
        .help(format!("do not send it again; `fmail receipt {}` tells how it stands", message.id))
    };
    match wait {
        WaitFor::Reply => answer(session, message, deadline)?.map(|answer| Effect::Reply(Box::new(answer))),
        _ => receipt(session, message, wait, deadline)?.map(|receipt| Effect::Receipt(Box::new(receipt))),
    }
    .ok_or_else(late)
}

fn shown(time: Duration) -> String {
    if time.subsec_millis() == 0 { format!("{} s", time.as_secs()) } else { format!("{} ms", time.as_millis()) }
}

/// Looks again and again, since a record does not tell when it changes. The first looks are close together: an agent
/// that is at work answers quickly.
fn receipt(session: &Session, message: &Message, wait: WaitFor, end: Option<Instant>) -> Result<Option<Receipt>> {
    let mut pause = LOOKS.0;
    loop {
        let request = Request::Receipt(ReceiptRequest { id: message.id.to_string() });
        let Response::Receipt(receipt) = session.call(request)?.head else { return Err(unexpected()) };
        let mut asked = receipt.recipients.iter().filter(|recipient| !recipient.cc).peekable();
        if asked.peek().is_some() && asked.all(|recipient| wait.reached(recipient)) {
            return Ok(Some(*receipt));
        }
        let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(None);
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(LOOKS.1);
    }
}

/// The first message that answers this one and that the sender may read.
fn answer(session: &Session, message: &Message, end: Option<Instant>) -> Result<Option<Message>> {
    let request = WatchRequest { since: Some(Since::Id(message.id)), ..WatchRequest::default() };
    let arriving = listened(session.call(Request::Watch(request))?)?;
    loop {
        let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        match arriving.recv_timeout(left) {
            Ok(Ok(arrived)) if arrived.reply_to == Some(message.id) => return Ok(Some(arrived)),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error),
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new(ErrorKind::Unavailable, "the watch for an answer has ended"));
            }
        }
    }
}

/// The messages of a watch, read by a thread: waiting for one must end when the time is over. The thread ends with the
/// process.
fn listened(reply: Reply) -> Result<Receiver<Result<Message>>> {
    let mut events = reply.events.ok_or_else(unexpected)?;
    let (sender, receiver) = channel();
    let read = move || {
        while let Some(event) = block_on(events.next()) {
            let item = match event {
                Ok(Event::Message(delivery)) => Ok(Message::clone(&delivery.message)),
                Ok(_) => continue,
                Err(error) => Err(error),
            };
            if sender.send(item).is_err() {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("fmail-answers".into())
        .spawn(read)
        .map_err(|error| Error::io("no thread to wait for an answer", &error))?;
    Ok(receiver)
}
