//! Taking connections until the program ends.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fmail_api::{Error, Principal, Result, Shutdown};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection::{Limits, Route, Service, serve};

/// How long the connections have to finish what is under way.
const DRAIN: Duration = Duration::from_secs(10);

/// A peer that was let in.
pub struct Accepted<R, W> {
    pub reader: R,
    pub writer: W,
    pub principal: Principal,
}

/// Serves whoever `accept` lets in. Ends when the shutdown has come and the last connection is gone.
pub async fn run<R, W, F>(
    mut accept: impl FnMut() -> F + Send,
    route: Arc<dyn Route>,
    limits: Limits,
    mut shutdown: Shutdown,
) -> Result<()>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = io::Result<Option<Accepted<R, W>>>> + Send,
{
    let (ending, ended) = watch::channel(false);
    let service = Arc::new(Service { route, limits, shutdown: ended });
    let mut connections = JoinSet::new();
    let mut number = 0_u64;
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        match accepted {
            Ok(Some(Accepted { reader, writer, principal })) => {
                number += 1;
                let session = format!("{principal:?}#{number}");
                connections.spawn(serve(service.clone(), reader, writer, principal, session));
            }
            Ok(None) => {}
            // Out of descriptors, or the peer was gone before we looked. Others may be luckier in a moment.
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    // Nobody listens any more when this function's caller drops the listener, which `accept` owns.
    drop(accept);
    ending.send_replace(true);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        return Err(Error::new(
            fmail_api::ErrorKind::Timeout,
            format!("connections did not end within {} s and were cut", DRAIN.as_secs()),
        ));
    }
    Ok(())
}
