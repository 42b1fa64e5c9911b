//! `read` and `peek`: messages by their ids.

use std::collections::BTreeSet;
use std::sync::Arc;

use fmail_api::{Context, Error, Event, Mail, MailState, Mark, Message, ReadRequest, Reply, Response, Result};
use futures::{StreamExt, stream};

use super::mark::transition;
use crate::Operations;
use crate::mailbox::{Change, Mailbox, Shelf, shelf_of};

impl Operations {
    /// The messages, in the order that was asked for. What is in the agent's own mailbox or in a topic becomes read,
    /// unless it only peeks; what it sent to others is shown and nothing else.
    ///
    /// All of them are found before any becomes read: one wrong id changes nothing.
    pub(crate) async fn read(&self, context: &Context, request: ReadRequest) -> Result<Reply> {
        if request.ids.is_empty() {
            return Err(Error::invalid("no message is named").help("give the id of a message, or the end of it"));
        }
        if let Some(delegated) = self.delegated(context) {
            return delegated.read(&request).await;
        }
        let mut messages = Vec::new();
        for text in &request.ids {
            messages.push(self.find(context, text).await?);
        }
        let mut mail = Vec::new();
        for message in messages {
            mail.push(Ok(Event::Mail(Box::new(self.read_one(context, message, &request).await?))));
        }
        Ok(Reply::streaming(Response::Mail { more: 0 }, stream::iter(mail).boxed()))
    }

    async fn read_one(&self, context: &Context, message: Arc<Message>, request: &ReadRequest) -> Result<Mail> {
        let now = self.moment();
        let mailbox = Mailbox::new(&*self.store, &context.agent, now);
        let ids = BTreeSet::from([message.id]);
        let shelf = shelf_of(&context.agent, &message);
        let state = match shelf {
            None => MailState::default(),
            Some(shelf) if request.peek => {
                mailbox.states_on(shelf, &ids).await?.remove(&message.id).unwrap_or_default()
            }
            Some(shelf) => {
                let token = request.token.as_deref();
                let change = |id, state: &MailState| transition(Mark::Read, id, state, token, now);
                let change = Change { counts: true, durable: true, change: &change };
                let changed = mailbox.change(shelf, &ids, change).await?.remove(&message.id);
                changed.ok_or_else(|| Error::internal("the message has no verdict"))??.1
            }
        };
        let standing = (shelf == Some(Shelf::Mailbox)).then(|| state.standing(message.expires, now));
        Ok(Mail { message, state, standing })
    }
}
