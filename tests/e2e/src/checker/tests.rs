//! Everything that can be wrong, made so by hand: the checker has to tell.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Journal, Message, Origin, Watched, check};

/// A small project that is in order, with what was sent and seen.
struct Project {
    top: TempDir,
    journals: Vec<Journal>,
    watches: Vec<Watched>,
}

const SENT: [(&str, &str, &str); 4] = [
    ("20260110-153000-0001", "alice", "task"),
    ("20260110-153000-0002", "alice", "@bob"),
    ("20260110-153000-0003", "alice", "task"),
    ("20260110-153000-0004", "alice", "build"),
];

impl Project {
    fn new() -> Project {
        let top = tempfile::tempdir().unwrap();
        let values: Vec<Value> = SENT
            .iter()
            .enumerate()
            .map(|(n, (id, from, to))| json!({"id": id, "from": from, "to": to, "body": {"number": n}}))
            .collect();
        let sent: Vec<Message> = values.iter().map(|value| Message::of(value).unwrap()).collect();
        let by_hand = json!({"id": "20260110-153000-0005", "from": "jq", "to": "task", "body": "by hand"});
        let old = json!({"id": "20200110-153000-0005", "from": "jq", "to": "task", "body": "old"});
        let of = |value: &Value| Message::of(value).unwrap();
        let watch = |name: &str, target: Option<&str>, seen: Vec<Message>| Watched {
            name: name.into(),
            agent: "bob".into(),
            target: target.map(Into::into),
            seen,
        };
        let everything: Vec<Message> = sent.iter().cloned().chain([of(&by_hand), of(&old)]).collect();
        let mailbox = sent.iter().filter(|message| message.to == "@bob").cloned().collect();
        let project = Project {
            journals: vec![
                Journal { origin: Origin::Acknowledged, sent },
                Journal { origin: Origin::ByHand, sent: vec![of(&by_hand)] },
                Journal { origin: Origin::Outdated, sent: vec![of(&old)] },
            ],
            watches: vec![watch("all", None, everything), watch("one", Some("@bob"), mailbox)],
            top,
        };
        values.iter().chain([&by_hand]).for_each(|value| project.put(value));
        project
    }

    fn place(&self, mailbox: &str, name: &str) -> PathBuf {
        let directory = match mailbox.strip_prefix('@') {
            Some(agent) => format!("dm/{agent}"),
            None => format!("topics/{mailbox}"),
        };
        fs::create_dir_all(self.top.path().join(&directory)).unwrap();
        self.top.path().join(directory).join(name)
    }

    fn put(&self, value: &Value) {
        let place = self.place(value["to"].as_str().unwrap(), &format!("{}.json", value["id"].as_str().unwrap()));
        fs::write(place, value.to_string()).unwrap();
    }

    fn wrong(&self) -> Vec<String> {
        check(self.top.path(), &self.journals, &self.watches)
    }

    /// Requires that exactly one thing is wrong, and that it is told like this.
    #[track_caller]
    fn finds(&self, parts: &[&str]) {
        let wrong = self.wrong();
        assert!(wrong.len() == 1 && parts.iter().all(|part| wrong[0].contains(part)), "{wrong:#?}");
    }
}

#[test]
fn a_project_in_order_has_nothing_wrong() {
    assert_eq!(Project::new().wrong(), [] as [&str; 0]);
}

#[test]
fn a_lost_message_is_found() {
    let project = Project::new();
    fs::remove_file(project.place("task", "20260110-153000-0003.json")).unwrap();
    project.finds(&["lost: 20260110-153000-0003"]);
    let project = Project::new();
    fs::remove_file(project.place("task", "20260110-153000-0005.json")).unwrap();
    project.finds(&["lost: 20260110-153000-0005", "ByHand"]);
}

#[test]
fn a_doubled_message_is_found() {
    let mut project = Project::new();
    project.put(&json!({"id": "20260110-153000-0009", "from": "alice", "to": "task", "body": {"number": 0}}));
    let wrong = project.wrong();
    assert!(wrong.iter().any(|text| text.starts_with("doubled: one body in")), "{wrong:?}");
    assert!(wrong.iter().any(|text| text.starts_with("nobody sent topics/task/20260110-153000-0009")), "{wrong:?}");
    // Doubled under the same id, in another mailbox.
    project = Project::new();
    let place = project.place("build", "20260110-153000-0001.json");
    fs::write(place, json!({"id": SENT[0].0, "from": "alice", "to": "build", "body": 1}).to_string()).unwrap();
    let wrong = project.wrong();
    assert!(wrong.iter().any(|text| text.starts_with("doubled: one id in")), "{wrong:?}");
}

#[test]
fn a_changed_a_torn_and_a_misplaced_message_are_found() {
    let project = Project::new();
    project.put(&json!({"id": SENT[0].0, "from": "alice", "to": "task", "body": {"number": 7}}));
    project.finds(&["changed: topics/task/20260110-153000-0001"]);
    let project = Project::new();
    fs::write(project.place("task", "20260110-153000-0001.json"), "{\"id\":").unwrap();
    let wrong = project.wrong();
    assert!(wrong[0].contains("is not whole") && wrong[1].contains("lost"), "{wrong:?}");
    let project = Project::new();
    let (from, to) = (project.place("task", "20260110-153000-0001.json"), project.place("task", "x.json"));
    fs::rename(from, to).unwrap();
    assert!(project.wrong()[0].contains("holds the id 20260110-153000-0001"));
    let project = Project::new();
    let name = "20260110-153000-0001.json";
    fs::rename(project.place("task", name), project.place("build", name)).unwrap();
    assert!(project.wrong()[0].contains("is addressed to task"));
}

#[test]
fn disorder_of_a_sender_is_found() {
    let mut project = Project::new();
    project.journals[0].sent.swap(0, 2);
    let wrong = project.wrong();
    assert!(wrong.iter().all(|text| text.starts_with("disordered: alice got ")) && !wrong.is_empty(), "{wrong:?}");
}

#[test]
fn an_id_that_was_given_twice_is_found() {
    let mut project = Project::new();
    let again = project.journals[0].sent[3].clone();
    project.journals.push(Journal { origin: Origin::Acknowledged, sent: vec![again] });
    project.finds(&["acknowledged for two messages"]);
}

#[test]
fn what_is_left_behind_is_found() {
    let project = Project::new();
    fs::create_dir(project.top.path().join("tmp")).unwrap();
    fs::write(project.top.path().join("tmp/message"), "").unwrap();
    fs::write(project.top.path().join("tmp/record"), "the next replacement takes this one away").unwrap();
    project.finds(&["left behind: tmp/message"]);
    let project = Project::new();
    project.put(&json!({"id": "20200110-153000-0005", "from": "jq", "to": "task", "body": "old"}));
    project.finds(&["gc left topics/task/20200110"]);
}

#[test]
fn what_a_watch_did_wrong_is_found() {
    let mut project = Project::new();
    project.watches[0].seen.remove(0);
    project.finds(&["all missed 20260110-153000-0001"]);
    let mut project = Project::new();
    let again = project.watches[0].seen[2].clone();
    project.watches[0].seen.push(again);
    project.finds(&["all showed 20260110-153000-0003 twice"]);
    let mut project = Project::new();
    project.watches[0].seen.swap(0, 2);
    project.finds(&["disordered: all showed 20260110-153000-0003 and then 20260110-153000-0001"]);
    let mut project = Project::new();
    project.watches[0].seen[1].body += 1;
    project.finds(&["all showed", "sent was"]);
    let mut project = Project::new();
    project.watches[1].agent = "carol".into();
    project.watches[1].target = None;
    let wrong = project.wrong();
    assert!(wrong[0].contains("which is for @bob"), "{wrong:?}");
    let mut project = Project::new();
    project.watches[1].seen[0].id = "20260110-153000-9999".into();
    let wrong = project.wrong();
    assert!(wrong[0].contains("which nobody sent") && wrong[1].contains("one missed"), "{wrong:?}");
}
