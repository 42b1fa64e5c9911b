//! `watch`: what arrives, from now on or since a point in the past.

use fmail_api::{
    Context, ErrorKind, Event, EventStream, Notice, NoticeKind, Order, Query, Reply, Response, Result, WatchRequest,
};
use futures::{StreamExt, stream};

use crate::{Operations, access};

impl Operations {
    pub(crate) async fn watch(&self, context: &Context, request: WatchRequest) -> Result<Reply> {
        if context.overview && request.target.is_none() {
            // Whoever acts for everybody sees everything, and is nobody who could be seen or nudged.
            let (head, events) = self.stream(Query { since: request.since, ..Query::default() }).await?;
            return Ok(Reply::streaming(head, events));
        }
        let scope = access::scope(&context.agent, request.target, request.allow_other_dm)?;
        let query = Query { scope, since: request.since, ..Query::default() };
        let (head, events) = self.stream(query).await?;
        let events = self.nudges.with(&context.agent, events);
        // The place to start from is taken first: what arrives while the record is written is not missed.
        let notice = self.touch(context).await.err().filter(|error| error.kind() != ErrorKind::Denied);
        let Some(error) = notice else { return Ok(Reply::streaming(head, events)) };
        let text = format!("the record of `{}` was not kept up to date: {error}", context.agent);
        let first = stream::iter([Ok(Event::Notice(Notice::new(NoticeKind::Other, text)))]);
        Ok(Reply::streaming(head, first.chain(events).boxed()))
    }

    /// Everything that fits the query and arrives from now on; what is stored since its `since` comes first.
    ///
    /// Both parts follow arrival, and the second starts at the cursor of the first, so there is nothing to deduplicate.
    pub(super) async fn stream(&self, query: Query) -> Result<(Response, EventStream)> {
        // Without a `since` the scan is asked for nothing but the cursor of the end. In order of arrival a limit would
        // keep the first and put the cursor behind those; by id it keeps the newest, so none at all means the end.
        let (order, limit) = if query.since.is_some() { (Order::Arrival, None) } else { (Order::Descending, Some(0)) };
        let (scan, live) = self.scan_and_watch(Query { order, limit, ..query.clone() }, query).await?;
        let head = Response::Watching(scan.cursor);
        Ok((head, if limit.is_none() { scan.messages.chain(live).boxed() } else { live }))
    }
}

#[cfg(test)]
mod tests {
    use fmail_api::{Client, Context, ErrorKind, RecordKey, Reply, Request, Since, Store, WatchRequest};
    use futures::executor::block_on;

    use crate::testing::{Project, bodies, context, take};

    fn watch(project: &Project, request: WatchRequest) -> Reply {
        project.call("alice", Request::Watch(request)).unwrap()
    }

    #[test]
    fn it_starts_at_the_end() {
        let project = Project::new();
        project.send("bob", "task", "before");
        let reply = watch(&project, WatchRequest::default());
        project.send("bob", "@carol", "not for us");
        project.send("bob", "task", "after");
        assert_eq!(bodies(&take(reply, 1)), ["after"]);
    }

    #[test]
    fn with_a_since_what_is_stored_comes_first() {
        let project = Project::new();
        let first = project.send("bob", "task", "one").message.id;
        project.send("bob", "task", "two");
        let reply = watch(&project, WatchRequest { since: Some(Since::Id(first)), ..WatchRequest::default() });
        project.send("bob", "task", "three");
        assert_eq!(bodies(&take(reply, 2)), ["two", "three"]);
    }

    #[test]
    fn another_mailbox_is_denied_unless_allowed() {
        let project = Project::new();
        let mut request = WatchRequest { target: Some("@carol".parse().unwrap()), ..WatchRequest::default() };
        let denied = project.call("alice", Request::Watch(request.clone())).err().unwrap();
        assert_eq!(denied.kind(), ErrorKind::Denied);
        request.allow_other_dm = true;
        let reply = watch(&project, request);
        project.send("bob", "@carol", "hers");
        assert_eq!(bodies(&take(reply, 1)), ["hers"]);
    }

    #[test]
    fn who_acts_for_everybody_watches_every_mailbox_and_is_not_seen() {
        let project = Project::new();
        project.create();
        let everybody = Context { overview: true, ..context("mcp") };
        let reply = block_on(project.operations.call(&everybody, Request::Watch(WatchRequest::default()))).unwrap();
        project.send("bob", "@carol", "hers");
        project.send("bob", "task", "everyone's");
        assert_eq!(bodies(&take(reply, 2)), ["hers", "everyone's"]);
        assert!(block_on(project.store.get(&RecordKey::agent(&"mcp".parse().unwrap()))).unwrap().is_none());
    }

    #[test]
    fn a_watching_agent_is_seen() {
        let project = Project::new();
        project.create();
        let _reply = watch(&project, WatchRequest::default());
        assert!(block_on(project.store.get(&RecordKey::agent(&"alice".parse().unwrap()))).unwrap().is_some());
    }
}
