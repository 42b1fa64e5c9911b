//! `inbox`, `check`, `count`: the agent's own mail.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fmail_api::{
    Claim, Context, Error, Event, EventStream, Folder, InboxRequest, Mail, MailCount, MailState, MessageId, Notice,
    Order, Query, Reply, Response, Result, Timestamp,
};
use futures::StreamExt;

use super::delegated::Delegated;
use crate::mailbox::{Change, Mailbox, Shelf};
use crate::operations::random;
use crate::{Operations, access};

/// The longest time for which a message can be claimed.
const LONGEST_LEASE: u64 = 24 * 3600;

impl Operations {
    /// How much open mail the agent has, and what of its mailbox cannot be read. Nothing changes.
    pub(crate) async fn count(&self, context: &Context) -> Result<(MailCount, Vec<Notice>)> {
        access::named(context, "an inbox")?;
        if let Some(delegated) = self.delegated(context) {
            return Ok((delegated.count().await?, Vec::new()));
        }
        let mailbox = Mailbox::new(&*self.store, &context.agent, self.moment());
        let count = mailbox.count().await?;
        Ok((count, mailbox.into_notices().told()))
    }

    /// The agent's own mail, the oldest first unless the newest are wanted. Unless it only peeks, the messages count as retrieved from now on, which
    /// changes nothing about where they are shown.
    pub(crate) async fn inbox(&self, context: &Context, request: InboxRequest) -> Result<Reply> {
        access::named(context, "an inbox")?;
        if let Some(delegated) = self.delegated(context) {
            return delegated.inbox(&request).await;
        }
        let now = self.moment();
        let mailbox = Mailbox::new(&*self.store, &context.agent, now);
        let mut ids = match request.folder {
            Folder::Unread => mailbox.unread().await?,
            Folder::Open => mailbox.open().await?,
            Folder::Archived => mailbox.archived().await?,
        };
        if (request.from.is_some() || request.thread.is_some() || request.since.is_some()) && !ids.is_empty() {
            let first = request.thread.as_ref().and_then(|thread| thread.parse().ok()).filter(|id| ids.contains(id));
            let (from, since) = (request.from.clone(), request.since.clone());
            let query = Query { ids, from, since, thread: request.thread.clone(), ..mailbox.query() };
            ids = self.ids_of(query.clone()).await?;
            if let Some(first) = first {
                // A thread that nobody has named has the name of its first message.
                ids.extend(self.ids_of(Query { ids: [first].into(), thread: None, ..query }).await?);
            }
        }
        let limit = request.limit.unwrap_or(usize::MAX);
        let found = ids.len();
        let states = match request.claim_seconds {
            Some(seconds) => claim(&mailbox, ids, limit, lease(seconds, request.folder, request.peek)?, now).await?,
            None => {
                let listed = match request.newest {
                    true => ids.into_iter().rev().take(limit).collect(),
                    false => ids.into_iter().take(limit).collect(),
                };
                look(&mailbox, listed, request.peek, now).await?
            }
        };
        let more = found.saturating_sub(states.len()) as u64;
        let order = if request.newest { Order::Descending } else { Order::Ascending };
        let events = self.mail(Query { order, ..mailbox.query() }, states, now).await?;
        Ok(Reply::streaming(Response::Mail { more }, mailbox.into_notices().before(events)))
    }

    /// The agent's mail where the store keeps the states of mail itself.
    pub(super) fn delegated<'a>(&'a self, context: &'a Context) -> Option<Delegated<'a>> {
        self.store.mailbox().map(|mailbox| Delegated::new(mailbox, context, self.moment()))
    }

    /// The ids of what fits a query.
    pub(super) async fn ids_of(&self, query: Query) -> Result<BTreeSet<MessageId>> {
        let mut ids = BTreeSet::new();
        let mut events = self.store.scan(query).await?.messages;
        while let Some(event) = events.next().await {
            if let Event::Message(delivery) = event? {
                ids.insert(delivery.message.id);
            }
        }
        Ok(ids)
    }

    /// The messages with these states, in the order of the query.
    pub(super) async fn mail(
        &self,
        query: Query,
        mut states: BTreeMap<MessageId, MailState>,
        now: Timestamp,
    ) -> Result<EventStream> {
        if states.is_empty() {
            return Ok(futures::stream::empty().boxed());
        }
        let query = Query { ids: states.keys().copied().collect(), ..query };
        let messages = self.store.scan(query).await?.messages;
        let with_state = move |event| match event {
            Ok(Event::Message(delivery)) => {
                let message = delivery.message.clone();
                let state = states.remove(&message.id).unwrap_or_default();
                let standing = Some(state.standing(message.expires, now));
                Ok(Event::Mail(Box::new(Mail { message, state, standing })))
            }
            other => other,
        };
        Ok(messages.map(with_state).boxed())
    }
}

fn lease(seconds: u64, folder: Folder, peek: bool) -> Result<Duration> {
    if folder != Folder::Unread || peek {
        return Err(Error::invalid("only unread messages can be claimed, and not by looking"));
    }
    if !(1..=LONGEST_LEASE).contains(&seconds) {
        return Err(Error::invalid(format!(
            "a message cannot be claimed for {seconds} s, only for 1 s to {LONGEST_LEASE} s"
        )));
    }
    Ok(Duration::from_secs(seconds))
}

/// The states of messages that are listed. That they were retrieved is noted where that is possible: a mailbox that
/// cannot be written can still be read.
async fn look(
    mailbox: &Mailbox<'_>,
    ids: BTreeSet<MessageId>,
    peek: bool,
    now: Timestamp,
) -> Result<BTreeMap<MessageId, MailState>> {
    let mut states = mailbox.states(&ids).await?;
    let new: BTreeSet<MessageId> =
        ids.iter().copied().filter(|id| states.get(id).is_none_or(|state| state.retrieved.is_none())).collect();
    if !peek && !new.is_empty() {
        let change =
            |_, state: &MailState| Ok(Some(MailState { retrieved: state.retrieved.or(Some(now)), ..state.clone() }));
        let noted =
            mailbox.change(Shelf::Mailbox, &new, Change { counts: false, durable: false, change: &change }).await;
        for (id, changed) in noted.into_iter().flatten() {
            states.extend(changed.map(|(_, after)| (id, after)));
        }
    }
    Ok(ids.into_iter().map(|id| (id, states.remove(&id).unwrap_or_default())).collect())
}

/// Takes messages that nobody works on. Whoever is second to one looks for another.
async fn claim(
    mailbox: &Mailbox<'_>,
    mut ids: BTreeSet<MessageId>,
    limit: usize,
    lease: Duration,
    now: Timestamp,
) -> Result<BTreeMap<MessageId, MailState>> {
    let token = format!("{:016x}{:016x}", random(), random());
    let change = |_, state: &MailState| {
        let free = !state.is_read() && state.is_open() && state.live_claim(now).is_none();
        let attempts = state.claim.as_ref().map_or(0, |claim| claim.attempts) + 1;
        let claim = Claim { token: token.clone(), until: now.after(lease), attempts };
        Ok(free.then(|| MailState { retrieved: state.retrieved.or(Some(now)), claim: Some(claim), ..state.clone() }))
    };
    let mut taken = BTreeMap::new();
    let known = mailbox.states(&ids).await?;
    ids.retain(|id| known.get(id).is_none_or(|state| state.live_claim(now).is_none()));
    while taken.len() < limit && !ids.is_empty() {
        let next: BTreeSet<MessageId> = ids.iter().copied().take(limit - taken.len()).collect();
        ids.retain(|id| !next.contains(id));
        // A claim need not survive a power cut: without it the message is simply free again.
        let change = Change { counts: false, durable: false, change: &change };
        for (id, changed) in mailbox.change(Shelf::Mailbox, &next, change).await? {
            let (_, after) = changed?;
            if after.claim.as_ref().is_some_and(|claim| claim.token == token) {
                taken.insert(id, after);
            }
        }
    }
    Ok(taken)
}
