//! Which message is meant: by its whole id, by the end of it, or by its number.

use std::sync::Arc;

use fmail_api::{Context, Error, ErrorKind, Event, Message, MessageId, Order, Query, Result};
use futures::StreamExt;

use crate::Operations;

/// How many digits stand behind the last hyphen of an id.
const LAST_PART: usize = 4;
/// How many candidates an error lists.
const SHOWN: usize = 10;

/// What a text was found to mean.
pub(crate) enum Found {
    /// A message that is here.
    Message(Arc<Message>),
    /// A well-formed id that no message has that the agent may read.
    Nothing(MessageId),
}

impl Operations {
    /// The message that the caller means by `text`, among those that it may read.
    pub(crate) async fn find(&self, context: &Context, text: &str) -> Result<Arc<Message>> {
        match self.look_for(context, text).await? {
            Found::Message(message) => Ok(message),
            Found::Nothing(id) => Err(Error::not_found(format!("no message that you can read has the id {id}"))
                .help("`fmail log` and `fmail inbox --all` show the ids")),
        }
    }

    /// The same, for callers that can do with an id that is not here.
    pub(crate) async fn look_for(&self, context: &Context, text: &str) -> Result<Found> {
        let text = text.trim();
        let (whole, number) = (text.parse::<MessageId>(), numbered(text));
        let query = match (&whole, number) {
            (Ok(id), _) => Query { ids: [*id].into(), ..Query::default() },
            (Err(_), Some(id)) => Query { ids: [id].into(), ..Query::default() },
            (Err(_), None) if is_short_form(text) => {
                Query { id_suffix: Some(text.into()), order: Order::Descending, ..Query::default() }
            }
            (Err(error), None) => return Err(error.clone()),
        };
        // A number that no message has is no id of one that is elsewhere: it is more likely a typing error.
        let whole = whole.ok();
        let found = self.readable(context, query).await?;
        match (found.as_slice(), whole) {
            ([only], _) => Ok(Found::Message(only.clone())),
            ([], Some(id)) => Ok(Found::Nothing(id)),
            ([], None) => {
                Err(Error::not_found(format!("no message that you can read has an id that ends in `{text}`"))
                    .help("`fmail log` shows the ids"))
            }
            (several, _) => Err(ambiguous(text, several)),
        }
    }

    /// Messages that fit the query and that the caller may read; one more than is shown, to know that there are more.
    async fn readable(&self, context: &Context, query: Query) -> Result<Vec<Arc<Message>>> {
        let mut found = Vec::new();
        let mut messages = self.store.scan(query).await?.messages;
        while let Some(event) = messages.next().await {
            let Event::Message(delivery) = event? else { continue };
            if context.may_read(&delivery.message) {
                found.push(delivery.message.clone());
            }
            if found.len() > SHOWN {
                break;
            }
        }
        Ok(found)
    }
}

/// The message with this number, by which clients of MCP know it. Digits alone that could be the end of an id are none.
fn numbered(text: &str) -> Option<MessageId> {
    let digits = text.len() > LAST_PART && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).and_then(MessageId::from_number)
}

/// Digits and hyphens, fewer than an id has. Anything else is a mistake and not a search.
fn is_short_form(text: &str) -> bool {
    (1..20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

fn ambiguous(text: &str, found: &[Arc<Message>]) -> Error {
    let list: Vec<String> = found
        .iter()
        .take(SHOWN)
        .map(|message| format!("{} ({} -> {})", message.id, message.from, message.to))
        .collect();
    let more = if found.len() > SHOWN { ", and more" } else { "" };
    let error =
        Error::new(ErrorKind::Conflict, format!("`{text}` fits more than one message: {}{more}", list.join(", ")));
    if found.iter().all(|message| message.id == found[0].id) {
        error.help("these files share one id; move one of them away to reply to the other")
    } else {
        error.help("write more of the id")
    }
}
