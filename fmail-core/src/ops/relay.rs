//! `relay`: everything there is, for a peer.

use std::sync::Arc;

use fmail_api::{Delivery, Event, Query, RelayRequest, Reply, Result};
use futures::StreamExt;

use crate::Operations;
use crate::exchange::origin_form_at_once;

impl Operations {
    /// Every topic and every mailbox, in the form in which messages travel. What the peer is known to have is left out. Who
    /// may ask is decided where the request comes in, by who the caller has proved to be.
    pub(crate) async fn relay(&self, request: RelayRequest) -> Result<Reply> {
        let (head, events) = self.stream(Query { since: request.since, ..Query::default() }).await?;
        let (exchange, to) = (self.exchange.clone(), request.to);
        let host = self.node.as_ref().map(|node| node.host.clone());
        let events = events.filter_map(move |event| {
            let (exchange, host) = (exchange.clone(), host.clone());
            async move {
                let delivery = match event {
                    Ok(Event::Message(delivery)) => delivery,
                    other => return Some(other),
                };
                if to.is_some_and(|run| exchange.has(&delivery.message, run)) {
                    return None;
                }
                // Only our own peers know what the hashes are for. Only what has to be looked up costs a step onto a thread
                // that may wait.
                let (message, hashes) = (&delivery.message, to.is_some());
                let origin = match origin_form_at_once(message, host.as_ref(), hashes) {
                    Some(origin) => Ok(origin),
                    None => {
                        let (message, elsewhere) = (message.clone(), exchange.elsewhere.clone());
                        let asked = async move { exchange.origin_form(message, host.as_ref(), hashes).await };
                        elsewhere.run(asked).await
                    }
                };
                Some(origin.map(|origin| match Arc::ptr_eq(&origin, &delivery.message) {
                    // As it is stored, with the text that others may have made of it already.
                    true => Event::Message(delivery),
                    false => Event::Message(Delivery::new(origin, delivery.cursor.clone())),
                }))
            }
        });
        Ok(Reply::streaming(head, events.boxed()))
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
