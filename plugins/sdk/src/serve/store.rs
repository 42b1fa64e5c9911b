//! The methods of a store.

use std::sync::Arc;

use fmail_abi::{Service, Work};
use fmail_api::verbs::{self, AppendAnswer, DeleteVerb, GetAnswer, GetVerb, ListItem, ListVerb, PutAnswer, PutVerb};
use fmail_api::verbs::{ScanHead, WatchVerb, method};
use fmail_api::{Error, Event, Result, Store};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

use super::{Items, NOTHING, answering, asked, mailbox, refused, streaming};
use crate::instance::{Making, Opened};
use crate::{Host, Manifest};

/// Opens a store plugin.
#[doc(hidden)]
pub fn store<S: Store + 'static>(
    manifest: Manifest,
    _: Host,
    opening: impl Future<Output = Result<S>> + Send + 'static,
) -> Making {
    async move {
        let store = opening.await?;
        check(&manifest, &store)?;
        Ok(Arc::new(Served(Arc::new(store))) as Arc<dyn Opened>)
    }
    .boxed()
}

/// The host believes the manifest; a store that says otherwise would be used for what it cannot do.
fn check(manifest: &Manifest, store: &dyn Store) -> Result<()> {
    let can = store.capabilities();
    let filters = can.filters;
    let pairs = [
        ("shared", can.shared),
        ("durable", can.durable),
        ("import", can.import),
        ("remove", can.remove),
        ("direct-only", !can.topics),
        ("filter.scope", filters.scope),
        ("filter.ids", filters.ids),
        ("filter.from", filters.from),
        ("filter.thread", filters.thread),
        ("filter.time", filters.time),
        ("filter.limit", filters.limit),
        ("filter.order", filters.order),
        ("filter.text", filters.text),
    ];
    super::log::agree(manifest, &pairs, "Store::capabilities")?;
    super::log::agree(manifest, &[("mailbox", store.mailbox().is_some())], "Store::mailbox().is_some()")
}

struct Served(Arc<dyn Store>);

impl Opened for Served {
    fn close(&self) -> BoxFuture<'static, Result<()>> {
        let store = self.0.clone();
        async move { store.close().await }.boxed()
    }
}

impl Service for Served {
    fn call(&self, method: &str, _context: &[u8], request: &[u8]) -> Work {
        begin(self.0.clone(), method, request).unwrap_or_else(refused)
    }
}

fn begin(store: Arc<dyn Store>, method: &str, request: &[u8]) -> Result<Work> {
    Ok(match method {
        method::APPEND => {
            let draft = asked(method, request)?;
            answering(async move {
                let done = store.append(draft).await?;
                let (message, duplicate, not_durable) = (done.message, done.duplicate, done.not_durable);
                Ok(verbs::encode(&AppendAnswer { message, duplicate, not_durable }))
            })
        }
        method::IMPORT => {
            let message = asked(method, request)?;
            answering(async move { Ok(verbs::encode(&store.import(message).await?)) })
        }
        method::SUMMARY => {
            let query = asked(method, request)?;
            answering(async move { Ok(verbs::encode(&store.summary(query).await?)) })
        }
        method::GET => {
            let GetVerb { key } = asked(method, request)?;
            answering(async move { Ok(verbs::encode(&GetAnswer { record: store.get(&key).await? })) })
        }
        method::PUT => {
            let PutVerb { key, expect, value, durable } = asked(method, request)?;
            answering(async move {
                let revision = store.put(&key, expect, value, durable).await?;
                Ok(verbs::encode(&PutAnswer { revision }))
            })
        }
        method::DELETE => {
            let DeleteVerb { key, expect } = asked(method, request)?;
            answering(async move { store.delete(&key, expect).await.map(|()| NOTHING.to_vec()) })
        }
        method::HEALTH => answering(async move { Ok(verbs::encode(&store.health().await?)) }),
        _ => return begin_stream(store, method, request),
    })
}

fn begin_stream(store: Arc<dyn Store>, method: &str, request: &[u8]) -> Result<Work> {
    Ok(match method {
        method::SCAN => {
            let query = asked(method, request)?;
            streaming(async move {
                let scan = store.scan(query).await?;
                let head = verbs::encode(&ScanHead { cursor: scan.cursor, more: scan.more });
                Ok((head, scan.messages.map(event).boxed()))
            })
        }
        method::WATCH => {
            let WatchVerb { query, from } = asked(method, request)?;
            streaming(async move { Ok((NOTHING.to_vec(), store.watch(query, from).await?.map(event).boxed())) })
        }
        method::REMOVE => {
            let selection = asked(method, request)?;
            streaming(async move {
                let removed = store.remove(selection).await?;
                let items: Items = removed.map(|item| item.map(|item| verbs::encode(&item))).boxed();
                Ok((NOTHING.to_vec(), items))
            })
        }
        method::LIST => {
            let ListVerb { prefix } = asked(method, request)?;
            streaming(async move {
                let records = store.list(&prefix).await?;
                let item = |item: Result<_>| verbs::encode(&item.map_or_else(ListItem::Error, ListItem::Record));
                Ok((NOTHING.to_vec(), records.map(move |record| Ok(item(record))).boxed()))
            })
        }
        _ => return mailbox::begin(store, method, request),
    })
}

fn event(event: Result<Event>) -> Result<Vec<u8>> {
    let event = event?;
    let json = verbs::event_json(&event)
        .ok_or_else(|| Error::internal(format!("the store delivered an event that stores do not have: {event:?}")))?;
    Ok(json.into_bytes())
}
