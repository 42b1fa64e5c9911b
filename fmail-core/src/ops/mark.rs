//! `ack`, `archive`, `unarchive`, `mark-read`, `mark-unread`, `delete`: noting something about one's own messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fmail_api::{
    AgentName, Bulk, Context, Error, ErrorKind, Flag, MailState, Mark, MarkRequest, Marked, Message, MessageId, Query,
    Result, Timestamp,
};

use crate::mailbox::{Change, Mailbox, Shelf, shelf_of};
use crate::{Operations, access};

impl Operations {
    /// Notes something about messages. Each has its own verdict; that it was so already is no failure.
    pub(crate) async fn mark(&self, context: &Context, request: MarkRequest) -> Result<Vec<Marked>> {
        access::named(context, "a mailbox")?;
        match &request.bulk {
            Some(_) if !request.ids.is_empty() => {
                Err(Error::invalid("messages are named and described at once").help("give ids, or --all and the like"))
            }
            Some(bulk) => self.mark_bulk(context, &request, bulk).await,
            None if request.ids.is_empty() => Err(Error::invalid("no message is named")
                .help("give the id of a message or the end of it, or --all, --from or --older-than")),
            None => self.mark_named(context, &request).await,
        }
    }

    /// All are found before any is marked, and those that stand together are marked together.
    async fn mark_named(&self, context: &Context, request: &MarkRequest) -> Result<Vec<Marked>> {
        if let Some(delegated) = self.delegated(context) {
            return delegated.mark_named(request).await;
        }
        let mut found = Vec::new();
        for text in &request.ids {
            let message = self.find(context, text).await;
            match message.and_then(|message| Ok((message.id, shelf_for(&context.agent, &message, request.mark)?))) {
                Err(error) if error.kind().retryable() => return Err(error),
                one => found.push((text, one)),
            }
        }
        let mut verdicts = BTreeMap::new();
        for shelf in [Shelf::Mailbox, Shelf::Topic] {
            let here = found.iter().filter_map(|(_, one)| one.as_ref().ok()).filter(|(_, stands)| *stands == shelf);
            let ids: BTreeSet<MessageId> = here.map(|(id, _)| *id).collect();
            for marked in self.note(context, request, shelf, &ids).await? {
                verdicts.insert(marked.id.clone(), marked);
            }
        }
        let mut marked = Vec::new();
        for (text, one) in found {
            marked.push(match one {
                Err(error) => failed(text, error),
                Ok((id, _)) => {
                    let verdict = verdicts.get_mut(&id.to_string());
                    let verdict = verdict.ok_or_else(|| Error::internal("the message has no verdict"))?;
                    let told = verdict.clone();
                    // Named twice, it is so already the second time.
                    verdict.already = verdict.error.is_none();
                    told
                }
            });
        }
        Ok(marked)
    }

    async fn mark_bulk(&self, context: &Context, request: &MarkRequest, bulk: &Bulk) -> Result<Vec<Marked>> {
        if !bulk.all && bulk.before.is_none() && bulk.from.is_none() {
            return Err(Error::invalid("nothing says which messages").help("give --all, --from or --older-than"));
        }
        if let Some(delegated) = self.delegated(context) {
            return delegated.mark_bulk(request, bulk).await;
        }
        let mailbox = Mailbox::new(&*self.store, &context.agent, self.moment());
        let mut ids = match request.mark {
            Mark::Retrieved | Mark::Read => mailbox.unread().await?,
            Mark::Unread | Mark::Acknowledged | Mark::Archived => mailbox.open().await?,
            Mark::Unarchived => mailbox.archived().await?,
            Mark::Deleted => mailbox.open().await?.into_iter().chain(mailbox.archived().await?).collect(),
        };
        if !ids.is_empty() {
            // Also without a condition: what was removed meanwhile is not marked.
            let query = Query { ids, from: bulk.from.clone(), before: bulk.before, ..mailbox.query() };
            ids = self.ids_of(query).await?;
        }
        if let Some(token) = &request.token {
            // All that was claimed under it, and nothing else: what others work on is theirs.
            let states = mailbox.states(&ids).await?;
            let claim_of = |id: &MessageId| states.get(id).and_then(|state| state.claim.as_ref());
            ids.retain(|id| claim_of(id).is_some_and(|claim| claim.token == *token));
        }
        let verdicts = self.note(context, request, Shelf::Mailbox, &ids).await?;
        Ok(verdicts.into_iter().filter(|marked| !marked.already).collect())
    }

    async fn note(
        &self,
        context: &Context,
        request: &MarkRequest,
        shelf: Shelf,
        ids: &BTreeSet<MessageId>,
    ) -> Result<Vec<Marked>> {
        let now = self.moment();
        let mailbox = Mailbox::new(&*self.store, &context.agent, now);
        let token = request.token.as_deref();
        let change = |id, state: &MailState| transition(request.mark, id, state, token, now);
        if request.dry_run {
            let states = mailbox.states_on(shelf, ids).await?;
            let told = ids.iter().map(|id| {
                let before = states.get(id).cloned().unwrap_or_default();
                let verdict = change(*id, &before).map(|after| (before.clone(), after.unwrap_or(before)));
                verdict_of(*id, verdict)
            });
            return Ok(told.collect());
        }
        let counts = request.mark != Mark::Retrieved;
        let changed = mailbox.change(shelf, ids, Change { counts, durable: counts, change: &change }).await?;
        if request.mark == Mark::Deleted {
            let deleted = changed.iter().filter(|(_, verdict)| verdict.is_ok()).map(|(id, _)| *id).collect();
            self.remove_deleted(&mailbox, deleted).await?;
        }
        Ok(changed.into_iter().map(|(id, verdict)| verdict_of(id, verdict)).collect())
    }
}

fn verdict_of(id: MessageId, verdict: Result<(MailState, MailState)>) -> Marked {
    match verdict {
        Err(error) => failed(&id.to_string(), error),
        Ok((before, after)) => Marked {
            id: id.to_string(),
            already: before == after,
            was_unread: before.is_open() && !before.is_read(),
            error: None,
        },
    }
}

pub(super) fn failed(id: &str, error: Error) -> Marked {
    Marked { id: id.into(), already: false, was_unread: false, error: Some(error) }
}

/// Where the message stands for the agent, if the mark makes sense there.
fn shelf_for(agent: &AgentName, message: &Arc<Message>, mark: Mark) -> Result<Shelf> {
    match shelf_of(agent, message) {
        Some(Shelf::Topic) if !matches!(mark, Mark::Read | Mark::Acknowledged | Mark::Retrieved) => Err(
            Error::invalid(format!("{} is a message of the topic `{}`, not of your mailbox", message.id, message.to))
                .help("a message of a topic can be read and acknowledged, and that is all"),
        ),
        Some(shelf) => Ok(shelf),
        None => Err(Error::new(
            ErrorKind::Denied,
            format!("{} is a message that you sent to {}; what becomes of it is up to them", message.id, message.to),
        )
        .help(format!("`fmail receipt {}` tells what they have done with it", message.id))),
    }
}

/// The state that a mark leads to; nothing when it is so already.
pub(super) fn transition(
    mark: Mark,
    id: MessageId,
    state: &MailState,
    token: Option<&str>,
    now: Timestamp,
) -> Result<Option<MailState>> {
    if state.deleted.is_some() {
        return match mark {
            Mark::Deleted => Ok(None),
            _ => Err(Error::not_found(format!("the message {id} has been deleted"))),
        };
    }
    let set = |flag: Option<Flag>, to: bool| Some(Flag::changed(flag, to, now));
    let seen = MailState { retrieved: state.retrieved.or(Some(now)), ..state.clone() };
    let read = |seen: MailState| MailState {
        read: if state.is_read() { state.read } else { set(state.read, true) },
        first_read: state.first_read.or(Some(now)),
        ..seen
    };
    let archived = state.archived.is_some_and(|flag| flag.set);
    let after = match mark {
        Mark::Retrieved => (state.retrieved.is_none()).then_some(seen),
        Mark::Read => (!state.is_read()).then(|| read(seen)),
        Mark::Unread => state.is_read().then(|| MailState { read: set(state.read, false), ..state.clone() }),
        Mark::Acknowledged => (state.acknowledged.is_none() || !state.is_read()).then(|| {
            let acknowledged = state.acknowledged.or(Some(now));
            MailState { acknowledged, ..read(seen) }
        }),
        Mark::Archived => (!archived).then(|| MailState { archived: set(state.archived, true), ..state.clone() }),
        Mark::Unarchived => archived.then(|| MailState { archived: set(state.archived, false), ..state.clone() }),
        Mark::Deleted => Some(MailState { deleted: Some(now), ..state.clone() }),
    };
    match after {
        Some(after) if mark == Mark::Retrieved => Ok(Some(after)),
        Some(after) => {
            check_claim(id, state, token, now)?;
            Ok(Some(MailState { claim: None, ..after }))
        }
        None => Ok(None),
    }
}

/// Whoever claimed a message finishes it, and nobody else while the claim lasts.
fn check_claim(id: MessageId, state: &MailState, token: Option<&str>, now: Timestamp) -> Result<()> {
    match (token, state.live_claim(now)) {
        (None, None) => Ok(()),
        (Some(token), Some(claim)) if claim.token == token => Ok(()),
        (Some(_), _) => Err(Error::new(ErrorKind::Conflict, format!("the claim on {id} has ended"))
            .help("the message was given to another reader, or will be; do not finish it under this token")),
        (None, Some(claim)) => {
            Err(Error::new(ErrorKind::Conflict, format!("{id} is claimed by another reader until {}", claim.until))
                .help("wait until then, or give the token of the claim with --token"))
        }
    }
}
