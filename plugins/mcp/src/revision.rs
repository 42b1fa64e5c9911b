//! The revisions of MCP, and in which of their forms an answer goes out.
//!
//! Up to 2025-11-25 a client may begin with `initialize`; here it need not. From 2026-07-28 on there is none: every request
//! says its revision in `_meta`, and every result has a `resultType`.

use rmcp::model::{ErrorCode, ErrorData, ProtocolVersion};
use serde_json::{Map, Value, json};

use crate::Peer;

/// Where a request says its revision.
const META: &str = "io.modelcontextprotocol/protocolVersion";

/// The form that the answers to a request have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Revision {
    /// Until 2025-11-25.
    Session,
    /// From 2026-07-28 on.
    Stateless,
}

impl Revision {
    /// The revision of a request, or that it is not spoken here.
    pub(crate) fn of(peer: &Peer, params: &Map<String, Value>) -> Result<Revision, ErrorData> {
        let said = match params.get("_meta").and_then(|meta| meta.get(META)) {
            None | Some(Value::Null) => None,
            Some(Value::String(said)) => Some(said),
            Some(_) => {
                return Err(ErrorData::invalid_params(format!("`{META}` in `_meta` is a text"), None));
            }
        };
        match said {
            // A transport that heard of another one has said so itself.
            None => Ok(peer.protocol.as_deref().and_then(known).unwrap_or(Revision::Session)),
            Some(said) => known(said).ok_or_else(|| unsupported(said)),
        }
    }
}

/// The revisions that are spoken, the oldest first.
pub fn versions() -> Vec<&'static str> {
    let mut versions: Vec<&str> = ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).collect();
    versions.sort_unstable();
    versions
}

fn known(text: &str) -> Option<Revision> {
    let version = ProtocolVersion::KNOWN_VERSIONS.iter().find(|version| version.as_str() == text)?;
    Some(if version.has_initialize() { Revision::Session } else { Revision::Stateless })
}

fn unsupported(said: &str) -> ErrorData {
    let data = json!({"supported": ProtocolVersion::KNOWN_VERSIONS, "requested": said});
    ErrorData::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", Some(data))
}

/// The revision for a client that begins with `initialize`: its own, or the newest in which one does.
pub(crate) fn agreed(params: &Map<String, Value>) -> ProtocolVersion {
    let said = params.get("protocolVersion").and_then(Value::as_str);
    let same = ProtocolVersion::KNOWN_VERSIONS.iter().find(|version| Some(version.as_str()) == said);
    same.filter(|version| version.has_initialize()).cloned().unwrap_or(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

/// A result, before it has the form of a revision.
pub(crate) struct Outgoing {
    /// The result.
    pub(crate) result: Value,
    /// For so many milliseconds a client may keep it, where the revision lets it.
    pub(crate) fresh_ms: Option<u64>,
}

impl Outgoing {
    /// A result that is not to be kept.
    pub(crate) fn new(result: impl serde::Serialize) -> Self {
        // Every result is an object of texts, numbers and lists: there is always a JSON form.
        Outgoing { result: serde_json::to_value(result).unwrap_or_default(), fresh_ms: None }
    }

    /// A result that says for how long it may be kept.
    pub(crate) fn fresh(result: impl serde::Serialize, fresh_ms: u64) -> Self {
        Outgoing { fresh_ms: Some(fresh_ms), ..Outgoing::new(result) }
    }

    /// The result in the form of a revision.
    pub(crate) fn in_form(self, revision: Revision) -> Value {
        let mut result = self.result;
        let Value::Object(fields) = &mut result else { return result };
        match revision {
            Revision::Session => {
                fields.remove("resultType");
            }
            Revision::Stateless => {
                fields.insert("resultType".into(), "complete".into());
                if let Some(fresh_ms) = self.fresh_ms {
                    fields.insert("ttlMs".into(), fresh_ms.into());
                    fields.insert("cacheScope".into(), "private".into());
                }
            }
        }
        result
    }
}
