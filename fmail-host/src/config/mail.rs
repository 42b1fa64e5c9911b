//! The settings as types. Every default stands here and nowhere else.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use fmail_api::{AgentName, DEFAULT_MAX_MESSAGE_BYTES, parse_duration};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Everything under `mail`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mail {
    /// The name of the store that keeps the messages.
    pub store: String,
    /// What `stored` promises.
    pub durability: Durability,
    /// The largest message, in bytes of its compact JSON.
    pub max_message_bytes: usize,
    /// How long a writer waits for the project's lock.
    #[serde(with = "duration_text")]
    pub lock_timeout: Duration,
    /// Refuse a direct message to a name that nobody in the project has used.
    pub strict_recipients: bool,
    /// How new messages are noticed.
    pub watch: Watch,
    /// What `fmail gc` removes.
    pub gc: Gc,
    /// The command that `fmail nudge` runs for an agent, by its name; that of `default` for agents without one.
    pub nudge: BTreeMap<AgentName, Vec<String>>,
    /// The ways to a daemon that are tried, in this order; none means that commands work on the files alone.
    pub transports: Vec<String>,
    /// The relays that the daemon runs beside the one of `mail.relay`, by name.
    pub relays: Vec<String>,
    /// Where plugins are looked for.
    pub plugins: PluginPlaces,
    /// Which projects clients find by their paths.
    pub projects: FoundProjects,
    /// Where a daemon is looked for over TCP.
    pub tcp: TcpSettings,
    /// Exchange with other hosts; used only by the daemon.
    pub relay: RelaySettings,
}

/// `mail.durability`: when a message counts as stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// When it would survive a power cut.
    #[default]
    Disk,
    /// When it would survive the end of the process; a power cut may take the last seconds.
    Os,
}

/// `mail.watch`: how new messages are noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// Be woken by the kernel; without it, poll.
    pub events: bool,
    /// How often to look where the kernel cannot wake us.
    #[serde(with = "duration_text")]
    pub poll_interval: Duration,
}

/// `mail.gc`: what `fmail gc` removes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gc {
    /// Messages older than this many days.
    pub days: u32,
}

/// `mail.plugins`: where plugins are looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginPlaces {
    /// Directories that are searched before the standard ones.
    pub path: Vec<String>,
}

/// `mail.projects`: the projects that clients find by their paths, beside those that a daemon was started for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundProjects {
    /// Directories at or below which a path means the directory itself; any other path is a key.
    pub roots: Vec<String>,
    /// How many of them are open at a time.
    pub open: usize,
}

/// `mail.tcp`: a daemon that is reached over TCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpSettings {
    /// The daemon's address.
    pub address: SocketAddr,
    /// Whether the daemon listens there.
    pub listen: bool,
    /// Whether it may do so where other machines can reach it.
    pub insecure: bool,
    /// The token that both sides prove; empty means none.
    pub token: Secret,
    /// A file with the token; empty means none.
    pub token_file: String,
    /// TLS on the connection.
    pub tls: TlsSettings,
}

/// `mail.tcp.tls`: files in PEM; empty means none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// The certificate that the daemon shows.
    pub certificate: String,
    /// The key of that certificate.
    pub key: String,
    /// The certificate that a client believes, or the one that vouches for it.
    pub authority: String,
}

/// A text that is never shown.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "Secret(none)" } else { "Secret(not shown)" })
    }
}

/// `mail.relay`: exchange with other hosts. Only the daemon acts on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelaySettings {
    /// Whether to relay at all.
    pub enabled: bool,
    /// The other daemons, as `host:port`.
    pub peers: Vec<String>,
    /// How long to wait for a peer to answer.
    #[serde(with = "duration_text")]
    pub dial_timeout: Duration,
    /// How long to wait before trying a lost peer again.
    #[serde(with = "duration_text")]
    pub reconnect_interval: Duration,
}

impl Default for Mail {
    fn default() -> Self {
        Mail {
            store: "files".into(),
            durability: Durability::Disk,
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            lock_timeout: Duration::from_secs(10),
            strict_recipients: false,
            watch: Watch { events: true, poll_interval: Duration::from_millis(100) },
            gc: Gc { days: 7 },
            nudge: BTreeMap::new(),
            transports: vec!["unix".into(), "tcp".into()],
            relays: Vec::new(),
            plugins: PluginPlaces::default(),
            projects: FoundProjects { roots: vec!["~/".into()], open: 128 },
            tcp: TcpSettings {
                address: SocketAddr::from(([127, 0, 0, 1], 7463)),
                listen: false,
                insecure: false,
                token: Secret::default(),
                token_file: String::new(),
                tls: TlsSettings::default(),
            },
            relay: RelaySettings {
                enabled: false,
                peers: Vec::new(),
                dial_timeout: Duration::from_secs(2),
                reconnect_interval: Duration::from_secs(2),
            },
        }
    }
}

impl Mail {
    /// The command that a nudge runs for an agent: its own, else the one of `default`. An empty one means none.
    pub fn nudge_command(&self, agent: &AgentName) -> Option<&[String]> {
        let default = || self.nudge.iter().find(|(name, _)| name.as_str() == "default").map(|(_, command)| command);
        let command = self.nudge.get(agent).or_else(default)?;
        Some(command.as_slice()).filter(|command| !command.is_empty())
    }
}

/// A length of time as `parse_duration` reads it, with the largest units first: `1h30m`.
pub fn format_duration(duration: Duration) -> String {
    let mut rest = duration.as_millis();
    let mut text = String::new();
    for (unit, millis) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
        if rest >= millis {
            text.push_str(&format!("{}{unit}", rest / millis));
            rest %= millis;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

/// Durations are texts such as `2s` in every layer, the defaults included.
mod duration_text {
    use super::*;

    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_duration(*duration))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        parse_duration(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_back() {
        for text in ["0s", "1ms", "100ms", "2s", "1m30s", "1h30m", "2d", "1d2h3m4s5ms"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
    }
}
