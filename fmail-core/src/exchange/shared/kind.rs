//! The kinds of records that travel, and how two hosts' contents become one.
//!
//! | name on the way | content | merge |
//! |---|---|---|
//! | `agents/<node>/<name>` | [`SharedAgent`]: what that node knows of an agent of its own | later stamp, of one stamp the greater text |
//! | `leases/<node>` | [`SharedLeases`]: the reservations in that node's store | the same |
//! | `receipts/<agent>/<origin id>/<hash>` | [`MailState`] without the claim | [`MailState::merged`] |
//! | `tombstones/<origin id>/<hash>` | [`Grave`] | union; the earliest deletion |
//!
//! The first two have one writer each: the node in the name. What others say about it is older than what it says itself.

use fmail_api::{
    AgentName, AgentRecord, Fingerprint, Identity, Lease, MailState, MessageId, NodeId, RecordKey, Timestamp,
    canonical_json,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::graves::Grave;
use crate::PathPattern;

/// What a record that travels is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An agent of a node.
    Agent(NodeId, AgentName),
    /// The leases of a node.
    Leases(NodeId),
    /// What an agent has done with a message.
    Receipt(AgentName, Identity),
    /// That a message was deleted.
    Grave(Identity),
}

impl Kind {
    /// What a name on the way means; nothing for one of no kind that we know.
    pub(crate) fn of(key: &RecordKey) -> Option<Self> {
        let identity = |origin: &str, hash: &str| {
            let origin: MessageId = origin.parse().ok()?;
            Some(Identity { origin, hash: hash.parse().ok()? })
        };
        match key.segments().collect::<Vec<_>>()[..] {
            ["agents", node, name] => Some(Kind::Agent(node.parse().ok()?, name.parse().ok()?)),
            ["leases", node] => Some(Kind::Leases(node.parse().ok()?)),
            ["receipts", agent, origin, hash] => Some(Kind::Receipt(agent.parse().ok()?, identity(origin, hash)?)),
            ["tombstones", origin, hash] => Some(Kind::Grave(identity(origin, hash)?)),
            _ => None,
        }
        // A second spelling of the same thing would be a second record.
        .filter(|kind| kind.key().as_ref() == Some(key))
    }

    /// Its name on the way.
    pub(crate) fn key(&self) -> Option<RecordKey> {
        let text = match self {
            Kind::Agent(node, name) => format!("agents/{node}/{name}"),
            Kind::Leases(node) => format!("leases/{node}"),
            Kind::Receipt(agent, Identity { origin, hash }) => format!("receipts/{agent}/{origin}/{hash}"),
            Kind::Grave(Identity { origin, hash }) => format!("tombstones/{origin}/{hash}"),
        };
        text.parse().ok()
    }
}

/// What a node knows of an agent of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SharedAgent {
    /// By the node's clock; above that of what it said before.
    pub(crate) stamp: Timestamp,
    /// The node's name.
    pub(crate) host: String,
    /// The agent.
    pub(crate) agent: AgentRecord,
}

/// The reservations of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SharedLeases {
    /// By the node's clock; above that of what it said before.
    pub(crate) stamp: Timestamp,
    /// The node's name.
    pub(crate) host: String,
    /// Those that it has, some of which may have ended.
    pub(crate) leases: Vec<Lease>,
}

/// The longest agent entry and the longest list of leases, as JSON.
const MAX_AGENT: usize = 64 * 1024;
const MAX_LEASES: usize = 1024 * 1024;
/// The longest receipt.
const MAX_RECEIPT: usize = 16 * 1024;
/// The longest name of a host.
const MAX_HOST: usize = 255;

fn is_host(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_HOST && !name.chars().any(char::is_control)
}

/// What somebody says of an agent of a node, if it can be believed. `latest` is the latest stamp that is.
pub(crate) fn agent_in(value: &Value, name: &AgentName, latest: Timestamp) -> Option<SharedAgent> {
    let shared: SharedAgent = SharedAgent::deserialize(value).ok()?;
    let good = canonical_json(value).len() <= MAX_AGENT
        && shared.stamp <= latest
        && is_host(&shared.host)
        && shared.agent.name == *name
        && shared.agent.host.as_deref().is_none_or(is_host)
        && shared.agent.profile.check(name).is_ok();
    good.then_some(shared)
}

/// What somebody says of the leases of a node, if it can be believed.
pub(crate) fn leases_in(value: &Value, latest: Timestamp) -> Option<SharedLeases> {
    let shared: SharedLeases = SharedLeases::deserialize(value).ok()?;
    let good = canonical_json(value).len() <= MAX_LEASES
        && shared.stamp <= latest
        && is_host(&shared.host)
        // One that cannot be understood could cover anything, and would be in everybody's way.
        && shared.leases.iter().all(|lease| lease.pattern.parse::<PathPattern>().is_ok());
    good.then_some(shared)
}

/// What somebody says that an agent has done with a message, if it can be believed.
pub(crate) fn receipt_in(value: &Value, latest: Timestamp) -> Option<MailState> {
    let state: MailState = MailState::deserialize(value).ok()?;
    let times = [state.retrieved, state.first_read, state.acknowledged, state.deleted];
    let flags = [state.read, state.archived].map(|flag| flag.map(|flag| flag.at));
    let good = canonical_json(value).len() <= MAX_RECEIPT
        && times.into_iter().chain(flags).flatten().all(|time| time <= latest)
        && state.claim.is_none();
    good.then_some(state)
}

/// What travels of a state: a claim is the matter of the store where it was taken.
pub(crate) fn without_claim(state: MailState) -> MailState {
    MailState { claim: None, ..state }
}

/// Of two things that the same node has said, the one that it said last.
pub(crate) fn said_last(one: &Value, two: &Value) -> bool {
    let stamp = |value: &Value| value.get("stamp").and_then(|stamp| stamp.as_str()?.parse::<Timestamp>().ok());
    (stamp(one), canonical_json(one)) > (stamp(two), canonical_json(two))
}

/// What a record that travels adds up to.
pub(crate) fn fingerprint(key: &RecordKey, value: &Value) -> Fingerprint {
    Fingerprint::of(&[key.as_str().as_bytes(), canonical_json(value).as_bytes()])
}

/// The grave that somebody says a message has, if it can be believed.
pub(crate) fn grave_in(value: &Value, latest: Timestamp) -> Option<Grave> {
    Grave::from_value(value).filter(|grave| grave.deleted <= latest && grave.to_value() == *value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn merged(one: &Value, two: &Value) -> Value {
        if said_last(two, one) { two.clone() } else { one.clone() }
    }

    fn said() -> impl Strategy<Value = Value> {
        (0_i64..4, 0_u8..3).prop_map(|(second, text)| json!({"stamp": Timestamp::from_unix(second, 0), "agent": text}))
    }

    fn time() -> impl Strategy<Value = Option<Timestamp>> {
        prop::option::of((0_i64..4).prop_map(|second| Timestamp::from_unix(second, 0)))
    }

    fn flag() -> impl Strategy<Value = Option<fmail_api::Flag>> {
        let some = ((0_i64..4), any::<bool>());
        prop::option::of(some.prop_map(|(second, set)| fmail_api::Flag { set, at: Timestamp::from_unix(second, 0) }))
    }

    fn state() -> impl Strategy<Value = MailState> {
        let noted = prop::option::of(0_u8..3);
        (time(), time(), time(), flag(), flag(), noted).prop_map(
            |(first_read, acknowledged, deleted, read, archived, noted)| {
                let extra = noted.map(|noted| ("noted".to_string(), json!(noted))).into_iter().collect();
                MailState { first_read, acknowledged, deleted, read, archived, extra, ..MailState::default() }
            },
        )
    }

    fn grave() -> impl Strategy<Value = Grave> {
        (0_i64..4).prop_map(|second| Grave { time: None, deleted: Timestamp::from_unix(second, 0) })
    }

    proptest! {
        #[test]
        fn what_a_node_says_merges_in_any_order(one in said(), two in said(), three in said()) {
            prop_assert_eq!(merged(&one, &two), merged(&two, &one));
            prop_assert_eq!(merged(&merged(&one, &two), &three), merged(&one, &merged(&two, &three)));
            prop_assert_eq!(merged(&one, &one), one);
        }

        #[test]
        fn receipts_merge_in_any_order(one in state(), two in state(), three in state()) {
            let (a, b, c) = (one, two, three);
            prop_assert_eq!(a.clone().merged(b.clone()), b.clone().merged(a.clone()));
            prop_assert_eq!(a.clone().merged(b.clone()).merged(c.clone()), a.clone().merged(b.merged(c)));
            prop_assert_eq!(a.clone().merged(a.clone()), a);
        }

        #[test]
        fn graves_merge_in_any_order(one in grave(), two in grave(), three in grave()) {
            prop_assert_eq!(one.merged(two), two.merged(one));
            prop_assert_eq!(one.merged(two).merged(three), one.merged(two.merged(three)));
            prop_assert_eq!(one.merged(one), one);
        }
    }

    #[test]
    fn a_name_has_one_spelling_and_a_kind() {
        let node = "0".repeat(31) + "a";
        for good in [
            format!("agents/{node}/bob"),
            format!("leases/{node}"),
            format!("receipts/bob/20260110-153000-0001/{node}"),
            format!("tombstones/20260110-153000-0001/{node}"),
        ] {
            let key: RecordKey = good.parse().unwrap();
            assert_eq!(Kind::of(&key).and_then(|kind| kind.key()), Some(key));
        }
        for bad in
            ["project", "agents/bob", "leases", "horizon", "mailbox/bob/20260110", "agents/x/bob", "hosts/leases/1"]
        {
            assert_eq!(Kind::of(&bad.parse().unwrap()), None, "{bad}");
        }
    }
}
