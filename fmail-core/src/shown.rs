//! Messages as agents see them.
//!
//! A message that came before what it mentions calls that by what other hosts call it (`exchange/origin.rs`). Here, on the
//! way to whoever asked, that becomes what it is called in this project. Every operation passes through this but those of
//! relays, so that no command shows what another one hides.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use fmail_api::{Delivery, Event, EventStream, Mail, Message, Reply, Result};
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};

use crate::exchange::{Exchange, is_shown_as_it_is};

/// The answer with its messages as agents see them.
pub(crate) fn shown(mut reply: Reply, exchange: &Arc<Exchange>) -> Reply {
    let exchange = exchange.clone();
    reply.events = reply.events.map(|events| Shown { events, exchange, under_way: None }.boxed());
    reply
}

/// Events, of which nearly all pass as they are, at no cost.
struct Shown {
    events: EventStream,
    exchange: Arc<Exchange>,
    under_way: Option<BoxFuture<'static, Result<Event>>>,
}

impl Shown {
    fn translated(
        &self,
        message: Arc<Message>,
        with: impl FnOnce(Arc<Message>) -> Event + Send + 'static,
    ) -> BoxFuture<'static, Result<Event>> {
        let (exchange, elsewhere) = (self.exchange.clone(), self.exchange.elsewhere.clone());
        async move { elsewhere.run(async move { exchange.as_shown(message).await }).await.map(with) }.boxed()
    }
}

impl Stream for Shown {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.under_way.is_none() {
            let event = ready!(self.events.poll_next_unpin(task));
            let translated = match event {
                Some(Ok(Event::Message(delivery))) if !is_shown_as_it_is(&delivery.message) => {
                    let (message, cursor) = (delivery.message.clone(), delivery.cursor.clone());
                    self.translated(message, |message| Event::Message(Delivery::new(message, cursor)))
                }
                Some(Ok(Event::Mail(mail))) if !is_shown_as_it_is(&mail.message) => {
                    let Mail { message, state, standing } = *mail;
                    self.translated(message, move |message| Event::Mail(Box::new(Mail { message, state, standing })))
                }
                other => return Poll::Ready(other),
            };
            self.under_way = Some(translated);
        }
        let Some(under_way) = self.under_way.as_mut() else { return Poll::Pending };
        let event = ready!(under_way.poll_unpin(task));
        self.under_way = None;
        Poll::Ready(Some(event))
    }
}
