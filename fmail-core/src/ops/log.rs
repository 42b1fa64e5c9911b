//! `log`: what is stored, the newest of it, and on request what follows.

use fmail_api::{Context, LogRequest, Order, Query, Reply, Response, Result, Since};
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
        let scan = self.store.scan(query.clone()).await?;
        let head = Response::Log { more: scan.more };
        if !request.follow {
            return Ok(Reply::streaming(head, scan.messages));
        }
        let live = self.store.watch(arriving(query), scan.cursor).await?;
        Ok(Reply::streaming(head, scan.messages.chain(live).boxed()))
    }
}

/// The query for what arrives behind a scan. A place in the order of arrival lies behind it already; a time still
/// filters, since a message from elsewhere can arrive with an old one.
pub(super) fn arriving(query: Query) -> Query {
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
