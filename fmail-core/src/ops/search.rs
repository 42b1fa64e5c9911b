//! `search`: messages by what they say.
//!
//! A store with a full-text index is asked for what fits; over any other, every message is read and compared. Either way
//! the newest come first, and looking ends with the first match beyond the limit. Only ids are kept meanwhile, so that
//! many matches, or large ones, cost no memory; the messages are read again when they are delivered.

use std::collections::BTreeSet;

use fmail_api::{
    Context, Event, EventStream, Message, MessageId, Notice, NoticeKind, Order, Query, Reply, Response, Result,
    SearchRequest,
};
use futures::{StreamExt, stream};

use crate::{Operations, SearchQuery};

/// So many stored things that could not be read are told one by one, the rest by their number.
const TOLD: usize = 20;

impl Operations {
    /// The newest messages that fit and that the agent may read, the oldest of them first.
    pub(crate) async fn search(&self, context: &Context, request: SearchRequest) -> Result<Reply> {
        let asked: SearchQuery = request.query.parse()?;
        let limit = request.limit.unwrap_or(usize::MAX);
        let text = self.store.capabilities().filters.text.then(|| asked.to_string());
        // No limit for the store: it would count what the agent may not read.
        let query = Query { since: request.since, text, order: Order::Descending, ..Query::default() };
        let found = self.matching(context, &asked, query, limit).await?;
        let caller = context.clone();
        // Two messages that another program gave one id are asked apart: only one of them may be meant.
        let wanted = move |message: &Message| caller.may_read(message) && asked.matches(message);
        let events = self.delivered(found.ids, wanted).await?;
        let notices = found.notices.into_iter().map(|notice| Ok(Event::Notice(notice)));
        Ok(Reply::streaming(Response::Found { more: found.more }, stream::iter(notices).chain(events).boxed()))
    }

    /// Looks through what the query gives, until there is more than was asked for.
    async fn matching(&self, context: &Context, asked: &SearchQuery, query: Query, limit: usize) -> Result<Matches> {
        let native = query.text.is_some();
        let mut events = self.store.scan(query).await?.messages;
        let mut found = Matches::default();
        while let Some(event) = events.next().await {
            match event? {
                Event::Message(delivery) => {
                    let message = &*delivery.message;
                    if !context.may_read(message) || !(native || asked.matches(message)) {
                        continue;
                    }
                    if found.ids.len() == limit && !found.ids.contains(&message.id) {
                        found.more = true;
                        break;
                    }
                    found.ids.insert(message.id);
                }
                Event::Notice(notice) => found.notice(notice),
                _ => {}
            }
        }
        found.tell_untold();
        Ok(found)
    }

    /// The messages with these ids, the oldest first. What the store has to say about them was told before.
    async fn delivered(
        &self,
        ids: BTreeSet<MessageId>,
        wanted: impl Fn(&Message) -> bool + Send + 'static,
    ) -> Result<EventStream> {
        if ids.is_empty() {
            return Ok(stream::empty().boxed());
        }
        let events = self.store.scan(Query { ids, ..Query::default() }).await?.messages;
        let shown = move |event: &Result<Event>| match event {
            Ok(Event::Message(delivery)) => wanted(&delivery.message),
            Ok(_) => false,
            Err(_) => true,
        };
        Ok(events.filter(move |event| std::future::ready(shown(event))).boxed())
    }
}

/// What was found.
#[derive(Default)]
struct Matches {
    ids: BTreeSet<MessageId>,
    /// There are older ones.
    more: bool,
    notices: Vec<Notice>,
    untold: u64,
}

impl Matches {
    fn notice(&mut self, notice: Notice) {
        if self.notices.len() < TOLD {
            self.notices.push(notice);
        } else {
            self.untold += 1;
        }
    }

    fn tell_untold(&mut self) {
        if self.untold > 0 {
            let text = format!("{} more like this; `fmail quarantine list` shows what is broken", self.untold);
            self.notices.push(Notice::new(NoticeKind::Other, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use fmail_api::*;
    use futures::StreamExt;
    use futures::executor::block_on;
    use futures::stream::BoxStream;
    use serde_json::Value;

    use crate::testing::{Project, bodies, context, take};
    use crate::{Operations, SearchQuery};

    fn search(project: &Project, agent: &str, query: &str, limit: Option<usize>) -> (Vec<String>, bool) {
        let request = SearchRequest { query: query.into(), limit, since: None };
        found(project.call(agent, Request::Search(request)).unwrap())
    }

    fn found(reply: Reply) -> (Vec<String>, bool) {
        let Response::Found { more } = reply.head else { panic!("{:?}", reply.head) };
        (bodies(&take(reply, usize::MAX)).into_iter().map(String::from).collect(), more)
    }

    fn filled() -> Project {
        let project = Project::new();
        project.send("alice", "task", "build one");
        project.send("bob", "@carol", "build in secret");
        project.send("alice", "@bob", "build two");
        project.send("carol", "task", "nothing of the kind");
        project.send("bob", "@carol", "another secret build");
        project
    }

    #[test]
    fn only_what_the_agent_may_read_is_found_and_counted() {
        let project = filled();
        assert_eq!(search(&project, "alice", "build", None), (vec!["build one".into(), "build two".into()], false));
        assert_eq!(search(&project, "dave", "build", None), (vec!["build one".into()], false));
        assert_eq!(search(&project, "carol", "secret", None).0.len(), 2);
        // Two matches that alice may not read stand between and behind hers.
        assert_eq!(search(&project, "alice", "build", Some(2)), (vec!["build one".into(), "build two".into()], false));
        assert_eq!(search(&project, "alice", "build", Some(1)), (vec!["build two".into()], true));
        assert_eq!(search(&project, "alice", "build", Some(0)), (vec![], true));
        assert_eq!(search(&project, "alice", "zebra", Some(0)), (vec![], false));
    }

    #[test]
    fn a_query_that_cannot_be_read_is_refused() {
        let request = SearchRequest { query: "\"open".into(), ..SearchRequest::default() };
        let error = Project::new().call("alice", Request::Search(request)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.help_text().is_some(), "{error:?}");
    }

    /// A store with an index of its own, as far as a search can see.
    struct Indexed(Arc<fmail_backends::MemoryStore>);

    #[async_trait]
    impl Store for Indexed {
        fn capabilities(&self) -> Capabilities {
            let inner = self.0.capabilities();
            Capabilities { filters: Filters { text: true, ..inner.filters }, ..inner }
        }

        async fn scan(&self, query: Query) -> Result<Scan> {
            let asked: Option<SearchQuery> = query.text.as_deref().map(str::parse).transpose()?;
            assert!(asked.is_some() || !query.ids.is_empty(), "what is looked for is in the query");
            assert_eq!(query.limit, None, "a limit would count what the agent may not read");
            let scan = self.0.scan(query).await?;
            let fits = move |event: &Result<Event>| match (event, &asked) {
                (Ok(Event::Message(delivery)), Some(asked)) => asked.matches(&delivery.message),
                _ => true,
            };
            let messages = scan.messages.filter(move |event| std::future::ready(fits(event))).boxed();
            Ok(Scan { messages, ..scan })
        }

        async fn append(&self, draft: Draft) -> Result<Appended> {
            self.0.append(draft).await
        }
        async fn import(&self, message: Message) -> Result<Imported> {
            self.0.import(message).await
        }
        async fn watch(&self, query: Query, from: Cursor) -> Result<EventStream> {
            self.0.watch(query, from).await
        }
        async fn remove(&self, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
            self.0.remove(selection).await
        }
        async fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
            self.0.get(key).await
        }
        async fn put(&self, key: &RecordKey, expect: Expect, value: Value, durable: bool) -> Result<Revision> {
            self.0.put(key, expect, value, durable).await
        }
        async fn list(&self, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
            self.0.list(prefix).await
        }
        async fn delete(&self, key: &RecordKey, expect: Expect) -> Result<()> {
            self.0.delete(key, expect).await
        }
        async fn health(&self) -> Result<Health> {
            self.0.health().await
        }
    }

    #[test]
    fn a_store_that_searches_itself_gives_the_same_answers() {
        let project = filled();
        let native = Operations::new(Arc::new(Indexed(project.store.clone())), project.clock.clone());
        for agent in ["alice", "bob", "carol", "dave"] {
            for query in ["build", "from:bob", "secret NOT another", "kind OR two", "zebra"] {
                for limit in [None, Some(0), Some(1), Some(2), Some(9)] {
                    let request = SearchRequest { query: query.into(), limit, since: None };
                    let reply = block_on(native.call(&context(agent), Request::Search(request))).unwrap();
                    assert_eq!(found(reply), search(&project, agent, query, limit), "{agent}: {query} {limit:?}");
                }
            }
        }
    }
}
