//! Records: small named JSON documents with compare-and-swap.
//!
//! The key plan decides cost and is fixed here:
//!
//! | key | holds | between hosts |
//! |---|---|---|
//! | `project` | id, format, when created | local |
//! | `agents/<name>` | SPEC.md's agent file, of the agents of this host | told to other hosts under this node's id |
//! | `hosts/agents/<node>/<name>` | what another host says of its agent | of one node's entry the later stamp wins; `who` merges by name |
//! | `hosts/leases/<node>` | what another host says of its reservations | the later stamp wins |
//! | `presence/<host>/<agent>` | live sessions; not synced to disk, at most one write a minute | local |
//! | `mailbox/<agent>/<day>` | read, acknowledged, archived, claimed, per message of that day; of a busy day `<day>-<hour>` and so on | receipts: earliest wins; flags: later stamp wins |
//! | `mailbox/<agent>/tally` | what `inbox` and `count` need without reading every day | a cache, local |
//! | `leases` | all reservations of this host, in one record: a conflict between globs needs one compare-and-swap | told to other hosts under this node's id |
//! | `horizon` | the time below which `gc` has removed everything | local; told to peers, so that nothing below is exchanged |
//! | `tombstones/<day>` | single messages that were deleted, by the id and the hash that they were born with | union |
//! | `transfer` | an unfinished `fmail store copy` into this store | local |

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize, de};
use serde_json::{Map, Value};

use crate::{AgentName, Error, ErrorKind, NodeId, Result, Timestamp};

/// The name of a record: segments of `[a-z0-9._-]` joined by `/`, none of which starts with a dot.
///
/// Shared by its clones: a daemon that relays keeps the names of very many records in more than one place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey(Arc<str>);

impl RecordKey {
    /// The project's own record.
    pub fn project() -> Self {
        RecordKey("project".into())
    }

    /// The record of an agent.
    pub fn agent(name: &AgentName) -> Self {
        RecordKey(format!("agents/{name}").into())
    }

    /// The record that holds what `gc` has removed.
    pub fn horizon() -> Self {
        RecordKey("horizon".into())
    }

    /// The record of what an agent has done with the messages of a day, given by its `YYYYMMDD`, or of a shorter stretch
    /// of time, given by the beginning of their ids.
    pub fn mailbox(agent: &AgentName, stretch: &str) -> Self {
        RecordKey(format!("mailbox/{agent}/{stretch}").into())
    }

    /// The cache over an agent's mailbox records.
    pub fn tally(agent: &AgentName) -> Self {
        RecordKey(format!("mailbox/{agent}/tally").into())
    }

    /// The record of all leases.
    pub fn leases() -> Self {
        RecordKey("leases".into())
    }

    /// The record of what another host says of one of its agents.
    pub fn agent_elsewhere(node: NodeId, name: &AgentName) -> Self {
        RecordKey(format!("hosts/agents/{node}/{name}").into())
    }

    /// The record of what another host says of its leases.
    pub fn leases_elsewhere(node: NodeId) -> Self {
        RecordKey(format!("hosts/leases/{node}").into())
    }

    /// The record of the single messages that were deleted, by the day of their ids.
    pub fn tombstones(day: &str) -> Self {
        RecordKey(format!("tombstones/{day}").into())
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The segments between the slashes.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Whether the key is `prefix` itself or lies below it.
    pub fn is_under(&self, prefix: &str) -> bool {
        let prefix = prefix.trim_end_matches('/');
        prefix.is_empty() || self.0.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl FromStr for RecordKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let good = |segment: &str| {
            !segment.is_empty()
                && segment.len() <= 120
                && !segment.starts_with('.')
                && segment.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
        };
        if text.split('/').count() <= 4 && text.split('/').all(good) {
            return Ok(RecordKey(text.into()));
        }
        Err(Error::invalid(format!("`{}` is not a record key", text.escape_debug()))
            .help("a key is one to four segments of [a-z0-9._-] joined by `/`, none starting with a dot"))
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for RecordKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RecordKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Which state of a record was seen. Opaque: two equal revisions of one key mean equal content, nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(String);

impl Revision {
    /// A revision that the store made up.
    pub fn new(text: impl Into<String>) -> Self {
        Revision(text.into())
    }

    /// The revision that a store derives from content, so that a change made by hand counts as one.
    ///
    /// A 128-bit FNV-1a: two states of one record never meet in it by chance, and it costs a short command nothing.
    pub fn of_content(bytes: &[u8]) -> Self {
        let hash = bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
            (hash ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
        });
        Revision(format!("{hash:032x}"))
    }

    /// The revision as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What the caller of a change expects to find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// No record of this key.
    Absent,
    /// The record in exactly this revision.
    Revision(Revision),
    /// Whatever is there.
    Anything,
}

impl Expect {
    /// Whether the expectation holds for the record of this key, of which the store has this revision. `conflict`
    /// otherwise (R2).
    pub fn check(&self, key: &RecordKey, found: Option<&Revision>) -> Result<()> {
        let problem = match (self, found) {
            (Expect::Anything, _) | (Expect::Absent, None) => return Ok(()),
            (Expect::Revision(wanted), Some(revision)) if wanted == revision => return Ok(()),
            (Expect::Absent, Some(_)) => "exists already",
            (Expect::Revision(_), Some(_)) => "has changed since it was read",
            (Expect::Revision(_), None) => "is gone",
        };
        Err(Error::new(ErrorKind::Conflict, format!("the record `{key}` {problem}"))
            .help("read it again and repeat the change on what is there now"))
    }
}

/// A record as it was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub key: RecordKey,
    /// Which state this is.
    pub revision: Revision,
    /// Its content.
    pub value: Value,
}

impl Record {
    /// The content as a type.
    pub fn decode<T: de::DeserializeOwned>(&self) -> Result<T> {
        T::deserialize(&self.value).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("the record `{}` cannot be used: {error}", self.key))
        })
    }
}

/// Content of `agents/<name>`, SPEC.md's agent file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRecord {
    /// The agent.
    pub name: AgentName,
    /// The host it was last seen on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The id of that host, where it is known. Names of hosts change, and two may have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// What it says it is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// When it was last seen.
    pub last_seen: Timestamp,
    /// What it tells about itself.
    #[serde(default, skip_serializing_if = "Profile::is_empty")]
    pub profile: Profile,
    /// Fields that fmail does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What an agent tells about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// Its name as its user writes it, where that is not fmail's: `GreenDog` of the agent `greendog`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
    /// The program that it runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The model that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it works on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// What else is said about it.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Profile {
    /// The longest text of a profile, in bytes.
    pub const MAX_BYTES: usize = 4096;

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Profile::default()
    }

    /// This profile, and from `before` what it says nothing about.
    #[must_use]
    pub fn over(self, before: Profile) -> Profile {
        let mut extra = before.extra;
        extra.extend(self.extra);
        Profile {
            display: self.display.or(before.display),
            program: self.program.or(before.program),
            model: self.model.or(before.model),
            task: self.task.or(before.task),
            extra,
        }
    }

    /// Whether this can be the profile of an agent: short texts, and a display that is the agent's own name in other
    /// letters, so that nobody is shown as somebody else.
    pub fn check(&self, name: &AgentName) -> Result<()> {
        for (what, text) in
            [("display", &self.display), ("program", &self.program), ("model", &self.model), ("task", &self.task)]
        {
            let Some(text) = text else { continue };
            if text.len() > Self::MAX_BYTES {
                let found = text.len();
                return Err(Error::invalid(format!(
                    "the {what} of a profile has {found} bytes, allowed are {}",
                    Self::MAX_BYTES
                )));
            }
        }
        match &self.display {
            Some(display) if display.to_lowercase() != name.foreign().to_lowercase() => Err(Error::new(
                ErrorKind::InvalidAgent,
                format!("the agent `{name}` cannot be shown as `{}`", display.escape_debug()),
            )
            .help("a display is the agent's own name, in capitals or small letters")),
            _ => Ok(()),
        }
    }
}

impl AgentName {
    /// The agent that a neighbour calls by this name, where capitals and small letters make no difference: `GreenDog` is
    /// `greendog`. How it was written is what [`Profile::display`] keeps.
    pub fn from_display(name: &str) -> Result<AgentName> {
        AgentName::from_foreign(&name.to_lowercase())
    }
}

/// Content of `project`, SPEC.md's `project.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProjectRecord {
    /// The project's id.
    pub id: String,
    /// When the project was created.
    pub created: Timestamp,
    /// Which rule gave the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_from: Option<ProjectIdSource>,
    /// The layout of the store's files, when the store has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Value>,
    /// Fields that fmail does not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Which rule gave a project its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProjectIdSource {
    /// The environment variable FMAIL_PROJECT.
    Environment,
    /// `fmail init --project`.
    Init,
    /// The git remote `origin`.
    Remote,
    /// The name of the directory; gives way when a remote appears.
    Directory,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_cannot_leave_their_directory() {
        for good in ["project", "agents/bob", "mailbox/bob/20260110", "presence/host.example/bob"] {
            assert_eq!(good.parse::<RecordKey>().unwrap().as_str(), good);
        }
        for bad in ["", "/", "a/", "/a", "a//b", "..", "a/../b", ".x", "A", "a b", "a/b/c/d/e", "a\0"] {
            assert!(bad.parse::<RecordKey>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn prefixes_end_at_segments() {
        let key: RecordKey = "agents/bob".parse().unwrap();
        assert!(key.is_under("agents") && key.is_under("agents/") && key.is_under("") && key.is_under("agents/bob"));
        assert!(!key.is_under("agent") && !key.is_under("agents/b"));
    }

    #[test]
    fn an_agent_record_keeps_unknown_fields() {
        let text = r#"{"name":"a","first_seen":"2026-01-10T15:00:00Z","last_seen":"2026-01-10T15:00:00Z","model":"x"}"#;
        let record: AgentRecord = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
    }
}
