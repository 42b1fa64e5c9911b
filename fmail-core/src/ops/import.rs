//! `import`: a message that another host has given its id.

use std::collections::{HashMap, HashSet};

use fmail_api::{
    AgentName, Error, Identity, ImportManyRequest, ImportRequest, Imported, Message, MessageId, NodeId, REPLY_HASH,
    RefusedReason, Result, THREAD_HASH, Target, Verdict, check_size,
};

use crate::Operations;
use crate::exchange::{Buried, Taking, foreign_parent, foreign_thread};

/// The most places that a message may stand in, and the longest name of a host, in bytes.
const MAX_PLACES: usize = 255;
const MAX_HOST: usize = 255;

impl Operations {
    /// Stores the message as the store decides: new, there already, under another id, or refused. What it mentions becomes
    /// ids of this project. Who may ask is decided where the request comes in.
    pub(crate) async fn import(&self, request: ImportRequest) -> Result<Imported> {
        self.check_exchange("take messages from other hosts")?;
        let mut arriving = Arriving::new(self, request.from);
        match arriving.prepared(request.message.identity(), request.message).await? {
            Prepared::Refused(refused) => Ok(refused),
            Prepared::Message(message, taking) => {
                let told = Told::of(&message);
                let imported = self.store.import(*message).await?;
                drop(taking);
                self.imported(&told, &imported, arriving.burials).await?;
                Ok(imported)
            }
        }
    }

    /// The same for several: what the store does for one of them it does for many at once, and each has its own verdict.
    pub(crate) async fn import_many(&self, request: ImportManyRequest) -> Result<Vec<Verdict>> {
        self.check_exchange("take messages from other hosts")?;
        let count = request.messages.len();
        if count > ImportManyRequest::MOST {
            let most = ImportManyRequest::MOST;
            return Err(Error::invalid(format!("{count} messages are imported at once, and {most} are allowed"))
                .help("divide them among several requests"));
        }
        let mut arriving = Arriving::new(self, request.from);
        let mut verdicts: Vec<Option<Verdict>> = vec![None; count];
        // What is ready to be stored: its number and the message. An answer to one of these waits until they are stored,
        // so that it finds the message that it answers.
        let (mut ready, mut identities) = (Vec::new(), HashSet::new());
        for (number, message) in request.messages.into_iter().enumerate() {
            let mentioned = [foreign_parent(&message), foreign_thread(&message)];
            if mentioned.into_iter().flatten().any(|mentioned| identities.contains(&mentioned)) {
                self.import_ready(&mut ready, &mut verdicts, arriving.burials).await;
                identities.clear();
            }
            let identity = message.identity();
            match arriving.prepared(identity, message).await {
                Err(error) => verdicts[number] = Some(Verdict::Failed(error)),
                Ok(Prepared::Refused(refused)) => verdicts[number] = Some(Verdict::Imported(refused)),
                Ok(Prepared::Message(message, taking)) => {
                    identities.insert(identity);
                    ready.push((number, *message, taking));
                }
            }
        }
        self.import_ready(&mut ready, &mut verdicts, arriving.burials).await;
        let missing = || Verdict::Failed(Error::internal("the store has said nothing about a message"));
        Ok(verdicts.into_iter().map(|verdict| verdict.unwrap_or_else(missing)).collect())
    }

    async fn import_ready(&self, ready: &mut Vec<Ready<'_>>, verdicts: &mut [Option<Verdict>], burials: u64) {
        if ready.is_empty() {
            return;
        }
        let (mut numbers, mut messages, mut taking) = (Vec::new(), Vec::new(), Vec::new());
        for (number, message, taken) in ready.drain(..) {
            numbers.push(number);
            messages.push(message);
            taking.push(taken);
        }
        let told: Vec<Told> = messages.iter().map(Told::of).collect();
        let imported = self.store.import_many(messages).await;
        drop(taking);
        for ((number, told), imported) in numbers.into_iter().zip(told).zip(imported) {
            let imported = match imported {
                Ok(imported) => self.imported(&told, &imported, burials).await.map(|()| imported),
                failed => failed,
            };
            verdicts[number] = Some(imported.into());
        }
    }

    /// What follows from what became of a message. `burials` is how often messages had been buried before it was looked at.
    async fn imported(&self, told: &Told, imported: &Imported, burials: u64) -> Result<()> {
        told.note(imported);
        let id = told.id;
        let buried_meanwhile = *imported == Imported::New && self.exchange.burials() != burials;
        if buried_meanwhile && self.graves_on(&id.day()).await?.had(id) {
            // The message that had this id was deleted behind our look and before the import.
            self.clear_states(&told.recipients, id).await?;
        }
        Ok(())
    }
}

/// A message that is ready to be stored: its number, and the id that it takes.
type Ready<'a> = (usize, Message, Option<Taking<'a>>);

/// What is needed for all messages of a request, and read once.
struct Arriving<'a> {
    operations: &'a Operations,
    from: Option<NodeId>,
    /// The most bytes of a message.
    limit: usize,
    /// The graves of the days of which messages have come.
    graves: HashMap<String, Buried>,
    /// How often messages had been buried before any of these was read.
    burials: u64,
}

/// A message as it is to be stored, unless it is refused before that.
enum Prepared<'a> {
    /// With the id that it takes: as long as that is held, no answer that comes takes it for the message that it waits for.
    Message(Box<Message>, Option<Taking<'a>>),
    Refused(Imported),
}

impl<'a> Arriving<'a> {
    fn new(operations: &'a Operations, from: Option<NodeId>) -> Self {
        let limit = operations.store.capabilities().max_message_bytes;
        Arriving { operations, from, limit, graves: HashMap::new(), burials: operations.exchange.burials() }
    }

    async fn prepared(&mut self, identity: Identity, mut message: Message) -> Result<Prepared<'a>> {
        let operations = self.operations;
        // Who tells both ids means the one that the message was born with.
        message.id = message.origin_id.take().unwrap_or(message.id);
        if let Some(run) = self.from {
            // Before it is stored: the stream to that host may be faster than we are.
            operations.exchange.note(identity, run);
        }
        if !is_acceptable(&message) {
            return Ok(refused(&message, RefusedReason::Invalid));
        }
        let buried = self.buried(message.id).await?;
        if buried.has(&identity) {
            return Ok(refused(&message, RefusedReason::Deleted));
        }
        let had = buried.had(message.id);
        let taking = operations.exchange.take_id(&identity).await?;
        if taking.is_none() || had {
            // An answer that is here waits for another message of this id. Or another message had this id here and was
            // deleted: what agents did with that one, and what answers it, still goes by the id, and the newcomer would be
            // deleted with it. An id that no clock has reached makes the store give a new one.
            message.origin_id = Some(message.id);
            message.id = MessageId::MAX;
        }
        operations.exchange.localise(&mut message).await?;
        fit(&mut message, self.limit);
        Ok(Prepared::Message(Box::new(message), taking))
    }

    /// What was buried under the ids of the day on which an id was given.
    async fn buried(&mut self, id: MessageId) -> Result<&Buried> {
        let day = id.day();
        if !self.graves.contains_key(&day) {
            let graves = self.operations.graves_on(&day).await?;
            self.graves.insert(day.clone(), graves);
        }
        Ok(&self.graves[&day])
    }
}

/// What is told of a message that the store refuses.
struct Told {
    id: MessageId,
    from: AgentName,
    recipients: Vec<AgentName>,
}

impl Told {
    fn of(message: &Message) -> Self {
        let recipients = message.targets().iter().filter_map(Target::agent).cloned().collect();
        Told { id: message.id, from: message.from.clone(), recipients }
    }

    fn note(&self, imported: &Imported) {
        if let Imported::Refused(reason) = imported {
            tracing::info!(id = %self.id, from = %self.from, ?reason, "a message of another host was refused");
        }
    }
}

/// Whether the store could keep the message, apart from its size. Names and ids are so by their types.
fn is_acceptable(message: &Message) -> bool {
    let host = |host: &String| !host.is_empty() && host.len() <= MAX_HOST && !host.chars().any(char::is_control);
    message.targets().len() <= MAX_PLACES && message.host.as_ref().is_none_or(host)
}

fn refused(message: &Message, reason: RefusedReason) -> Prepared<'static> {
    let refused = Imported::Refused(reason);
    Told::of(message).note(&refused);
    Prepared::Refused(refused)
}

/// A message that was as large as it may be where it was born has grown by what it travels with. That must not turn it
/// away, so it goes without.
fn fit(message: &mut Message, limit: usize) {
    if check_size(message, limit).is_ok() {
        return;
    }
    let mut smaller = message.clone();
    smaller.extra.shift_remove(REPLY_HASH);
    smaller.extra.shift_remove(THREAD_HASH);
    if check_size(&smaller, limit).is_err() {
        smaller.host = None;
    }
    if check_size(&smaller, limit).is_ok() {
        *message = smaller;
    }
}

#[cfg(test)]
mod tests {
    use fmail_api::{
        ErrorKind, Event, ImportManyRequest, ImportRequest, Imported, Message, Query, REPLY_HASH, RefusedReason,
        Request, Response, Result, Store, Verdict,
    };
    use futures::executor::{block_on, block_on_stream};
    use serde_json::Value;

    use crate::testing::Project;

    fn import(project: &Project, message: &Message) -> Imported {
        match project.call("peer", Request::Import(Box::new(ImportRequest::new(message.clone())))).unwrap().head {
            Response::Imported(imported) => imported,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_there_is_not_imported_again() {
        let (here, there) = (Project::new(), Project::new());
        let message = there.send("bob", "task", "hello").message;
        assert_eq!(import(&here, &message), Imported::New);
        assert_eq!(import(&here, &message), Imported::Duplicate);
    }

    #[test]
    fn what_no_store_could_keep_is_refused() {
        let (here, there) = (Project::new(), Project::new());
        let message = there.send("bob", "task", "hello").message;
        let refused = |change: &dyn Fn(&mut Message), reason: RefusedReason| {
            let mut message = message.clone();
            change(&mut message);
            assert_eq!(import(&here, &message), Imported::Refused(reason));
        };
        let crowd = || (0..255).map(|number| format!("@a{number}").parse().unwrap()).collect();
        refused(&|message| message.more.cc = crowd(), RefusedReason::Invalid);
        refused(&|message| message.host = Some("\u{1b}[2J".into()), RefusedReason::Invalid);
        refused(&|message| message.host = Some("h".repeat(256)), RefusedReason::Invalid);
        refused(&|message| message.body = "x".repeat(10_001).into(), RefusedReason::TooLarge);
        assert_eq!(import(&here, &message), Imported::New);
    }

    #[test]
    fn what_a_message_travels_with_does_not_make_it_too_large() {
        let (here, there) = (Project::new(), Project::new());
        let mut message = there.send("bob", "task", "y").message;
        let room = 10_001 - message.to_line().len();
        message.body = "x".repeat(room).into();
        message.host = Some("elsewhere".into());
        assert_eq!(import(&here, &message), Imported::New);
    }

    fn import_many(project: &Project, messages: Vec<Message>) -> Result<Vec<Verdict>> {
        let request = Request::ImportMany(ImportManyRequest { messages, from: None });
        Ok(match project.call("peer", request)?.head {
            Response::ImportedMany(verdicts) => verdicts,
            other => panic!("{other:?}"),
        })
    }

    fn sent(there: &Project, count: usize) -> Vec<Message> {
        (0..count).map(|number| there.send("bob", "task", number).message).collect()
    }

    #[test]
    fn of_many_each_has_its_own_verdict_in_the_order_of_the_request() {
        let (here, there) = (Project::new(), Project::new());
        let [first, second, large, crowded, third] = sent(&there, 5).try_into().unwrap();
        assert_eq!(import(&here, &second), Imported::New);
        let large = Message { body: "x".repeat(10_001).into(), ..large };
        let mut crowded = crowded;
        crowded.more.cc = (0..255).map(|number| format!("@a{number}").parse().unwrap()).collect();
        // Another message with the id of one that stands before it in the same request.
        let collides = Message { body: "another".into(), ..first.clone() };
        let all = vec![first.clone(), second, large, crowded, first.clone(), collides, third.clone()];
        let verdicts = import_many(&here, all).unwrap();
        let [new, known, large, crowded, twice, collides, last] = verdicts.try_into().unwrap();
        let refused = |reason| Verdict::Imported(Imported::Refused(reason));
        assert_eq!((new, last), (Verdict::Imported(Imported::New), Verdict::Imported(Imported::New)));
        assert_eq!((known, twice), (Verdict::Imported(Imported::Duplicate), Verdict::Imported(Imported::Duplicate)));
        assert_eq!((large, crowded), (refused(RefusedReason::TooLarge), refused(RefusedReason::Invalid)));
        assert!(matches!(collides, Verdict::Imported(Imported::Relocated(id)) if id != first.id), "{collides:?}");
        assert_eq!(import(&here, &third), Imported::Duplicate);
    }

    #[test]
    fn more_than_a_request_may_hold_are_refused_and_nothing_of_them_is_stored() {
        let (here, there) = (Project::new(), Project::new());
        let mut messages = sent(&there, ImportManyRequest::MOST + 1);
        let error = import_many(&here, messages.clone()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.message().contains("65 messages") && error.message().contains("64 are allowed"), "{error}");
        assert_eq!(import(&here, &messages[0]), Imported::New);
        messages.pop();
        assert_eq!(import_many(&here, messages).unwrap().len(), ImportManyRequest::MOST);
        assert_eq!(import_many(&here, Vec::new()).unwrap(), []);
    }

    #[test]
    fn an_answer_finds_what_it_answers_in_the_same_request() {
        let (here, there) = (Project::new(), Project::new());
        let parent = there.send("bob", "task", "ours").message;
        // The id of the parent is taken here, so that what answers it has to mean another one.
        let taken = Message { body: "theirs".into(), ..parent.clone() };
        assert_eq!(import(&here, &taken), Imported::New);
        let mut answer = there.send("carol", "task", "yes").message;
        answer.reply_to = Some(parent.id);
        answer.extra.insert(REPLY_HASH.into(), Value::String(parent.identity().hash.to_string()));
        let verdicts = import_many(&here, vec![parent, answer.clone()]).unwrap();
        let Verdict::Imported(Imported::Relocated(moved)) = verdicts[0] else { panic!("{verdicts:?}") };
        // The fresh id of the parent may be the one that the answer has come with.
        let id = match verdicts[1] {
            Verdict::Imported(Imported::New) => answer.id,
            Verdict::Imported(Imported::Relocated(id)) => id,
            _ => panic!("{verdicts:?}"),
        };
        let query = Query { ids: [id].into(), ..Query::default() };
        let events = block_on_stream(block_on(here.store.scan(query)).unwrap().messages);
        let stored: Vec<Event> = events.map(|event| event.unwrap()).collect();
        let [Event::Message(stored)] = &stored[..] else { panic!("{stored:?}") };
        let stored = &stored.message;
        assert_eq!((stored.reply_to, stored.extra.get(REPLY_HASH)), (Some(moved), None));
    }
}
