//! Taking connections until the program ends.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fmail_api::{Error, Principal, Result, Shutdown};
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::admission::Admission;
use crate::callers::{Caller, OnTheLine};
use crate::connection::{Limits, Route, Service, raised, serve};

/// How long the connections have to finish what is under way.
const DRAIN: Duration = Duration::from_secs(10);

/// Both directions of a connection.
pub type Streams = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

/// A peer that was let in.
pub struct Accepted {
    pub principal: Principal,
    /// The connection, where other machines can call.
    pub caller: Option<Arc<Caller>>,
    /// What has to happen before lines can be read, such as a handshake. It waits for this peer and holds up no other.
    pub opening: BoxFuture<'static, io::Result<Option<Streams>>>,
}

/// Whom to serve, and how.
pub struct Rules {
    pub route: Arc<dyn Route>,
    pub admission: Admission,
    pub limits: Limits,
}

/// Serves whoever `accept` lets in. Ends when the shutdown has come and the last connection is gone.
pub async fn run<F>(mut accept: impl FnMut() -> F + Send, rules: Rules, mut shutdown: Shutdown) -> Result<()>
where
    F: Future<Output = io::Result<Option<Accepted>>> + Send,
{
    let (ending, ended) = watch::channel(false);
    let Rules { route, admission, limits } = rules;
    let service = Arc::new(Service { route, admission, limits, shutdown: ended });
    let mut connections = JoinSet::new();
    let mut number = 0_u64;
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        match accepted {
            Ok(Some(accepted)) => {
                number += 1;
                // Several listeners may serve one project, and a session is the same for nobody else there.
                let number = accepted.caller.as_ref().map_or(number, |caller| caller.number());
                let session = format!("{:?}#{number}", accepted.principal);
                connections.spawn(open_and_serve(service.clone(), accepted, session));
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

async fn open_and_serve(service: Arc<Service>, mut accepted: Accepted, session: String) {
    let mut shutdown = service.shutdown.clone();
    let opened = tokio::select! {
        biased;
        opened = &mut accepted.opening => opened,
        () = raised(&mut shutdown) => return,
    };
    let Accepted { principal, caller, .. } = accepted;
    match opened {
        Ok(Some((reader, writer))) => {
            let _open = caller.clone().map(|caller| OnTheLine::new(caller, session.clone()));
            serve(service, reader, writer, principal, session, caller).await;
        }
        Ok(None) => {}
        Err(error) => {
            if let Some(caller) = caller {
                caller.turned_away(&format!("the connection was not opened: {error}"));
            }
            tracing::debug!(%error, "a connection was not opened");
        }
    }
}
