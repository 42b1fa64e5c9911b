//! `ws`: the operations of fmail over WebSocket, for clients that cannot open a Unix socket, a page in a browser first of
//! all.
//!
//! A text message is one object of the protocol, in either direction, as docs/protocol.md has them. Several requests may
//! be under way on one connection; every object that answers one carries its `req_id`. A stream ends with
//! `{"event":"end"}`.
//!
//! A browser lets any page connect to any address, this machine's too. So a connection that names an origin is refused
//! unless the configuration allows that origin, and beyond this machine there must be a token.

mod client;
mod config;
mod connection;
mod handshake;
mod server;

use std::sync::Arc;

use fmail_plugin::{Caller, Envelope, Host, Listening, Reply, Result, Shutdown, Transport, async_trait};

use config::Config;

fmail_plugin::transport! {
    name: "ws",
    open: Ws::open,
    config_schema: config::SCHEMA,
}

struct Ws {
    config: Arc<Config>,
}

impl Ws {
    async fn open(envelope: Envelope) -> Result<Ws> {
        let config: Config = envelope.config()?;
        config.check(envelope.role)?;
        Ok(Ws { config: Arc::new(config) })
    }
}

#[async_trait]
impl Transport for Ws {
    async fn serve(&self, host: Host, shutdown: Shutdown) -> Result<Listening> {
        server::serve(self.config.clone(), host, shutdown).await
    }

    async fn request(&self, caller: Caller, request: String) -> Result<Reply> {
        client::request(&self.config, &caller, &request).await
    }
}
