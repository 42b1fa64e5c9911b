//! A process is killed, another one is answered, and then the power goes: the second cannot know what the first had not
//! synced, and has to be right all the same.

use std::collections::BTreeSet;

use crate::account::Account;
use crate::common::{Project, scan};
use crate::explore::{Effort, clock, explore, is_full};
use crate::scenarios::{SMALL, foreign, keyed, note, to_two, two_before};
use crate::sites::Site;
use crate::stage::Stage;
use fmail_api::{Draft, Message, MessageId, Query};
use fmail_backends::FilesStore;
use serde_json::json;

/// Who is killed, in front of each of its changes in turn, and who comes behind.
pub struct Succession {
    pub name: &'static str,
    /// The killed process is a daemon whose journal has room for so many bytes.
    journal: Option<u64>,
    before: fn(&Stage),
    killed: fn(&Stage, &FilesStore),
    next: fn(&Stage),
}

pub static SUCCESSIONS: [Succession; 9] = [
    Succession {
        name: "a new topic",
        journal: None,
        before: two_before,
        killed: |stage, store| drop(stage.append(store, note("carol", "build", "killed"))),
        next: |stage| drop(stage.send(note("dave", "build", "next"))),
    },
    Succession {
        name: "a new project",
        journal: None,
        before: |_| {},
        killed: |stage, store| drop(stage.append(store, note("carol", "task", "killed"))),
        next: |stage| drop(stage.send(note("dave", "task", "next"))),
    },
    Succession {
        name: "several recipients",
        journal: None,
        before: two_before,
        killed: |stage, store| drop(stage.append(store, to_two("carol", "task", "@carol", "killed"))),
        next: |stage| drop(stage.send(note("dave", "@carol", "next"))),
    },
    Succession {
        name: "a key",
        journal: None,
        before: two_before,
        killed: |stage, store| drop(stage.append(store, once())),
        next: |stage| drop(stage.send(once())),
    },
    Succession {
        name: "an import",
        journal: None,
        before: two_before,
        killed: |stage, store| drop(stage.import(store, to_two_from_elsewhere())),
        next: |stage| {
            stage.import(&stage.process(), to_two_from_elsewhere()).unwrap();
        },
    },
    Succession {
        name: "a new directory of records",
        journal: None,
        before: two_before,
        killed: |stage, store| drop(stage.put(store, "mailbox/bob/20260110", json!({"read": 1}))),
        next: |stage| {
            stage.put(&stage.process(), "agents/dave", json!({"name": "dave"})).unwrap();
            stage.put(&stage.process(), "mailbox/bob/20260111", json!({"read": 2})).unwrap();
        },
    },
    Succession {
        name: "a daemon with a journal, then a command",
        journal: Some(8 * 1024),
        before: two_before,
        killed: |stage, store| drop(stage.append(store, once()).and_then(|_| stage.append(store, second()))),
        next: |stage| drop(stage.send(note("dave", "@carol", "next"))),
    },
    Succession {
        name: "a daemon with a full journal, then a daemon",
        journal: Some(SMALL),
        before: |stage| {
            two_before(stage);
            let daemon = stage.daemon(SMALL);
            for number in 0..4 {
                stage.append(&daemon, note("zoe", "task", &format!("earlier {number}"))).unwrap();
            }
        },
        killed: |stage, store| {
            let _ = stage.append(store, second()).and_then(|_| stage.append(store, note("erin", "task", "third")));
            let _ = stage.append(store, note("erin", "build", "fourth"));
        },
        next: |stage| {
            let daemon = stage.daemon(SMALL);
            drop(stage.append(&daemon, once()).unwrap());
            drop(stage.append(&daemon, note("dave", "build", "next")).unwrap());
        },
    },
    Succession {
        name: "a daemon with a journal, then a removal",
        journal: Some(8 * 1024),
        before: two_before,
        killed: |stage, store| drop(stage.append(store, second()).and_then(|_| stage.append(store, once()))),
        next: |stage| {
            let found = scan(&stage.process(), Query::default());
            let ids: BTreeSet<MessageId> = found.iter().map(|message| message.id).take(3).collect();
            stage.remove(&stage.process(), ids, None);
        },
    },
];

fn second() -> Draft {
    to_two("carol", "build", "@carol", "second")
}

fn once() -> Draft {
    keyed(to_two("carol", "task", "@bob", "once"), "key")
}

fn to_two_from_elsewhere() -> Message {
    let mut message = foreign("20260110-153000-0001", "task", "from elsewhere");
    message.more.recipients.push("@bob".parse().unwrap());
    message
}

impl Succession {
    /// The stage behind a kill in front of the change with this number; nothing when there were fewer changes. Power cuts are of
    /// interest at every moment of the next process, or in the end only, when everything is promised.
    pub fn play(&self, kill_at: usize, left_out: Option<Site>, at_every_moment: bool) -> Option<Stage> {
        let stage = Stage::on(Project::in_memory(), clock(), 1, left_out);
        (self.before)(&stage);
        let killed = match self.journal {
            Some(room) => stage.killed_daemon_at(kill_at, room),
            None => stage.killed_at(kill_at),
        };
        (self.killed)(&stage, &killed);
        drop(killed);
        if !stage.recorder.has_ended() {
            return None;
        }
        stage.look_from_here();
        (self.next)(&stage);
        stage.look();
        if !at_every_moment {
            stage.look_from_here();
        }
        Some(stage)
    }

    /// Kills in front of every change, and cuts the power behind the next process.
    pub fn explore(&self, left_out: Option<Site>) -> Result<usize, String> {
        self.explore_moments(left_out, is_full())
    }

    /// The same, with the power cut at every moment of the next process or in the end only.
    pub fn explore_moments(&self, left_out: Option<Site>, at_every_moment: bool) -> Result<usize, String> {
        let effort = Effort::full_or(100, 8);
        let mut states = 0;
        for kill_at in 0.. {
            let Some(stage) = self.play(kill_at, left_out, at_every_moment) else { break };
            let found = explore(&stage.recorder.recording(), Account::default(), &stage.clock, effort);
            states += found.map_err(|failure| format!("{}, killed at {kill_at}: {failure}", self.name))?;
        }
        Ok(states)
    }
}

fn survives(name: &str) {
    let succession = SUCCESSIONS.iter().find(|succession| succession.name == name).unwrap();
    match succession.explore(None) {
        Ok(states) => println!(
            "behind a kill, {name}: {states} states\ntorture power/kills seed={} states={states}",
            Effort::of(0).seed
        ),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn a_topic_that_a_dead_process_made_is_safe_before_the_next_answer() {
    survives("a new topic");
    survives("several recipients");
}

#[test]
fn a_project_that_a_dead_process_made_is_safe_before_the_next_answer() {
    survives("a new project");
}

#[test]
fn a_repeat_is_safe_where_the_first_sender_was_killed() {
    survives("a key");
}

#[test]
fn an_import_that_is_repeated_is_safe_where_the_first_was_killed() {
    survives("an import");
}

#[test]
fn what_a_dead_daemon_left_in_its_journal_is_settled_before_the_next_answer() {
    survives("a daemon with a journal, then a command");
    survives("a daemon with a full journal, then a daemon");
}

#[test]
fn what_a_dead_daemon_left_in_its_journal_is_safe_before_a_removal() {
    survives("a daemon with a journal, then a removal");
}

#[test]
fn a_directory_of_records_that_a_dead_process_made_is_safe_before_the_next_answer() {
    survives("a new directory of records");
}
