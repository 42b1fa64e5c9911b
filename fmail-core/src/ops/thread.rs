//! `thread`: a conversation, found by its name or by any of its messages.
//!
//! A message belongs to a thread by name, or because it answers one that does. Messages that plain writers stored carry
//! no name; their answers hold the thread together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fmail_api::{
    Context, Error, ErrorKind, Event, EventStream, Mail, MailState, Message, MessageId, Query, Reply, Response, Result,
    Since, ThreadRequest,
};
use futures::StreamExt;

use crate::Operations;
use crate::conversation::{Turn, in_order};
use crate::exchange::{foreign_thread, thread_aside};
use crate::find::Found;
use crate::mailbox::{Mailbox, Shelf, shelf_of};

/// Whether whoever asks may read a message.
pub(crate) type Readable<'a> = &'a (dyn Fn(&Message) -> bool + Sync);

/// The longest chain of answers that is followed up to its beginning.
const LONGEST_CHAIN: usize = 10_000;

/// How far the clock of one host may be behind that of another, for an answer to be found that came before what it answers.
const EARLY: Duration = Duration::from_secs(86_400);

impl Operations {
    /// The messages of a thread that the agent may read, the oldest first and none before what it answers. An unknown
    /// thread is empty, not an error.
    pub(crate) async fn thread(&self, context: &Context, request: ThreadRequest) -> Result<Reply> {
        let text = request.id.trim();
        if text.is_empty() {
            return Err(Error::invalid("no thread is named").help("give its name, or the id of one of its messages"));
        }
        if let Some(delegated) = self.delegated(context) {
            return match context.overview {
                true => self.whole_conversation(text).await,
                false => delegated.thread(&request).await,
            };
        }
        let thread = self.thread_of(context, text).await?;
        let ids = self.members(&thread, &|message| context.may_read(message)).await?;
        let now = self.moment();
        let mailbox = Mailbox::new(&*self.store, &context.agent, now);
        let mut states = match mailbox.states(&ids.iter().copied().collect()).await {
            Ok(states) => Some(states),
            // Another user than the owner: what may be read is shown, without what the agent has done with it.
            Err(error) if error.kind() == ErrorKind::Denied => None,
            Err(error) => return Err(error),
        };
        if let Some(states) = &mut states {
            states.retain(|_, state| *state != MailState::default());
        }
        let events = self.in_turn(ids).await?;
        let caller = context.clone();
        let events = events.filter_map(move |event| {
            let event = match event {
                Ok(Event::Message(delivery)) => with_state(&caller, delivery.message.clone(), &mut states, now).map(Ok),
                other => Some(other),
            };
            async move { event }
        });
        Ok(Reply::streaming(Response::Thread { thread }, events.boxed()))
    }

    /// A thread for who acts for everybody, where the store keeps the mail of each agent itself.
    async fn whole_conversation(&self, text: &str) -> Result<Reply> {
        let messages = self.conversation(text).await?;
        let named = messages.iter().find_map(|message| message.thread.clone());
        let mail = messages
            .into_iter()
            .map(|message| Ok(Event::Mail(Box::new(Mail { message, state: MailState::default(), standing: None }))));
        let events = futures::stream::iter(mail.collect::<Vec<_>>()).boxed();
        Ok(Reply::streaming(Response::Thread { thread: named.unwrap_or_else(|| text.into()) }, events))
    }

    /// The name of the thread that a text means.
    async fn thread_of(&self, context: &Context, text: &str) -> Result<String> {
        let looks_like_an_id = text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        match looks_like_an_id {
            false => Ok(text.into()),
            true => match self.look_for(context, text).await {
                Ok(Found::Message(message)) => self.thread_name(message, &|message| context.may_read(message)).await,
                Ok(Found::Nothing(_)) => Ok(text.into()),
                // A thread may have a name of digits.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(text.into()),
                Err(error) => Err(error),
            },
        }
    }

    /// The name of the thread that a message belongs to: its own, or that of what it answers, as far up as `readable`
    /// allows; the id of the first where none has a name.
    pub(crate) async fn thread_name(&self, mut message: Arc<Message>, readable: Readable<'_>) -> Result<String> {
        let mut passed = BTreeSet::from([message.id]);
        while passed.len() < LONGEST_CHAIN {
            if let Some(thread) = self.exchange.thread(&message).await? {
                return Ok(thread);
            }
            // Not by their order: what was answered on another host may have a higher id here than the answer.
            let Some(above) = self.exchange.parent(&message).await? else { break };
            match self.message(above).await? {
                // A chain that bites its own tail has no beginning; its lowest id is as good as any.
                Some(next) if !passed.insert(next.id) => return Ok(passed.first().unwrap_or(&next.id).to_string()),
                Some(next) if readable(&next) => message = next,
                _ => break,
            }
        }
        Ok(message.id.to_string())
    }

    /// The messages with these ids that there are, in this order, and what the store has to say beside them, also when
    /// there is no id.
    pub(crate) async fn in_turn(&self, ids: Vec<MessageId>) -> Result<EventStream> {
        let limit = ids.is_empty().then_some(0);
        let query = Query { ids: ids.iter().copied().collect(), limit, ..Query::default() };
        let mut events = self.store.scan(query).await?.messages;
        // Nearly always the order is that of the ids, and nothing has to be held back for it.
        if ids.is_sorted() {
            return Ok(events);
        }
        let (mut told, mut found) = (Vec::new(), BTreeMap::new());
        while let Some(event) = events.next().await {
            match event? {
                Event::Message(delivery) => drop(found.insert(delivery.message.id, delivery)),
                other => told.push(Ok(other)),
            }
        }
        let found =
            ids.into_iter().filter_map(move |id| found.remove(&id)).map(|delivery| Ok(Event::Message(delivery)));
        Ok(futures::stream::iter(told.into_iter().chain(found)).boxed())
    }

    /// The ids of the thread's messages that are readable, in order.
    pub(crate) async fn members(&self, thread: &str, readable: Readable<'_>) -> Result<Vec<MessageId>> {
        let named = self.named(thread).await?;
        let mut turns = BTreeMap::new();
        for message in &named {
            turns.insert(message.id, Turn::of(message, self.exchange.parent(message).await?));
        }
        let mut members: BTreeSet<MessageId> = named.iter().map(|message| message.id).collect();
        members.extend(thread.parse::<MessageId>());
        let mut hidden: BTreeSet<MessageId> =
            named.iter().filter(|message| !readable(message)).map(|message| message.id).collect();
        let Some(first) = members.first().copied() else { return Ok(Vec::new()) };
        let since = match named.iter().find(|message| message.id == first) {
            Some(first) if came_from_elsewhere(first) => Since::Time(first.time.before(EARLY)),
            _ => Since::Id(first),
        };
        let mut answers = BTreeMap::new();
        let mut events = self.store.scan(Query { since: Some(since), ..Query::default() }).await?.messages;
        while let Some(event) = events.next().await {
            let Event::Message(delivery) = event? else { continue };
            let message = delivery.message.clone();
            if !readable(&message) {
                hidden.insert(message.id);
            }
            if message.thread.is_none()
                && let Some(above) = self.exchange.parent(&message).await?
            {
                answers.insert(message.id, (above, Turn::of(&message, Some(above))));
            }
        }
        loop {
            let joining: Vec<MessageId> =
                answers.iter().filter(|(_, (above, _))| members.contains(above)).map(|(id, _)| *id).collect();
            if joining.is_empty() {
                break;
            }
            for id in joining {
                turns.extend(answers.remove(&id).map(|(_, turn)| (id, turn)));
                members.insert(id);
            }
        }
        Ok(in_order(turns.into_iter().filter(|(id, _)| !hidden.contains(id)).map(|(_, turn)| turn)))
    }

    /// The messages that belong to a thread by its name, and the one whose id is its name.
    async fn named(&self, thread: &str) -> Result<Vec<Arc<Message>>> {
        let first = match thread.parse() {
            Ok(id) => self.message(id).await?,
            Err(_) => None,
        };
        let identity = first.as_ref().map(|first| first.identity());
        // Of messages that came before the first one did, each calls it by the id and the hash that it was born with.
        let meant = |message: &Message| match (foreign_thread(message), &identity) {
            (Some(meant), Some(identity)) => meant == *identity,
            _ => true,
        };
        let mut named: Vec<Arc<Message>> = self.of_thread(thread).await?;
        named.retain(|message| meant(message));
        if let Some(identity) = identity {
            let origin = Some(identity.origin.to_string()).filter(|origin| origin != thread);
            for other in origin.into_iter().chain([thread_aside(&identity)]) {
                let mut others = self.of_thread(&other).await?;
                others.retain(|message| foreign_thread(message).is_some() && meant(message));
                named.extend(others);
            }
        }
        named.extend(first);
        Ok(named)
    }

    /// The messages that carry a thread's name.
    async fn of_thread(&self, thread: &str) -> Result<Vec<Arc<Message>>> {
        let mut found = Vec::new();
        let mut events = self.store.scan(Query { thread: Some(thread.into()), ..Query::default() }).await?.messages;
        while let Some(event) = events.next().await {
            if let Event::Message(delivery) = event? {
                found.push(delivery.message.clone());
            }
        }
        Ok(found)
    }
}

/// Whether others may have answered a message before it came here.
fn came_from_elsewhere(message: &Message) -> bool {
    message.origin_id.is_some() || message.host.is_some()
}

/// The message as the agent sees it; one that it has deleted is gone. Without `states` nothing is said of them.
fn with_state(
    context: &Context,
    message: Arc<Message>,
    states: &mut Option<BTreeMap<MessageId, MailState>>,
    now: fmail_api::Timestamp,
) -> Option<Event> {
    if !context.may_read(&message) {
        return None;
    }
    let is_mail = states.is_some() && shelf_of(&context.agent, &message) == Some(Shelf::Mailbox);
    let state = states.as_mut().and_then(|states| states.remove(&message.id)).unwrap_or_default();
    if state.deleted.is_some() {
        return None;
    }
    let standing = is_mail.then(|| state.standing(message.expires, now));
    Some(Event::Mail(Box::new(Mail { message, state, standing })))
}

#[cfg(test)]
mod tests {
    use fmail_api::{
        Client, Context, ErrorKind, Event, ReadRequest, Request, SearchRequest, SendRequest, ThreadRequest,
    };
    use futures::StreamExt;
    use futures::executor::block_on;

    use crate::testing::{Project, context, take};

    fn thread(project: &Project, agent: &str, id: impl ToString) -> Vec<String> {
        let reply = project.call(agent, Request::Thread(ThreadRequest { id: id.to_string() })).unwrap();
        let bodies = reply.events.unwrap().map(|event| match event.unwrap() {
            Event::Mail(mail) => mail.message.body.as_str().unwrap().to_string(),
            other => panic!("{other:?}"),
        });
        block_on(bodies.collect())
    }

    fn answer(project: &Project, from: &str, to: &str, above: impl ToString, body: &str) -> fmail_api::MessageId {
        let mut request = SendRequest::new(to.parse().unwrap(), body);
        request.reply_to = Some(above.to_string());
        project.try_send(from, request).unwrap().message.id
    }

    #[test]
    fn plain_answers_find_together_from_any_of_them() {
        let project = Project::new();
        let one = project.send("alice", "task", "one").message.id;
        project.send("alice", "task", "something else");
        let two = answer(&project, "bob", "task", one, "two");
        let three = answer(&project, "carol", "task", two, "three");
        for id in [one, two, three] {
            assert_eq!(thread(&project, "dave", id), ["one", "two", "three"]);
        }
        assert_eq!(thread(&project, "dave", &two.to_string()[9..]), ["one", "two", "three"]);
    }

    #[test]
    fn a_name_gathers_and_answers_inherit_it() {
        let project = Project::new();
        let mut request = SendRequest::new("task".parse().unwrap(), "one");
        request.thread = Some("release-7".into());
        let one = project.try_send("alice", request).unwrap().message.id;
        answer(&project, "bob", "@alice", one, "two");
        assert_eq!(thread(&project, "alice", "release-7"), ["one", "two"]);
        assert_eq!(thread(&project, "carol", "release-7"), ["one"], "what others wrote to each other stays theirs");
        assert!(thread(&project, "alice", "nothing").is_empty());
        assert!(thread(&project, "alice", "20200101-000000-0000").is_empty());
    }

    #[test]
    fn who_acts_for_everybody_sees_what_others_wrote_to_each_other() {
        let project = Project::new();
        let mut request = SendRequest::new("@bob".parse().unwrap(), "one");
        request.thread = Some("release-7".into());
        let one = project.try_send("alice", request).unwrap().message.id;
        answer(&project, "bob", "@alice", one, "two");
        assert!(thread(&project, "carol", "release-7").is_empty());
        let everybody = Context { overview: true, ..context("carol") };
        let thread = Request::Thread(ThreadRequest { id: "release-7".into() });
        let reply = block_on(project.operations.call(&everybody, thread)).unwrap();
        assert_eq!(block_on(reply.events.unwrap().count()), 2);
        let search = Request::Search(SearchRequest { query: "two".into(), ..SearchRequest::default() });
        assert_eq!(take(block_on(project.operations.call(&everybody, search)).unwrap(), 9).len(), 1);
        let read = Request::Read(ReadRequest { ids: vec![one.to_string()], peek: true, token: None });
        assert!(block_on(project.operations.call(&everybody, read.clone())).is_ok());
        assert!(project.call("carol", read).is_err());
    }

    #[test]
    fn an_empty_name_is_refused() {
        let error = Project::new().call("alice", Request::Thread(ThreadRequest { id: " ".into() })).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    }
}
