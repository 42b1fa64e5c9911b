//! The methods of a transport.

use std::sync::Arc;

use fmail_abi::{Answer, Service, Work};
use fmail_api::verbs::{self, method};
use fmail_api::{Error, Result};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryFutureExt, stream};

use super::{Ending, Items, NOTHING, answering, refused, streaming, unknown};
use crate::instance::{Making, Opened};
use crate::{Caller, Host, Manifest, Reply, Transport};

/// Opens a transport plugin.
#[doc(hidden)]
pub fn transport<T: Transport>(
    _: Manifest,
    host: Host,
    opening: impl Future<Output = Result<T>> + Send + 'static,
) -> Making {
    async move {
        let transport = Arc::new(opening.await?);
        Ok(Arc::new(Served { transport, host, ending: Ending::new() }) as Arc<dyn Opened>)
    }
    .boxed()
}

struct Served {
    transport: Arc<dyn Transport>,
    host: Host,
    ending: Ending,
}

impl Opened for Served {
    fn close(&self) -> BoxFuture<'static, Result<()>> {
        self.ending.wish();
        let transport = self.transport.clone();
        async move { transport.close().await }.boxed()
    }
}

impl Service for Served {
    fn call(&self, method: &str, context: &[u8], request: &[u8]) -> Work {
        let transport = self.transport.clone();
        match method {
            method::SERVE => {
                let (host, shutdown) = (self.host.clone(), self.ending.shutdown());
                streaming(async move {
                    let listening = transport.serve(host, shutdown).await?;
                    let head = verbs::encode(&serde_json::json!({ "endpoint": listening.endpoint }));
                    // Nothing but the end follows: an error, or none.
                    let end = listening.finished.into_stream().filter_map(|end| async { end.err().map(Err) });
                    Ok((head, end.boxed() as Items))
                })
            }
            method::SHUTDOWN => {
                self.ending.wish();
                answering(async { Ok(NOTHING.to_vec()) })
            }
            method::REQUEST => request_work(transport, context, request).unwrap_or_else(refused),
            _ => unknown("a transport", method),
        }
    }
}

fn request_work(transport: Arc<dyn Transport>, context: &[u8], request: &[u8]) -> Result<Work> {
    let caller = Caller::from_context(context)?;
    let request = std::str::from_utf8(request)
        .map_err(|error| Error::invalid(format!("the request is not UTF-8: {error}")))?
        .to_owned();
    let reply = async move { transport.request(caller, request).await.map_err(Answer::from) };
    let stream = reply.map_ok(replying).try_flatten_stream();
    Ok(Work::Stream(stream.boxed()))
}

/// A plain answer is the answer of the call; one that a stream follows is its head.
fn replying(reply: Reply) -> stream::BoxStream<'static, Result<Vec<u8>, Answer>> {
    let head = reply.head.into_bytes();
    match reply.events {
        None => stream::iter([Err(Answer::ok(head))]).boxed(),
        Some(events) => {
            let events = events.map(|event| event.map(String::into_bytes).map_err(Answer::from));
            stream::iter([Ok(head)]).chain(events).boxed()
        }
    }
}
