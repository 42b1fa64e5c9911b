//! The methods of each kind of plugin, as calls of its trait.

mod log;
mod mailbox;
mod relay;
mod store;
mod transport;

use std::sync::Mutex;

use fmail_abi::{Answer, Work};
use fmail_api::{Error, Result, Shutdown, verbs};
use futures::future::Shared;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryFutureExt};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

pub use log::log;
pub use relay::relay;
pub use store::store;
pub use transport::transport;

/// The answer to streams that have nothing to say before their first item, and to methods that just succeed.
const NOTHING: &[u8] = b"{}";

/// Work that gives one answer.
fn answering(work: impl Future<Output = Result<Vec<u8>>> + Send + 'static) -> Work {
    Work::Answer(work.map(Answer::from).boxed())
}

/// Work that failed before it began.
fn refused(error: Error) -> Work {
    Work::Answer(futures::future::ready(Answer::from(error)).boxed())
}

/// What follows the head of a stream.
type Items = BoxStream<'static, Result<Vec<u8>>>;

/// Work that streams: a head, then items.
fn streaming(opening: impl Future<Output = Result<(Vec<u8>, Items)>> + Send + 'static) -> Work {
    let stream = opening
        .map_ok(|(head, items)| stream::once(futures::future::ready(Ok(head))).chain(items))
        .try_flatten_stream()
        .map(|item| item.map_err(Answer::from));
    Work::Stream(stream.boxed())
}

/// Reads what the host asks; one that cannot be understood is the host's mistake.
fn asked<T: DeserializeOwned>(method: &str, request: &[u8]) -> Result<T> {
    verbs::decode(&format!("the request of {method}"), request).map_err(|error| Error::invalid(error.message()))
}

fn unknown(kind: &str, method: &str) -> Work {
    refused(Error::new(fmail_api::ErrorKind::Unsupported, format!("{kind} has no method {method:?}")))
}

/// The wish of the host that something end.
struct Ending {
    wish: Mutex<Option<oneshot::Sender<()>>>,
    wished: Shared<futures::future::BoxFuture<'static, ()>>,
}

impl Ending {
    fn new() -> Self {
        let (wish, wished) = oneshot::channel::<()>();
        // Dropped without a wish, the instance is gone: that ends everything as well.
        let wished = wished.map(drop).boxed().shared();
        Ending { wish: Mutex::new(Some(wish)), wished }
    }

    fn shutdown(&self) -> Shutdown {
        self.wished.clone().boxed()
    }

    fn wish(&self) {
        let wish = self.wish.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(wish) = wish {
            // Nobody may be there to hear it.
            let _ = wish.send(());
        }
    }
}
