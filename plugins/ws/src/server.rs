//! Listening, and what becomes of each connection.

use std::sync::Arc;

use ::tokio::net::{TcpListener, TcpStream};
use fmail_plugin::futures::FutureExt;
use fmail_plugin::tokio::sync::{Semaphore, watch};
use fmail_plugin::tokio::task::JoinSet;
use fmail_plugin::tokio::time::timeout;
use fmail_plugin::{Error, Host, Listening, Principal, Result, Shutdown, tokio, tracing};
use tokio_tungstenite::accept_hdr_async_with_config;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::config::{Config, PATIENCE};
use crate::connection::Connection;
use crate::handshake::Doorman;

/// Listens, and serves until the shutdown.
pub async fn serve(config: Arc<Config>, host: Host, shutdown: Shutdown) -> Result<Listening> {
    let listener = TcpListener::bind(config.address)
        .await
        .map_err(|error| Error::io(format_args!("cannot listen on {}", config.address), &error))?;
    let address =
        listener.local_addr().map_err(|error| Error::io("cannot tell where the transport listens", &error))?;
    let finished = accept(listener, config, host, shutdown);
    Ok(Listening { endpoint: format!("ws://{address}"), finished: finished.boxed() })
}

async fn accept(listener: TcpListener, config: Arc<Config>, host: Host, mut shutdown: Shutdown) -> Result<()> {
    let places = Arc::new(Semaphore::new(config.connections));
    let (ending, ended) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut number = 0_u64;
    loop {
        let stream = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Too many open files, or a peer that was gone at once: the others are served on.
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    continue;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(limit = config.connections, "a connection was refused: there are too many");
            continue;
        };
        number += 1;
        let session = format!("ws-{number}");
        let (config, host, ended) = (config.clone(), host.clone(), ended.clone());
        connections.spawn(async move {
            one(stream, &config, host, session, ended).await;
            drop(place);
        });
    }
    drop(listener);
    ending.send_replace(true);
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// Serves one peer. However it ends, it ends for this peer alone.
async fn one(stream: TcpStream, config: &Config, host: Host, session: String, ended: watch::Receiver<bool>) {
    // Requests are small, and each waits for its answer.
    let _ = stream.set_nodelay(true);
    let limits = WebSocketConfig::default()
        .max_message_size(Some(config.max_frame_bytes))
        .max_frame_size(Some(config.max_frame_bytes));
    let shaking = accept_hdr_async_with_config(stream, Doorman(config), Some(limits));
    let mut ending = ended.clone();
    let shaken = tokio::select! {
        shaken = timeout(PATIENCE, shaking) => shaken,
        // Who has not said what it wants has nothing under way, and must not hold up the end.
        _ = ending.wait_for(|ending| *ending) => return,
    };
    let socket = match shaken {
        Ok(Ok(socket)) => socket,
        Ok(Err(error)) => return tracing::debug!(%error, "a client was not let in"),
        Err(_) => return tracing::debug!("a client took too long for its handshake"),
    };
    let principal = match &config.token {
        Some(_) => Principal::Token("ws".into()),
        None => Principal::Anonymous,
    };
    Connection::new(socket, config, host, principal, session).run(ended).await;
}
