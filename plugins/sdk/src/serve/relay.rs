//! The methods of a relay.

use std::sync::Arc;

use fmail_abi::{Service, Work};
use fmail_api::Result;
use fmail_api::verbs::{self, method};
use futures::future::{BoxFuture, ready};
use futures::{FutureExt, StreamExt, stream};

use super::{Ending, Items, NOTHING, answering, streaming, unknown};
use crate::instance::{Making, Opened};
use crate::{Host, Manifest, Relay};

/// Opens a relay plugin.
#[doc(hidden)]
pub fn relay<R: Relay>(_: Manifest, host: Host, opening: impl Future<Output = Result<R>> + Send + 'static) -> Making {
    async move {
        let relay = Arc::new(opening.await?);
        Ok(Arc::new(Served { relay, host, ending: Ending::new() }) as Arc<dyn Opened>)
    }
    .boxed()
}

struct Served {
    relay: Arc<dyn Relay>,
    host: Host,
    ending: Ending,
}

impl Opened for Served {
    fn close(&self) -> BoxFuture<'static, Result<()>> {
        self.ending.wish();
        let relay = self.relay.clone();
        async move { relay.close().await }.boxed()
    }
}

impl Service for Served {
    fn call(&self, method: &str, _context: &[u8], _request: &[u8]) -> Work {
        match method {
            method::RUN => {
                let (relay, host, shutdown) = (self.relay.clone(), self.host.clone(), self.ending.shutdown());
                streaming(async move { Ok((NOTHING.to_vec(), running(relay, host, shutdown))) })
            }
            method::SHUTDOWN => {
                self.ending.wish();
                answering(async { Ok(NOTHING.to_vec()) })
            }
            _ => unknown("a relay", method),
        }
    }
}

/// The states of the links, until the relay has ended; then its error, or none.
fn running(relay: Arc<dyn Relay>, host: Host, shutdown: fmail_api::Shutdown) -> Items {
    let states = relay.status().map(|status| Some(Ok(verbs::encode(&status))));
    // The end is an item of its own, because the states may go on for ever.
    let end = async move { relay.run(host, shutdown).await.err().map(Err) }.into_stream();
    let items = stream::select(states, end).take_while(|item| ready(item.is_some()));
    items.filter_map(ready).boxed()
}
