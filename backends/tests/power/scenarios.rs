//! What the machine was doing when the power went.

use std::time::Duration;

use fmail_api::{Clock, Draft, Message, MessageId, Timestamp};
use fmail_backends::FilesStore;
use serde_json::json;

use crate::stage::Stage;

/// Something that a project goes through.
pub struct Scenario {
    pub name: &'static str,
    pub play: fn(&Stage),
}

/// All scenarios that are played once, from an empty directory.
pub const SCENARIOS: [Scenario; 24] = [
    Scenario { name: "the first message of a project", play: first },
    Scenario { name: "single appends", play: singles },
    Scenario { name: "new topics and mailboxes", play: new_mailboxes },
    Scenario { name: "a clone, which has no empty directories", play: clone },
    Scenario { name: "several recipients", play: several_recipients },
    Scenario { name: "keys", play: keys },
    Scenario { name: "a group of one", play: |stage| groups(stage, &[1]) },
    Scenario { name: "groups of two", play: |stage| groups(stage, &[2, 2]) },
    Scenario { name: "a group of sixteen", play: |stage| groups(stage, &[16]) },
    Scenario { name: "imports and relocations", play: imports },
    Scenario { name: "records", play: records },
    Scenario { name: "removals", play: removals },
    Scenario { name: "an index that is gone", play: rebuild },
    Scenario { name: "a group of one through the journal", play: |stage| journaled(stage, ROOM, &[1]) },
    Scenario { name: "groups of two through the journal", play: |stage| journaled(stage, ROOM, &[2, 2]) },
    Scenario { name: "a group of sixteen through the journal", play: |stage| journaled(stage, ROOM, &[16]) },
    Scenario { name: "a journal that is full", play: |stage| journaled(stage, SMALL, &[2, 1, 2, 2, 2, 2, 1, 2]) },
    Scenario { name: "a journal that is emptied at once", play: swept },
    Scenario { name: "a journal that is emptied beside", play: |stage| emptied_beside(stage, &stage.daemon(SMALL)) },
    Scenario {
        name: "a journal that is emptied beside, at once",
        play: |stage| emptied_beside(stage, &stage.sweeping_daemon(SMALL)),
    },
    Scenario { name: "a checkpoint in between", play: checkpoints },
    Scenario { name: "commands beside a journal", play: beside },
    Scenario { name: "removals beside a journal", play: journaled_removals },
    Scenario { name: "imports through the journal", play: journaled_imports },
];

/// Room for everything that a scenario does.
const ROOM: u64 = 24 * 1024;
/// Room for few messages: it is emptied and used again.
pub const SMALL: u64 = 2 * 1024;

/// A message from somebody.
pub fn note(from: &str, to: &str, body: &str) -> Draft {
    Draft::new(from.parse().unwrap(), to.parse().unwrap(), body)
}

/// The same with a key.
pub fn keyed(draft: Draft, key: &str) -> Draft {
    Draft { key: Some(key.into()), ..draft }
}

/// A message to two mailboxes.
pub fn to_two(from: &str, to: &str, also: &str, body: &str) -> Draft {
    let mut draft = note(from, to, body);
    draft.more.recipients.push(also.parse().unwrap());
    draft
}

/// A message from elsewhere, with its id.
pub fn foreign(id: &str, to: &str, body: &str) -> Message {
    let id: MessageId = id.parse().unwrap();
    note("peer", to, body).into_message(id, "2026-01-10T15:30:00Z".parse().unwrap())
}

/// Two messages that were sent before anything of interest happens.
pub fn two_before(stage: &Stage) {
    stage.send(note("alice", "task", "before 1"));
    stage.send(note("bob", "@bob", "before 2"));
    stage.look_from_here();
}

fn first(stage: &Stage) {
    stage.send(note("alice", "task", "first"));
    // The project keeps its id and its age.
    stage.promise(&stage.process(), "project");
}

fn singles(stage: &Stage) {
    two_before(stage);
    stage.send(note("carol", "task", "one"));
    stage.send(note("dave", "@bob", "two"));
    // Longer than a block, so that it can be there in part.
    stage.send(note("erin", "task", &"long ".repeat(2_000)));
}

fn new_mailboxes(stage: &Stage) {
    two_before(stage);
    stage.send(note("carol", "build", "one"));
    stage.send(note("dave", "@carol", "two"));
    stage.send(note("erin", "build", "three"));
}

/// git keeps no empty directories, and what it checked out was written long ago.
fn clone(stage: &Stage) {
    std::fs::create_dir(stage.project.path("")).unwrap();
    stage.project.plant("project.json", r#"{"id":"proj-1","created":"2026-01-10T15:30:00Z","format":1}"#);
    stage.project.plant(".gitignore", "/lock\n/index\n/tmp/\n");
    stage.recorder.found_again(stage.project.root());
    stage.send(note("carol", "task", "one"));
    stage.send(note("dave", "@bob", "two"));
}

fn several_recipients(stage: &Stage) {
    two_before(stage);
    stage.send(to_two("carol", "task", "@bob", "to two"));
    let mut draft = to_two("dave", "task", "build", "to four");
    draft.more.cc = vec!["@erin".parse().unwrap(), "@bob".parse().unwrap()];
    stage.send(draft);
}

fn keys(stage: &Stage) {
    two_before(stage);
    let draft = keyed(note("carol", "task", "once"), "key 1");
    let sent = stage.send(draft.clone());
    assert_eq!(stage.send(draft).id, sent.id);
    stage.send(keyed(to_two("dave", "task", "@bob", "once to two"), "key 2"));
    stage.send(note("erin", "task", "behind"));
}

/// What a daemon does. The messages go to old and new mailboxes, with keys, to one and to two.
fn groups(stage: &Stage, sizes: &[usize]) {
    two_before(stage);
    send_groups(stage, &stage.process(), 0, sizes);
}

fn journaled(stage: &Stage, room: u64, sizes: &[usize]) {
    two_before(stage);
    send_groups(stage, &stage.daemon(room), 0, sizes);
}

fn swept(stage: &Stage) {
    two_before(stage);
    send_groups(stage, &stage.sweeping_daemon(SMALL), 0, &[2, 2, 2, 2, 2, 2, 2]);
}

/// As a daemon does it: while it is brought to its mailboxes what the journal holds, nothing comes, or a group, or so many that
/// they have to empty it themselves.
fn emptied_beside(stage: &Stage, daemon: &FilesStore) {
    two_before(stage);
    send_groups(stage, daemon, 0, &[2]);
    stage.empty_beside(daemon, || ());
    send_groups(stage, daemon, 2, &[1]);
    stage.empty_beside(daemon, || send_groups(stage, daemon, 3, &[2]));
    stage.empty_beside(daemon, || send_groups(stage, daemon, 5, &[2, 2, 2, 1]));
    send_groups(stage, daemon, 12, &[1]);
}

fn checkpoints(stage: &Stage) {
    two_before(stage);
    let daemon = stage.daemon(ROOM);
    send_groups(stage, &daemon, 0, &[2]);
    daemon.checkpoint().unwrap();
    send_groups(stage, &daemon, 2, &[2]);
    daemon.checkpoint().unwrap();
    // What the next daemon finds is clean, and it goes on from there.
    let next = stage.daemon(ROOM);
    send_groups(stage, &next, 4, &[1, 1]);
}

/// A daemon and commands take turns; the commands sync what they send and leave the journal as it is.
fn beside(stage: &Stage) {
    two_before(stage);
    let daemon = stage.daemon(SMALL);
    for number in 0..3 {
        send_groups(stage, &daemon, 2 * number, &[2]);
        stage.recorder.next_process(None);
        let draft = keyed(note("carol", "build", &format!("command {number}")), &format!("command {number}"));
        stage.send(draft.clone());
        // A key of the daemon's own message, asked for by a command.
        stage.send(draft);
    }
    stage.recorder.forget(&stage.project.path("index"));
    send_groups(stage, &daemon, 6, &[2]);
}

fn journaled_removals(stage: &Stage) {
    two_before(stage);
    let daemon = stage.daemon(ROOM);
    let one = stage.append(&daemon, to_two("carol", "task", "@bob", "one")).unwrap();
    let two = stage.append(&daemon, note("dave", "task", "two")).unwrap();
    stage.append(&daemon, note("erin", "@bob", "three")).unwrap();
    stage.remove(&daemon, [one.id].into(), None);
    stage.append(&daemon, note("frank", "task", "four")).unwrap();
    stage.remove(&stage.process(), [two.id].into(), None);
    stage.append(&daemon, note("grace", "task", "five")).unwrap();
}

fn journaled_imports(stage: &Stage) {
    two_before(stage);
    import_some(stage, &stage.daemon(SMALL));
}

/// Groups of these sizes, their messages numbered from here on.
fn send_groups(stage: &Stage, daemon: &FilesStore, mut number: usize, sizes: &[usize]) {
    for size in sizes {
        let mut drafts = Vec::new();
        for _ in 0..*size {
            number += 1;
            let (from, body) = (format!("sender-{number}"), format!("group {number}"));
            drafts.push(match number % 4 {
                0 => to_two(&from, "task", "@bob", &body),
                1 => note(&from, "task", &body),
                2 => note(&from, "build", &body),
                _ => keyed(note(&from, "@bob", &body), &body),
            });
        }
        stage.group(daemon, drafts);
    }
}

fn imports(stage: &Stage) {
    two_before(stage);
    import_some(stage, &stage.process());
}

fn import_some(stage: &Stage, relay: &FilesStore) {
    stage.import(relay, foreign("20260110-153000-0001", "task", "as it is")).unwrap();
    stage.import(relay, foreign("20260110-153000-0001", "build", "taken, so elsewhere")).unwrap();
    let mut two = foreign("20260110-153000-0002", "task", "to two");
    two.more.recipients.push("@bob".parse().unwrap());
    stage.import(relay, two).unwrap();
    let ahead = MessageId::at(stage.clock.now().after(Duration::from_secs(600))).to_string();
    stage.import(relay, foreign(&ahead, "task", "too far ahead")).unwrap();
}

fn records(stage: &Stage) {
    two_before(stage);
    stage.put(&stage.process(), "agents/alice", json!({"name": "alice", "status": "new"})).unwrap();
    stage.put(&stage.process(), "agents/alice", json!({"name": "alice", "status": "changed"})).unwrap();
    stage.put(&stage.process(), "mailbox/bob/20260110", json!({"read": "x".repeat(6_000)})).unwrap();
    stage.put(&stage.process(), "mailbox/bob/20260110", json!({"read": "y".repeat(3_000)})).unwrap();
    stage.put(&stage.process(), "leases", json!({"paths": []})).unwrap();
    stage.delete(&stage.process(), "agents/alice").unwrap();
    stage.put(&stage.process(), "agents/carol", json!({"name": "carol"})).unwrap();
}

fn removals(stage: &Stage) {
    two_before(stage);
    let relay = stage.process();
    stage.import(&relay, foreign("20200110-153000-0001", "task", "new, with an old id")).unwrap();
    let one = stage.send(to_two("carol", "task", "@bob", "one"));
    stage.send(note("dave", "task", "two"));
    stage.look_from_here();
    stage.remove(&stage.process(), [one.id].into(), None);
    stage.send(note("erin", "task", "three"));
    let before: Timestamp = "2026-01-11".parse().unwrap();
    stage.remove(&stage.process(), ["20200110-153000-0001".parse().unwrap()].into(), Some(before));
    stage.send(note("erin", "@bob", "four"));
}

fn rebuild(stage: &Stage) {
    two_before(stage);
    stage.send(to_two("carol", "task", "@bob", "one"));
    stage.recorder.forget(&stage.project.path("index"));
    stage.send(keyed(note("dave", "task", "two"), "key"));
}
