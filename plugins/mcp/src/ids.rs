//! Ids as numbers.
//!
//! Clients of Agent Mail expect numbers, and JavaScript keeps those below 2^53 exactly. A message's number is its id in
//! another spelling ([`MessageId::number`]). Projects and agents have names instead of numbers: theirs are the first 48
//! bits of a hash of the name, so that they are the same on every day and nothing has to be kept. Two of a million
//! projects share a number with a probability of 1 in 560; no tool takes such a number, so that nothing is mixed up then.

use std::time::{SystemTime, UNIX_EPOCH};

use fmail_api::{AgentName, MessageId, Timestamp, hex_sha256};

/// The number of the project with this key.
pub(crate) fn project(key: &str) -> u64 {
    number(&format!("project\0{key}"))
}

/// The number of an agent in the project with this key.
pub(crate) fn agent(key: &str, name: &AgentName) -> u64 {
    number(&format!("agent\0{key}\0{name}"))
}

fn number(text: &str) -> u64 {
    let hash = hex_sha256(text.as_bytes());
    u64::from_str_radix(&hash[..12], 16).unwrap_or_default().max(1)
}

/// The message that a text names: its number, or its id.
pub(crate) fn message(text: &str) -> Option<MessageId> {
    let text = text.trim();
    text.parse().ok().or_else(|| text.parse().ok().and_then(MessageId::from_number))
}

/// The name of a thread as clients see it. One that is named after its first message has that message's number.
pub(crate) fn thread(name: &str) -> String {
    match name.parse::<MessageId>() {
        Ok(id) => id.number().to_string(),
        Err(_) => name.into(),
    }
}

/// A time as clients write it: ISO 8601 with microseconds and an offset.
pub(crate) fn time(time: Timestamp) -> String {
    let seconds = time.whole_seconds().to_string();
    format!("{}.{:06}+00:00", seconds.trim_end_matches('Z'), time.subsec_nanos() / 1_000)
}

/// The time of day.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
}

/// When a message was sent. Its `time` has whole seconds; its id tells the rest, where it is of that second.
pub(crate) fn sent(id: MessageId, time: Timestamp) -> Timestamp {
    let spelled = id.time();
    if spelled.whole_seconds() == time { spelled } else { time }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_what_they_are_and_fit_into_javascript() {
        assert_eq!(project("/data/projects/brenner_bot"), 43_146_625_341_416);
        let greendog = "greendog".parse().unwrap();
        assert_ne!(agent("/a", &greendog), agent("/b", &greendog));
        for number in [project("/a"), agent("/a", &greendog)] {
            assert!((1..1 << 53).contains(&number));
        }
    }

    #[test]
    fn a_message_is_named_by_its_number_or_its_id() {
        let id: MessageId = "20260110-153000-0042".parse().unwrap();
        for text in ["1902222000042", " 1902222000042 ", "20260110-153000-0042"] {
            assert_eq!(message(text), Some(id), "{text}");
        }
        for text in ["msg-uuid-123", "", "1.5", "99999999999999999999"] {
            assert_eq!(message(text), None, "{text}");
        }
        assert_eq!(thread("20260110-153000-0042"), "1902222000042");
        assert_eq!(thread("RS-20251230-cell-fate"), "RS-20251230-cell-fate");
    }

    #[test]
    fn times_have_microseconds_and_an_offset() {
        let spelled: MessageId = "20260110-153000-0042".parse().unwrap();
        let second = spelled.time().whole_seconds();
        assert_eq!(time(second), "2026-01-10T15:30:00.000000+00:00");
        assert_eq!(time(sent(spelled, second)), "2026-01-10T15:30:00.004200+00:00");
        let other: Timestamp = "2026-01-09T00:00:00Z".parse().unwrap();
        assert_eq!(sent(spelled, other), other);
    }
}
