//! `relay`: everything there is, for a peer.

use std::sync::Arc;

use fmail_api::{Delivery, Event, Message, Query, RelayRequest, Reply, Result};
use futures::StreamExt;

use crate::Operations;

impl Operations {
    /// Every topic and every mailbox. Who may ask is decided where the request comes in, by who the caller has proved
    /// to be.
    pub(crate) async fn relay(&self, request: RelayRequest) -> Result<Reply> {
        let (head, events) = self.stream(Query { since: request.since, ..Query::default() }).await?;
        Ok(Reply::streaming(head, events.map(|event| event.map(in_origin_form)).boxed()))
    }
}

/// A peer knows a message by the id that it had where it was first stored.
fn in_origin_form(event: Event) -> Event {
    match event {
        Event::Message(delivery) if delivery.message.origin_id.is_some() => {
            let mut origin = Message::clone(&delivery.message);
            origin.id = origin.origin_id.take().unwrap_or(origin.id);
            Event::Message(Delivery::new(Arc::new(origin), delivery.cursor))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use fmail_api::{Imported, RelayRequest, Request, Since, Store};
    use futures::executor::block_on;

    use crate::testing::{Project, bodies, take};

    #[test]
    fn a_peer_gets_every_mailbox_and_every_topic() {
        let project = Project::new();
        let first = project.send("bob", "task", "one").message.id;
        project.send("bob", "@carol", "two");
        let since = Some(Since::Id(first));
        let reply = project.call("peer", Request::Relay(RelayRequest { since, to: None })).unwrap();
        project.send("bob", "@dave", "three");
        assert_eq!(bodies(&take(reply, 2)), ["two", "three"]);
    }

    #[test]
    fn a_peer_sees_the_id_that_the_message_was_born_with() {
        let project = Project::new();
        let local = project.send("bob", "task", "ours").message;
        let reply = project.call("peer", Request::Relay(RelayRequest::default())).unwrap();
        let mut foreign = local.clone();
        foreign.body = "theirs".into();
        assert!(matches!(block_on(project.store.import(foreign)).unwrap(), Imported::Relocated(_)));
        let seen = take(reply, 1);
        assert_eq!((seen[0].id, seen[0].origin_id), (local.id, None));
    }
}
