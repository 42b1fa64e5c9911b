//! Keeping several hosts in step.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::{Host, MessageId, Node, Result, Shutdown, Timestamp};

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
    /// One entry per peer and project.
    pub links: Vec<LinkStatus>,
}

/// The state of the link to one peer.
///
/// A relay tells what it knows; what it leaves out is shown as unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// The peer as the configuration names it.
    pub peer: String,
    /// The project that is exchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Whether the peer answered lately, by a round trip and not only a connection.
    pub connected: bool,
    /// Since when it is so.
    pub since: Timestamp,
    /// The peer has dialled us; nobody here dials it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incoming: bool,
    /// Whether the peer proved who it is.
    pub authenticated: bool,
    /// By what the peer has to prove who it is, also while it is not connected; nothing for a plain peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// Whether the connection is encrypted.
    #[serde(default)]
    pub encrypted: bool,
    /// The peer knows PROTOCOL.md's `relay` only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain: bool,
    /// Which host the peer is, as it says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// Its version of fmail, as it says itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Why it is not connected, or what an operator should know although it is.
    pub problem: Option<String>,
    /// How long the last round trip took.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis")]
    pub round_trip: Option<Duration>,
    /// When the last round trip ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<Timestamp>,
    /// The last message that came from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_received: Option<Passed>,
    /// The last message that went there and was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sent: Option<Passed>,
    /// Messages that wait for the peer.
    pub queued: u64,
    /// How long the oldest of them has waited.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis")]
    pub lag: Option<Duration>,
    /// What has passed the link since the daemon began.
    #[serde(default)]
    pub counts: LinkCounts,
}

/// By what a peer proves who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Authentication {
    /// By the key of its pairing.
    Paired,
    /// By the token that all hosts share.
    Token,
    /// By its certificate, and by nothing else.
    Tls,
}

impl LinkStatus {
    /// A link of which nothing is known but that it is not connected.
    pub fn new(peer: impl Into<String>, since: Timestamp) -> Self {
        LinkStatus {
            peer: peer.into(),
            project: None,
            connected: false,
            since,
            incoming: false,
            authenticated: false,
            authentication: None,
            encrypted: false,
            plain: false,
            node: None,
            version: None,
            problem: None,
            round_trip: None,
            answered: None,
            last_received: None,
            last_sent: None,
            queued: 0,
            lag: None,
            counts: LinkCounts::default(),
        }
    }
}

/// A message that has passed a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// The id that it was born with.
    pub id: MessageId,
    /// When it passed.
    pub at: Timestamp,
}

/// What has passed a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkCounts {
    /// Messages that came and were stored.
    pub received: u64,
    /// Messages that went and were stored there.
    pub sent: u64,
    /// Messages that came and were there already.
    pub duplicates: u64,
    /// Messages that were refused here, and lines that could not be understood.
    pub refused: u64,
    /// Messages of ours that the peer refused.
    pub refused_there: u64,
    /// Messages that were written to a peer that never says what became of them: one that knows PROTOCOL.md only.
    pub unconfirmed: u64,
    /// Messages that got another id here.
    pub relocated: u64,
    /// Records that were merged here.
    pub records: u64,
    /// Bytes that came.
    pub bytes_received: u64,
    /// Bytes that went.
    pub bytes_sent: u64,
}

/// What the host that drives a link tells the other one about it, in its `hello`: the other one only answers, and could
/// not know it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkReport {
    /// Which link this is. Another number is another link, and its counts begin anew.
    pub link: u64,
    /// How long the last question and its answer took.
    #[serde(skip_serializing_if = "Option::is_none", with = "millis")]
    pub round_trip: Option<Duration>,
    /// Messages of the other host that were stored here over this link.
    pub stored: u64,
    /// Messages of the other host that were refused here.
    pub refused: u64,
    /// The last one that was stored, by the id that it was born with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<MessageId>,
    /// Which stream of the other host's messages is read: the first that was asked for over this link, the second, …
    pub stream: u64,
    /// How many messages of that stream were dealt with, whatever became of them.
    pub dealt: u64,
    /// What a comparison has found to be missing here, and has not come yet.
    pub missing: u64,
    /// Both hosts have compared what they hold since the link began.
    pub compared: bool,
    /// What an operator should know although the link works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Callers who were turned away before they had said anything that could be served: they speak something else, or cannot
/// prove who they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Strangers {
    /// How many since the daemon began, each connection once.
    pub count: u64,
    /// Where the last one called from.
    pub address: String,
    /// Why it was turned away.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// Answers `relay_status`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RelayView {
    /// Which host this is, if it relays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
    /// The relays that run here.
    pub relays: Vec<RunningRelay>,
    /// What an operator should know: a configuration that is not trusted, for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Who else has called where other hosts can; none when nobody has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strangers: Option<Strangers>,
}

/// A relay that runs, with its links.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunningRelay {
    /// Its name.
    pub name: String,
    /// Its links.
    pub links: Vec<LinkStatus>,
}

/// A length of time in milliseconds, with what is below them behind the point.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.serialize_f64(time.as_micros() as f64 / 1e3),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let Some(millis) = Option::<f64>::deserialize(deserializer)? else { return Ok(None) };
        Duration::try_from_secs_f64(millis / 1e3).map(Some).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_relay_that_tells_little_is_understood_and_everything_reads_back() {
        let little = json!({"peer": "a:1", "connected": true, "since": "2026-01-10T15:30:00Z", "authenticated": false,
            "problem": null, "queued": 0});
        let mut status: LinkStatus = serde_json::from_value(little).unwrap();
        status.round_trip = Some(Duration::from_micros(1_500));
        status.counts.sent = 3;
        let text = serde_json::to_string(&status).unwrap();
        assert!(text.contains(r#""round_trip":1.5"#), "{text}");
        assert_eq!(serde_json::from_str::<LinkStatus>(&text).unwrap(), status);
    }
}
