//! Bringing messages over, both ways.
//!
//! Each message that is brought over has a key that names the one it is a copy of: `chat-bridge:<file>:<id>` in the project,
//! `fmail-bridge:<project>:<id>` in the chat store. The key does two things. Whoever sees it on the other side knows that
//! this is a copy, and does not bring it back. And a copy that is made a second time, because the bridge was killed before
//! it wrote down how far it was, is known by it and stored once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fmail_api::{
    AgentName, Client, ContentHash, Context, Cursor, Delivery, Draft, Error, ErrorKind, Event, Message, Request,
    Response, Result, SendRequest, Store, Target,
};
use fmail_core::Operations;
use fmail_host::SystemClock;
use futures::future::{Either, select};
use futures::{StreamExt, stream};
use serde_json::json;

use super::progress::{Progress, Reached, Start};
use crate::guard::Guard;
use crate::output::{Outcome, Output, Stop, note, notice, report};
use crate::session::{Place, unexpected};

/// How long to wait after a failure that may pass.
const AGAIN: Duration = Duration::from_secs(1);

/// What the user has chosen.
pub(super) struct Choice {
    pub(super) agents: Vec<AgentName>,
    pub(super) once: bool,
    pub(super) json: bool,
    pub(super) start: Start,
}

/// A side, and where its messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Chat,
    Project,
}

pub(super) struct Bridge {
    chat: Arc<dyn Store>,
    project: Arc<dyn Store>,
    operations: Operations,
    file: PathBuf,
    choice: Choice,
    /// The keys of what came from the chat file, and from the project, begin so.
    from_chat: String,
    from_project: String,
    output: Output,
}

impl Bridge {
    pub(super) fn new(place: &Place, chat: Arc<dyn Store>, file: PathBuf, choice: Choice) -> Result<Bridge> {
        let project = place.store()?;
        let hash = ContentHash::of(&[file.as_os_str().as_encoded_bytes()]).to_string();
        let root = ContentHash::of(&[place.project.root.as_os_str().as_encoded_bytes()]).to_string();
        let short = |hash: &str| hash.get(..12).unwrap_or(hash).to_string();
        Ok(Bridge {
            operations: Operations::new(project.clone(), Arc::new(SystemClock)),
            chat,
            project,
            from_chat: format!("chat-bridge:{}:", short(&hash)),
            from_project: format!("fmail-bridge:{}:", short(&root)),
            file,
            choice,
            output: Output::stdout(),
        })
    }

    /// Runs until it is interrupted, or until all is brought over.
    pub(super) fn run(mut self) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(|error| Error::io("cannot prepare to wait", &error))?;
        let mut guard = Guard::start(None)?;
        let outcome = runtime.block_on(async {
            let work = std::pin::pin!(self.keep());
            let asked = std::pin::pin!(guard.asked());
            match select(work, asked).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right(_) => Ok(()),
            }
        });
        runtime.shutdown_background();
        outcome
    }

    async fn keep(&mut self) -> Outcome {
        let mut progress = self.begin().await?;
        loop {
            match self.follow(&mut progress).await {
                Ok(()) => return Ok(()),
                Err(Stop::Failed(error))
                    if !self.choice.once
                        && (error.retryable() || error.kind() == ErrorKind::Expired)
                        && progress.reach.chat.cursor.is_some() =>
                {
                    report(&error);
                    tokio::time::sleep(AGAIN).await;
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Finds where to begin.
    async fn begin(&self) -> Result<Progress> {
        let (mut progress, known) = Progress::load(self.project.clone(), &self.file).await?;
        match self.choice.start {
            Start::Beginning => {
                (progress.reach.chat, progress.reach.project) = (Reached::default(), Reached::default());
            }
            Start::Resume if known => {}
            Start::Resume | Start::Now => {
                progress.reach.chat = now(&*self.chat).await?;
                progress.reach.project = now(&*self.project).await?;
            }
        }
        progress.save().await?;
        Ok(progress)
    }

    /// Brings over what there is and what comes.
    async fn follow(&mut self, progress: &mut Progress) -> Outcome {
        let from = progress.reach.chat.behind(&*self.chat, true).await?;
        let chat = self.chat.scan(from).await?;
        let from = progress.reach.project.behind(&*self.project, false).await?;
        let project = self.project.scan(from).await?;
        let ends = [(Side::Chat, chat.cursor), (Side::Project, project.cursor)];
        let stored = chat.messages.map(|event| (Side::Chat, event));
        let mut stored = stored.chain(project.messages.map(|event| (Side::Project, event)));
        while let Some((side, event)) = stored.next().await {
            self.take(progress, side, event?).await?;
        }
        drop(stored);
        // Two streams are worth more than the cursor of the last message: what was passed over is not looked at again.
        for (side, cursor) in &ends {
            reached(progress, *side).cursor = Some(cursor.clone());
        }
        progress.save().await?;
        if self.choice.once {
            return self.output.flush();
        }
        note(&format!("bridging {} and the project", self.file.display()));
        let [(_, chat), (_, project)] = ends;
        let chat = self.chat.watch(fmail_api::Query::default(), chat).await?.map(|event| (Side::Chat, event));
        let project =
            self.project.watch(fmail_api::Query::default(), project).await?.map(|event| (Side::Project, event));
        let mut events = stream::select(chat, project);
        while let Some((side, event)) = events.next().await {
            self.take(progress, side, event?).await?;
        }
        Err(Error::new(ErrorKind::Unavailable, "a side of the bridge ended its stream").into())
    }

    /// Brings one message over, if it is to be, and writes down how far we are.
    async fn take(&mut self, progress: &mut Progress, side: Side, event: Event) -> Outcome {
        match event {
            Event::Message(delivery) => {
                if self.is_wanted(side, &delivery.message) {
                    self.bring(side, &delivery).await?;
                }
                let reached = reached(progress, side);
                reached.id = reached.id.max(Some(delivery.message.id));
                reached.cursor = Some(delivery.cursor.clone());
                Ok(progress.save().await?)
            }
            Event::Notice(told) => {
                notice(&told);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether a message is one that was sent on this side, and one of those that were chosen.
    fn is_wanted(&self, side: Side, message: &Message) -> bool {
        let copies = match side {
            Side::Chat => &self.from_project,
            Side::Project => &self.from_chat,
        };
        let copy = message.key.as_ref().is_some_and(|key| key.starts_with(copies));
        let targets = message.targets();
        let direct = targets.iter().any(Target::is_direct);
        let chosen = |name: &AgentName| self.choice.agents.is_empty() || self.choice.agents.contains(name);
        direct && !copy && (chosen(&message.from) || targets.iter().filter_map(Target::agent).any(chosen))
    }

    /// Makes the copy. What the other side cannot hold is told and passed over; nothing else is.
    async fn bring(&mut self, side: Side, delivery: &Delivery) -> Outcome {
        let message = &delivery.message;
        let made = match side {
            Side::Chat => self.to_project(message).await,
            Side::Project => self.to_chat(message).await,
        };
        match made {
            Ok((copy, duplicate)) => self.tell(side, message, &copy, duplicate),
            Err(error) if is_about_message(&error) => {
                let (from, to) = (&message.from, &message.to);
                note(&format!("{} from {from} to {to} was not brought over: {error}", message.id));
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn to_project(&self, message: &Message) -> Result<(Message, bool)> {
        let mut request = SendRequest::new(message.to.clone(), message.body.clone());
        request.recipients.clone_from(&message.more.recipients);
        request.cc.clone_from(&message.more.cc);
        request.priority = message.priority;
        request.subject.clone_from(&message.subject);
        request.tags = message.tags.iter().map(ToString::to_string).collect();
        request.ack_required = message.ack_required;
        request.key = Some(format!("{}{}", self.from_chat, message.id));
        let context = Context::local(message.from.clone());
        match self.operations.call(&context, Request::Send(Box::new(request))).await?.head {
            Response::Sent(sent) => Ok((sent.message, sent.duplicate)),
            _ => Err(unexpected()),
        }
    }

    async fn to_chat(&self, message: &Message) -> Result<(Message, bool)> {
        // A topic among the recipients is no part of the line.
        let mut targets = message.targets().into_iter().filter(Target::is_direct);
        let to = targets.next().ok_or_else(|| Error::unsupported("keep topics"))?;
        let mut draft = Draft::new(message.from.clone(), to, message.body.clone());
        draft.more.cc = targets.collect();
        draft.priority = message.priority;
        draft.subject.clone_from(&message.subject);
        draft.tags.clone_from(&message.tags);
        draft.ack_required = message.ack_required;
        draft.key = Some(format!("{}{}", self.from_project, message.id));
        let appended = self.chat.append(draft).await?;
        Ok((Message::clone(&appended.message), appended.duplicate))
    }

    fn tell(&mut self, side: Side, message: &Message, copy: &Message, duplicate: bool) -> Outcome {
        if duplicate {
            return Ok(());
        }
        let (way, arrow) = match side {
            Side::Chat => ("to_project", "chat → fmail"),
            Side::Project => ("to_chat", "fmail → chat"),
        };
        if self.choice.json {
            self.output.json(&json!({
                "way": way, "from": message.from, "to": message.to, "id": message.id, "copy": copy.id,
            }))?;
        } else {
            self.output.line(&format!("{arrow}  {} to {}  {}", message.from, message.to, copy.id))?;
        }
        self.output.flush()
    }
}

fn reached(progress: &mut Progress, side: Side) -> &mut Reached {
    match side {
        Side::Chat => &mut progress.reach.chat,
        Side::Project => &mut progress.reach.project,
    }
}

/// The end of what is stored.
async fn now(store: &dyn Store) -> Result<Reached> {
    let scan = store.scan(fmail_api::Query { limit: Some(1), ..Default::default() }).await?;
    let cursor: Cursor = scan.cursor;
    let mut messages = scan.messages;
    let mut id = None;
    while let Some(event) = messages.next().await {
        if let Event::Message(delivery) = event? {
            id = Some(delivery.message.id);
        }
    }
    Ok(Reached { cursor: Some(cursor), id })
}

/// Whether it is this message that the other side cannot hold.
fn is_about_message(error: &Error) -> bool {
    use ErrorKind::{InvalidAgent, InvalidRequest, TooLarge, Unsupported};
    matches!(error.kind(), InvalidAgent | InvalidRequest | TooLarge | Unsupported)
}
