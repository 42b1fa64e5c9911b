//! Keeping several hosts in step.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::{Host, Result, Shutdown, Timestamp};

/// Exchanges messages and records with other hosts.
///
/// - **Y1** Whatever the topology, every message reaches every connected host once.
/// - **Y2** A message keeps its identity; a taken id is resolved by [`crate::Store::import`], never by dropping.
/// - **Y3** An interruption at any point loses nothing: `run` resumes from what both sides hold.
/// - **Y4** What a host has removed is not brought back.
/// - **Y5** A peer that misbehaves is refused, counted and shown; local users notice nothing.
#[async_trait]
pub trait Relay: Send + Sync {
    /// The name by which the configuration chooses it.
    fn name(&self) -> &str;
    /// Runs until the shutdown.
    async fn run(&self, local: Arc<dyn Host>, shutdown: Shutdown) -> Result<()>;
    /// The state of every link, now and whenever it changes.
    fn status(&self) -> BoxStream<'static, RelayStatus>;
}

/// The state of a relay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RelayStatus {
    /// One entry per peer.
    pub links: Vec<LinkStatus>,
}

/// The state of the link to one peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// The peer as the configuration names it.
    pub peer: String,
    /// Whether the peer answered lately, by a round trip and not only a connection.
    pub connected: bool,
    /// Since when it is so.
    pub since: Timestamp,
    /// Whether the peer proved who it is.
    pub authenticated: bool,
    /// Why it is not connected.
    pub problem: Option<String>,
    /// Messages that wait for the peer.
    pub queued: u64,
    /// Messages that were there already.
    pub duplicates: u64,
    /// Messages that were refused.
    pub refused: u64,
    /// Messages that got another id.
    pub relocated: u64,
}
