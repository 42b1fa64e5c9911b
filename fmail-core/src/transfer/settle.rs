//! What a record has to become where the target has one of its own.
//!
//! A project that is copied, used and copied back finds its older records again. What merges between hosts merges here by
//! the same rules; the rest is somebody's decision.

use fmail_api::{AgentRecord, LeasesRecord, MailboxRecord, RecordKey, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::exchange::kind;

/// What is to be done with a record.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Settled {
    /// The target has it.
    Same,
    /// The target gets this.
    Write(Value),
    /// The target has another one, and nobody can tell which of them is right.
    Conflict,
}

/// Whether a differing record of this key can be a conflict although nobody but this copy wrote it: no rule merges it.
pub(super) fn is_plain(key: &RecordKey) -> bool {
    let segments: Vec<&str> = key.segments().collect();
    !matches!(segments[..], ["project" | "horizon"] | ["agents" | "tombstones", _] | ["mailbox", _, _] | ["hosts", ..])
}

/// What becomes of the target's record when the source has this one. Once that is written it is [`Settled::Same`].
pub(super) fn settle(key: &RecordKey, source: &Value, target: Option<&Value>, now: Timestamp) -> Settled {
    let is_project = *key == RecordKey::project();
    let Some(target) = target else {
        return Settled::Write(if is_project { with_format(source, None) } else { source.clone() });
    };
    if source == target {
        return Settled::Same;
    }
    let segments: Vec<&str> = key.segments().collect();
    let merged = match segments[..] {
        ["project"] => project(source, target),
        ["agents", _] => agent(source, target),
        ["mailbox", _, _] => mailbox(source, target),
        ["tombstones", _] => union(source, target),
        ["horizon"] => later(source, target),
        ["leases"] => leases(source, target, now),
        ["hosts", ..] => Some(if kind::said_last(source, target) { source } else { target }.clone()),
        _ => None,
    };
    match merged {
        None => Settled::Conflict,
        Some(merged) if merged == *target => Settled::Same,
        Some(merged) => Settled::Write(merged),
    }
}

/// The same project: what the source says about it. Which layout its files have is each store's own matter.
fn project(source: &Value, target: &Value) -> Option<Value> {
    (source.get("id") == target.get("id")).then(|| with_format(source, target.get("format")))
}

fn with_format(record: &Value, format: Option<&Value>) -> Value {
    let Value::Object(fields) = record else { return record.clone() };
    let mut fields: Map<String, Value> = fields.clone();
    fields.shift_remove("format");
    fields.extend(format.map(|format| ("format".to_string(), format.clone())));
    Value::Object(fields)
}

/// As whoever saw the agent last knows it, there since it was first seen by either.
fn agent(source: &Value, target: &Value) -> Option<Value> {
    let (one, two): (AgentRecord, AgentRecord) = (decoded(source)?, decoded(target)?);
    let first_seen = one.first_seen.min(two.first_seen);
    let last = if two.last_seen > one.last_seen { two } else { one };
    encoded(&AgentRecord { first_seen, ..last })
}

/// What both know together, message by message. States that one of them has split further do not fit each other.
fn mailbox(source: &Value, target: &Value) -> Option<Value> {
    let (one, mut two): (MailboxRecord, MailboxRecord) = (decoded(source)?, decoded(target)?);
    if one.split != two.split {
        return None;
    }
    for (id, state) in one.messages {
        let known = two.messages.remove(&id).unwrap_or_default();
        two.messages.insert(id, state.merged(known));
    }
    encoded(&two)
}

fn union(source: &Value, target: &Value) -> Option<Value> {
    let mut all = target.as_object()?.clone();
    all.extend(source.as_object()?.clone());
    Some(Value::Object(all))
}

fn later(source: &Value, target: &Value) -> Option<Value> {
    let before = |record: &Value| record.get("before")?.as_str()?.parse::<Timestamp>().ok();
    Some(if before(target)? > before(source)? { target.clone() } else { source.clone() })
}

/// The source's, unless the target has one that still holds and that the source does not know.
fn leases(source: &Value, target: &Value, now: Timestamp) -> Option<Value> {
    let (mut one, two): (LeasesRecord, LeasesRecord) = (decoded(source)?, decoded(target)?);
    let known = |lease: &fmail_api::Lease| {
        let same = |other: &&fmail_api::Lease| {
            (other.id, &other.agent, &other.pattern, other.since)
                == (lease.id, &lease.agent, &lease.pattern, lease.since)
        };
        one.leases.iter().any(|other| same(&other)) || lease.until <= now
    };
    if !two.leases.iter().all(known) {
        return None;
    }
    one.next = one.next.max(two.next);
    encoded(&one)
}

fn decoded<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

fn encoded<T: Serialize>(value: &T) -> Option<Value> {
    serde_json::to_value(value).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-10T15:30:00Z".parse().unwrap()
    }

    /// Settles, and checks that what is written is settled.
    fn check(key: &str, source: Value, target: Value, expected: Option<Value>) {
        let key: RecordKey = key.parse().unwrap();
        let settled = settle(&key, &source, Some(&target), now());
        let Some(expected) = expected else {
            return assert_eq!(settled, Settled::Conflict, "{key}");
        };
        let becomes = match settled {
            Settled::Same => target,
            Settled::Write(value) => value,
            Settled::Conflict => panic!("{key} is a conflict"),
        };
        assert_eq!(becomes, expected, "{key}");
        assert_eq!(
            settle(&key, &source, Some(&becomes), now()),
            Settled::Same,
            "{key} is not settled by its own result"
        );
    }

    #[test]
    fn a_record_that_the_target_lacks_is_written_as_it_is() {
        let source = json!({"z": 1, "a": [1.50, null]});
        assert_eq!(settle(&"any".parse().unwrap(), &source, None, now()), Settled::Write(source.clone()));
        assert_eq!(settle(&"any".parse().unwrap(), &source, Some(&source), now()), Settled::Same);
    }

    #[test]
    fn a_project_keeps_its_id_and_each_store_its_layout() {
        let source = json!({"id": "p", "created": "2026-01-01T00:00:00Z", "format": 1});
        let key = RecordKey::project();
        let bare = json!({"id": "p", "created": "2026-01-01T00:00:00Z"});
        assert_eq!(settle(&key, &source, None, now()), Settled::Write(bare.clone()));
        check("project", source.clone(), json!({"id": "p", "created": "2026-01-09T00:00:00Z"}), Some(bare));
        check("project", source, json!({"id": "q", "created": "2026-01-01T00:00:00Z"}), None);
    }

    #[test]
    fn an_agent_is_as_it_was_last_seen() {
        let seen = |first: &str, last: &str, status: &str| json!({"name": "a", "status": status, "first_seen": first, "last_seen": last, "model": "x"});
        let (one, two, three) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z");
        check("agents/a", seen(two, three, "new"), seen(one, two, "old"), Some(seen(one, three, "new")));
        check("agents/a", seen(one, two, "old"), seen(two, three, "new"), Some(seen(one, three, "new")));
    }

    #[test]
    fn states_of_mail_merge_and_split_ones_do_not() {
        let (id, other) = ("20260110-153000-0001", "20260110-153000-0002");
        let read = json!({"first_read": "2026-01-10T15:31:00Z"});
        let acknowledged = json!({"acknowledged": "2026-01-10T15:32:00Z"});
        let both = json!({"first_read": "2026-01-10T15:31:00Z", "acknowledged": "2026-01-10T15:32:00Z"});
        let merged = json!({id: both, other: read});
        check("mailbox/a/20260110", json!({id: read, other: read}), json!({id: acknowledged}), Some(merged));
        check("mailbox/a/20260110", json!({"split": true}), json!({id: read}), None);
    }

    #[test]
    fn a_lease_that_holds_in_the_target_is_not_lost() {
        let lease = |id: u64, until: &str| json!({"id": id, "agent": "a", "pattern": "src", "exclusive": true, "since": "2026-01-10T15:00:00Z", "until": until});
        let (ended, holds) = ("2026-01-10T15:29:00Z", "2026-01-10T16:00:00Z");
        let record = |next: u64, leases: Vec<Value>| json!({"next": next, "leases": leases});
        check(
            "leases",
            record(3, vec![lease(2, holds)]),
            record(2, vec![lease(1, ended)]),
            Some(record(3, vec![lease(2, holds)])),
        );
        check(
            "leases",
            record(2, vec![lease(1, holds)]),
            record(2, vec![lease(1, ended)]),
            Some(record(2, vec![lease(1, holds)])),
        );
        check("leases", record(1, vec![]), record(9, vec![lease(8, holds)]), None);
    }

    #[test]
    fn the_later_horizon_wins_and_graves_are_united() {
        let (early, late) = (json!({"before": "2026-01-01T00:00:00Z"}), json!({"before": "2026-01-02T00:00:00Z"}));
        check("horizon", early.clone(), late.clone(), Some(late.clone()));
        check("horizon", late.clone(), early, Some(late));
        check("tombstones/20260110", json!({"a": 1}), json!({"b": 2}), Some(json!({"b": 2, "a": 1})));
        check("unheard-of", json!(1), json!(2), None);
    }
}
