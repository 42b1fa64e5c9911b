//! `log`: what is stored, the newest of it, and on request what follows.

use fmail_api::{Context, ErrorKind, EventStream, LogRequest, Order, Query, Reply, Response, Result, Scan, Since};
use futures::StreamExt;

use crate::{Operations, access};

impl Operations {
    pub(crate) async fn log(&self, context: &Context, request: LogRequest) -> Result<Reply> {
        let query = Query {
            scope: access::scope(&context.agent, request.target, request.allow_other_dm)?,
            from: request.from,
            since: request.since,
            limit: request.limit,
            order: Order::Ascending,
            ..Query::default()
        };
        if !request.follow {
            let scan = self.store.scan(query).await?;
            return Ok(Reply::streaming(Response::Log { more: scan.more }, scan.messages));
        }
        let (scan, live) = self.scan_and_watch(query.clone(), query).await?;
        Ok(Reply::streaming(Response::Log { more: scan.more }, scan.messages.chain(live).boxed()))
    }

    /// What is stored, and what arrives behind it.
    ///
    /// The place between the two becomes unknown when the index is rebuilt just then. Nobody has seen it, so it is taken
    /// anew. A cursor that the caller brought is refused by the scan, each time.
    pub(super) async fn scan_and_watch(&self, stored: Query, watched: Query) -> Result<(Scan, EventStream)> {
        let watched = arriving(watched);
        let mut tries = 0;
        loop {
            let scan = self.store.scan(stored.clone()).await?;
            match self.store.watch(watched.clone(), scan.cursor.clone()).await {
                Err(error) if error.kind() == ErrorKind::Expired && tries < TRIES => tries += 1,
                live => return Ok((scan, live?)),
            }
        }
    }
}

/// How often a place is taken anew. A rebuild takes longer than this; several in a row are something else.
const TRIES: u32 = 10;

/// The query for what arrives behind a scan. A place in the order of arrival lies behind it already; a time still
/// filters, since a message from elsewhere can arrive with an old one.
fn arriving(query: Query) -> Query {
    let since = query.since.filter(|since| matches!(since, Since::Time(_)));
    Query { since, limit: None, order: Order::Arrival, ..query }
}

#[cfg(test)]
mod tests {
    use fmail_api::{ErrorKind, LogRequest, Reply, Request, Response, Result, Since};

    use crate::testing::{Project, bodies, take};

    fn log(project: &Project, request: LogRequest) -> Result<Reply> {
        project.call("alice", Request::Log(request))
    }

    fn all(project: &Project, request: LogRequest) -> Vec<String> {
        let messages = take(log(project, request).unwrap(), usize::MAX);
        bodies(&messages).into_iter().map(String::from).collect()
    }

    #[test]
    fn without_a_target_it_shows_topics_and_the_own_mailbox_only() {
        let project = Project::new();
        project.send("bob", "task", "topic");
        project.send("bob", "@alice", "mine");
        project.send("bob", "@carol", "hers");
        assert_eq!(all(&project, LogRequest::default()), ["topic", "mine"]);
    }

    #[test]
    fn the_newest_come_oldest_first_and_more_is_told() {
        let project = Project::new();
        for body in ["one", "two", "three"] {
            project.send("bob", "task", body);
        }
        let request = LogRequest { limit: Some(2), ..LogRequest::default() };
        let reply = log(&project, request.clone()).unwrap();
        assert_eq!(reply.head, Response::Log { more: true });
        assert_eq!(all(&project, request), ["two", "three"]);
        let reply = log(&project, LogRequest { limit: Some(3), ..LogRequest::default() }).unwrap();
        assert_eq!(reply.head, Response::Log { more: false });
    }

    #[test]
    fn another_mailbox_is_denied_unless_allowed() {
        let project = Project::new();
        project.send("bob", "@carol", "hers");
        let mut request = LogRequest { target: Some("@carol".parse().unwrap()), ..LogRequest::default() };
        assert_eq!(log(&project, request.clone()).err().unwrap().kind(), ErrorKind::Denied);
        request.allow_other_dm = true;
        assert_eq!(all(&project, request), ["hers"]);
    }

    #[test]
    fn sender_and_id_filter() {
        let project = Project::new();
        let first = project.send("bob", "task", "one").message.id;
        project.send("carol", "task", "two");
        project.send("bob", "task", "three");
        let from = LogRequest { from: Some("bob".parse().unwrap()), ..LogRequest::default() };
        assert_eq!(all(&project, from), ["one", "three"]);
        let since = LogRequest { since: Some(Since::Id(first)), ..LogRequest::default() };
        assert_eq!(all(&project, since), ["two", "three"]);
    }

    #[test]
    fn following_neither_loses_nor_doubles() {
        let project = Project::new();
        let first = project.send("bob", "task", "one").message.id;
        project.send("bob", "task", "two");
        let request = LogRequest { follow: true, since: Some(Since::Id(first)), ..LogRequest::default() };
        let reply = log(&project, request).unwrap();
        project.send("bob", "@carol", "not for us");
        project.send("bob", "task", "three");
        project.send("bob", "@alice", "four");
        assert_eq!(bodies(&take(reply, 3)), ["two", "three", "four"]);
    }
}
