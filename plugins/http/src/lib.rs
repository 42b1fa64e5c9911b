//! `http`: MCP Agent Mail for clients that speak MCP, and the operations of fmail for its own commands, over HTTP.
//!
//! What MCP means is `fmail-mcp`'s. Here is what HTTP has to do with it: who may come in (`door`), what a request may look
//! like (`body`, `media`, `standard_headers`), how its answer goes back (`post`, `events`), and that nothing a client does
//! holds up another or stays behind when it goes (`server`, `connection`, `socket`).
//!
//! A browser lets any page ask any address, this machine's too, and a name can be made to mean this machine. So a request
//! that names a page or a host is refused unless it is known, and beyond this machine there must be a token.

mod backend;
mod body;
mod client;
mod config;
mod connection;
mod door;
mod events;
mod flag;
mod front;
mod health;
mod host_name;
mod media;
mod operations;
mod origin;
mod post;
mod refusal;
mod server;
mod sessions;
mod socket;
mod standard_headers;
mod token;

use std::sync::Arc;

use fmail_plugin::{Caller, Envelope, Host, Listening, Reply, Result, Shutdown, Transport, async_trait};

use config::{Config, Section};

fmail_plugin::transport! {
    name: "http",
    open: Http::open,
    config_schema: config::SCHEMA,
}

struct Http {
    config: Arc<Config>,
}

impl Http {
    async fn open(envelope: Envelope) -> Result<Http> {
        let section: Section = envelope.config()?;
        Ok(Http { config: Arc::new(section.checked(envelope.role)?) })
    }
}

#[async_trait]
impl Transport for Http {
    async fn serve(&self, host: Host, shutdown: Shutdown) -> Result<Listening> {
        server::serve(self.config.clone(), Arc::new(host), shutdown).await
    }

    async fn request(&self, caller: Caller, request: String) -> Result<Reply> {
        client::request(&self.config, &caller, &request).await
    }
}
