//! Where everything stands below `.fmail/`. The layout is SPEC.md's; what fmail adds is ignored by git.

use fmail_api::{AgentName, Message, MessageId, RecordKey, Target, Topic};

/// The directory of a project.
pub const TOP: &str = ".fmail";
/// Topic messages, one directory per topic.
pub const TOPICS: &str = "topics";
/// Direct messages, one directory per recipient.
pub const DIRECT: &str = "dm";
/// Agent records.
pub const AGENTS: &str = "agents";
/// All other records.
pub const RECORDS: &str = "records";
/// Broken files that were moved out of the way.
pub const QUARANTINE: &str = "quarantine";
/// Files that are not finished. They exist only while the lock is held.
pub const TEMPORARY: &str = "tmp";
/// The name of the temporary of a record.
pub const UNFINISHED_RECORD: &str = "record";
/// The lock.
pub const LOCK: &str = "lock";
/// The arrival index.
pub const INDEX: &str = "index";
/// The journal of a daemon.
pub const JOURNAL: &str = "journal";
/// The project's record.
pub const PROJECT: &str = "project.json";

/// Where git finds what it must not take.
pub const IGNORED: &str = ".gitignore";
/// What git must not take from a project.
pub const GITIGNORE: &str = "# Written by fmail. Messages, agents and project.json may be committed; these may not.\n\
/lock\n/index\n/tmp/\n/journal\n/forged.sock\n/forged.lock\n/records/presence/\n/records/leases.json\n/records/hosts/\n\
/records/mailbox/*/tally.json\n";

/// The directory of a target: the parent, its own name, and its permissions.
pub fn target_dir(target: &Target) -> (&'static str, &str, u32) {
    match target {
        Target::Topic(topic) => (TOPICS, topic.as_str(), 0o755),
        Target::Agent(agent) => (DIRECT, agent.as_str(), 0o700),
    }
}

/// The permissions of the parent directory of topics or mailboxes.
pub fn parent_mode(parent: &str) -> u32 {
    if parent == TOPICS || parent == AGENTS { 0o755 } else { 0o700 }
}

/// The name of a message's file.
pub fn file_name(id: MessageId) -> String {
    format!("{id}.json")
}

/// What the file of a message holds: its fields, a line each.
pub fn file_text(message: &Message) -> String {
    // Room for what most messages need, so that it does not grow field by field.
    let body = message.body.as_str().map_or(0, str::len);
    let mut text = Vec::with_capacity(body + body / 16 + 256);
    match serde_json::to_writer_pretty(&mut text, message) {
        Ok(()) => text.push(b'\n'),
        Err(_) => text.clear(),
    }
    String::from_utf8(text).unwrap_or_default()
}

/// The name of the temporary of the `number`-th message of a group. The one with number 0 is there before all others and
/// as long as any of them: where it is missing, nothing is left to settle.
pub fn unfinished_name(number: usize) -> String {
    if number == 0 { "message".into() } else { format!("message-{number}") }
}

/// Whether a name is that of the temporary of a message.
pub fn is_unfinished_name(name: &str) -> bool {
    let rest = name.strip_prefix("message-");
    name == "message" || rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The id that a file's name spells, when it is the name of a message.
pub fn id_of(name: &str) -> Option<MessageId> {
    name.strip_suffix(".json")?.parse().ok()
}

/// A message's place as people write it: its path below `.fmail/`.
pub fn place(target: &Target, id: MessageId) -> String {
    let (parent, name, _) = target_dir(target);
    format!("{parent}/{name}/{id}.json")
}

/// The target that a directory belongs to; `None` for a name that no target can have.
pub fn target_of(parent: &str, name: &str) -> Option<Target> {
    let canonical = match parent {
        TOPICS => Target::Topic(name.parse::<Topic>().ok()?),
        _ => Target::Agent(name.parse::<AgentName>().ok()?),
    };
    // Parsing lower-cases; a directory `Task` must not be read as the topic `task`, which has its own.
    (target_dir(&canonical).1 == name).then_some(canonical)
}

/// The directories above a record's file, and the file's name.
pub fn record_path(key: &RecordKey) -> (Vec<&str>, String) {
    let mut segments: Vec<&str> = key.segments().collect();
    let last = segments.pop().unwrap_or_default();
    let file = format!("{last}.json");
    if segments.as_slice() == [AGENTS] || (segments.is_empty() && last == "project") {
        return (segments, file);
    }
    segments.insert(0, RECORDS);
    (segments, file)
}

/// The permissions of a record's file: agents and the project can be read by all, the rest concerns the owner.
pub fn record_mode(key: &RecordKey) -> u32 {
    if key.is_under(AGENTS) || key.as_str() == "project" { 0o644 } else { 0o600 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_the_specification_s() {
        let id: MessageId = "20260110-153000-0001".parse().unwrap();
        assert_eq!(place(&"task".parse().unwrap(), id), "topics/task/20260110-153000-0001.json");
        assert_eq!(place(&"@reviewer".parse().unwrap(), id), "dm/reviewer/20260110-153000-0001.json");
        let path = |key: &str| {
            let key: RecordKey = key.parse().unwrap();
            let (dirs, file) = record_path(&key);
            format!("{}/{file}", dirs.join("/"))
        };
        assert_eq!(path("agents/architect"), "agents/architect.json");
        assert_eq!(path("project"), "/project.json");
        assert_eq!(path("mailbox/bob/20260110"), "records/mailbox/bob/20260110.json");
    }

    #[test]
    fn only_temporaries_of_messages_are_settled() {
        assert!((0..200).all(|number| is_unfinished_name(&unfinished_name(number))));
        for name in ["record", "index", "message-", "message-x", "message1", "messages", "message-1.json"] {
            assert!(!is_unfinished_name(name), "{name}");
        }
    }

    #[test]
    fn only_canonical_directories_are_targets() {
        assert!(target_of(TOPICS, "task").is_some() && target_of(DIRECT, "bob").is_some());
        for name in ["Task", " task", ".git", "a b", ""] {
            assert!(target_of(TOPICS, name).is_none(), "{name:?}");
        }
        assert_eq!(id_of("20260110-153000-0001.json"), "20260110-153000-0001".parse().ok());
        assert!(id_of("notes.json").is_none() && id_of("20260110-153000-0001.json.tmp").is_none());
    }
}
