//! Listening where invited hosts were told to connect.
//!
//! Beside the listener of `mail.tcp`, which is for agents: here TLS is spoken always, and nobody is heard who has not proved
//! the key of a pairing.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use fmail_api::{Clock, Error, Host, Result, Shutdown, Transport};
use fmail_host::SystemClock;
use fmail_host::pairing::Side;
use fmail_transports::{Callers, Limits, TcpTransport, TlsServer};
use futures::FutureExt;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::Paired;

/// When to try again to listen on an address that was taken, and to see what has expired.
const AGAIN: Duration = Duration::from_secs(5);

/// How long an address stays open that no pairing needs any more.
const LINGER: Duration = Duration::from_secs(30);

/// An address that is listened on, until this is dropped.
struct Open {
    _close: oneshot::Sender<()>,
    /// Since when no pairing needs it.
    unwanted: Option<Instant>,
}

impl Paired {
    /// Listens on the addresses of all invitations, as they come and go, until the shutdown.
    pub async fn listen(
        self: Arc<Self>,
        limits: Limits,
        callers: Arc<Callers>,
        host: Arc<dyn Host>,
        shutdown: Shutdown,
    ) -> Result<()> {
        let mut known = self.known.subscribe();
        let (mut open, mut running) = (HashMap::<SocketAddr, Open>::new(), JoinSet::new());
        tokio::pin!(shutdown);
        loop {
            self.keep(&mut open, &mut running, (limits, &callers), &host).await;
            tokio::select! {
                () = &mut shutdown => break,
                changed = timeout(AGAIN, known.changed()) => if matches!(changed, Ok(Err(_))) { break },
                Some(ended) = running.join_next(), if !running.is_empty() => {
                    if let Ok((address, ended)) = ended {
                        open.remove(&address);
                        report(address, ended);
                    }
                }
            }
        }
        // Whoever waits for the end of these hears of it by the sender's.
        drop(open);
        while running.join_next().await.is_some() {}
        Ok(())
    }

    /// Opens what is wanted and closes what is not.
    async fn keep(
        self: &Arc<Self>,
        open: &mut HashMap<SocketAddr, Open>,
        running: &mut JoinSet<(SocketAddr, Result<()>)>,
        with: (Limits, &Arc<Callers>),
        host: &Arc<dyn Host>,
    ) {
        let wanted = self.wanted();
        // Closed a while after the last pairing is gone: who was revoked is told so, and not that nobody listens.
        open.retain(|address, one| {
            one.unwanted = (!wanted.contains(address)).then(|| one.unwanted.unwrap_or_else(Instant::now));
            one.unwanted.is_none_or(|since| since.elapsed() < LINGER)
        });
        let mut deaf = Vec::new();
        for address in wanted {
            if open.contains_key(&address) {
                continue;
            }
            let (close, closed) = oneshot::channel::<()>();
            let shutdown: Shutdown = async move { drop(closed.await) }.boxed();
            match self.open(address, with, host.clone(), shutdown).await {
                Ok(finished) => {
                    open.insert(address, Open { _close: close, unwanted: None });
                    running.spawn(async move { (address, finished.await) });
                }
                Err(error) => deaf.push(format!("invited hosts cannot connect: {error}")),
            }
        }
        let mut told = self.deaf.lock().unwrap_or_else(PoisonError::into_inner);
        // Told when it is new; it is tried again and again.
        deaf.iter().filter(|note| !told.contains(note)).for_each(|note| tracing::warn!("{note}"));
        *told = deaf;
    }

    async fn open(
        self: &Arc<Self>,
        address: SocketAddr,
        (limits, callers): (Limits, &Arc<Callers>),
        host: Arc<dyn Host>,
        shutdown: Shutdown,
    ) -> Result<futures::future::BoxFuture<'static, Result<()>>> {
        let files = self.pairings.certificate()?;
        let files = files.ok_or_else(|| Error::not_found("this host's certificate for its invitations is gone"))?;
        let certificate = TlsServer::new(&files.certificate, &files.key)?;
        let transport = TcpTransport::new(address).limited(limits).admitting(self.clone()).noting(callers.clone());
        let listening = transport.showing(Some(certificate)).serve(host, shutdown).await?;
        tracing::info!(endpoint = listening.endpoint, "listening for paired hosts; connections are encrypted");
        Ok(listening.finished)
    }

    /// The addresses that accepted invitations name, and those that can still be accepted.
    fn wanted(&self) -> Vec<SocketAddr> {
        let (listed, now) = (self.known.borrow().clone(), SystemClock.now());
        let mut wanted: Vec<SocketAddr> = self
            .served(&listed)
            .filter(|pairing| !pairing.has_expired(now))
            .filter_map(|pairing| match &pairing.side {
                Side::Invited { listen, .. } => Some(*listen),
                Side::Joined { .. } => None,
            })
            .collect();
        wanted.sort();
        wanted.dedup();
        wanted
    }
}

fn report(address: SocketAddr, ended: Result<()>) {
    match ended {
        Ok(()) => tracing::info!(%address, "no longer listening for paired hosts"),
        Err(error) => tracing::warn!(%address, %error, "listening for paired hosts has ended"),
    }
}
