//! One connection: from the first byte of its first request until it is gone.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use ::tokio::net::TcpStream;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use fmail_plugin::tokio::sync::watch;
use fmail_plugin::tokio::time::timeout;
use fmail_plugin::{tokio, tracing};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use rustix::net::{Shutdown, shutdown};
use tower_service::Service;

use crate::config::{Config, GRACE, PARTING};
use crate::flag::{Flag, raised};
use crate::socket::{Socket, closed, linger};

/// A request's first line and headers may have so many bytes.
const HEAD_BYTES: usize = 64 * 1024;
/// A request may have so many headers.
const HEADERS: usize = 100;

/// What one hears who has begun a request and does not go on. hyper itself would say nothing.
const TOO_SLOW: &str = "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// What a request may know of its connection.
#[derive(Clone)]
pub struct Link {
    /// The address of this machine that the client has reached.
    pub local: IpAddr,
    /// Goes up when the client has closed its side.
    pub gone: Flag,
}

/// Serves a connection until the client goes, or until the daemon ends: then what is under way is answered first.
pub async fn serve(stream: TcpStream, config: &Config, router: Router, mut ending: Flag) {
    // Requests are small, and each waits for its answer.
    let _ = stream.set_nodelay(true);
    let Ok(local) = stream.local_addr() else { return };
    let stream = Arc::new(stream);
    let (leaving, gone) = watch::channel(false);
    let link = Link { local: local.ip(), gone };
    let service = service_fn(move |request: Request<Incoming>| {
        let (mut router, link) = (router.clone(), link.clone());
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(link);
            Ok::<_, Infallible>(router.call(request).await.unwrap_or_else(|never| match never {}))
        }
    });
    let mut serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(config.patience)
        .max_headers(HEADERS)
        .max_header_size(HEAD_BYTES)
        // Who has closed its own side still gets its answer; `closed` tells when.
        .half_close(true)
        .serve_connection(Socket::new(stream.clone(), config.patience), service);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = closed(&stream) => {
            leaving.send_replace(true);
            timeout(GRACE, &mut serving).await.unwrap_or(Ok(()))
        }
        () = raised(&mut ending) => {
            std::pin::Pin::new(&mut serving).graceful_shutdown();
            // Whoever answers is told to hurry at the same time, and has to be heard.
            timeout(GRACE + PARTING, &mut serving).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
        if error.is_timeout() && !serving.into_parts().read_buf.is_empty() {
            // Nothing is being written while a request is read, so that this cannot come into the middle of an answer.
            let _ = stream.try_write(TOO_SLOW.as_bytes());
        }
        let _ = shutdown(&*stream, Shutdown::Write);
    }
    linger(&stream, if *ending.borrow() { PARTING / 5 } else { PARTING }).await;
}
