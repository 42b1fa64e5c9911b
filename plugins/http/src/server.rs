//! Listening, and what becomes of each connection.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::tokio::net::{TcpListener, TcpStream};
use fmail_plugin::futures::FutureExt;
use fmail_plugin::tokio::sync::{Semaphore, watch};
use fmail_plugin::tokio::task::JoinSet;
use fmail_plugin::{Error, Listening, Result, Shutdown, tokio, tracing};

use crate::backend::Daemon;
use crate::config::{Config, PARTING};
use crate::front::Front;
use crate::{client, connection, media, socket};

/// So many who are one too many are told so at a time; the others are just closed.
const TOLD: usize = 64;

/// Listens, and serves until the shutdown.
pub async fn serve(config: Arc<Config>, daemon: Arc<dyn Daemon>, shutdown: Shutdown) -> Result<Listening> {
    let listener = match TcpListener::bind(config.address).await {
        Ok(listener) => listener,
        Err(error) => return Err(cannot_listen(&config, &error).await),
    };
    let address =
        listener.local_addr().map_err(|error| Error::io("cannot tell where the transport listens", &error))?;
    let endpoint = format!("http://{address}{}", config.path);
    warn_of_exposure(&config, address);
    Ok(Listening { endpoint, finished: accept(listener, config, daemon, shutdown).boxed() })
}

async fn accept(
    listener: TcpListener,
    config: Arc<Config>,
    daemon: Arc<dyn Daemon>,
    mut shutdown: Shutdown,
) -> Result<()> {
    let (places, told) = (Arc::new(Semaphore::new(config.connections)), Arc::new(Semaphore::new(TOLD)));
    let (end, ending) = watch::channel(false);
    let router = Front::new(config.clone(), daemon, ending.clone()).router();
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Too many open files, or a peer that was gone at once: the others are served on.
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(limit = config.connections, "a connection was refused: there are too many");
            if let Ok(turn) = told.clone().try_acquire_owned() {
                connections.spawn(async move {
                    refuse(stream).await;
                    drop(turn);
                });
            }
            continue;
        };
        let (config, router, ending) = (config.clone(), router.clone(), ending.clone());
        connections.spawn(async move {
            connection::serve(stream, &config, router, ending).await;
            drop(place);
        });
    }
    drop(listener);
    end.send_replace(true);
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// Tells a client that it is one too many.
async fn refuse(stream: TcpStream) {
    let body = r#"{"detail":"there are too many connections here; try again later"}"#;
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {}\r\nretry-after: 1\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        media::JSON,
        body.len()
    );
    // A fresh connection has room for this.
    let _ = stream.try_write(answer.as_bytes());
    let _ = rustix::net::shutdown(&stream, rustix::net::Shutdown::Write);
    socket::linger(&stream, PARTING).await;
}

/// Why nobody can be served there, and who may be at fault.
async fn cannot_listen(config: &Config, error: &io::Error) -> Error {
    let address = config.address;
    let told = Error::io(format_args!("cannot listen on {address}"), error);
    if error.kind() != ErrorKind::AddrInUse {
        return told;
    }
    let elsewhere = "set another `address` in the section of the plugin `http`";
    match client::server_at(address).await {
        Some(server) if server.starts_with("fmail/") => told.help(format!(
            "another forged serves `http` there, and it serves all your projects to MCP clients by their paths: leave \
             `http` out of mail.transports here, or {elsewhere}"
        )),
        Some(server) => told.help(format!(
            "a server that calls itself {server:?} is there, perhaps another Agent Mail server: stop it, or {elsewhere}"
        )),
        None => told.help(format!(
            "another program is there (`ss -ltnp 'sport = :{}'` shows which): stop it, or {elsewhere}",
            address.port()
        )),
    }
}

/// Tells the operator who can do what.
fn warn_of_exposure(config: &Config, address: SocketAddr) {
    let who = match (&config.token, address.ip().is_loopback()) {
        (Some(_), _) => "everyone who knows the token",
        (None, true) => "every user and program of this machine",
        // Such a configuration is refused.
        (None, false) => "everyone who can reach this address",
    };
    tracing::warn!(%address, "{who} can read and send everything in the served projects");
}
