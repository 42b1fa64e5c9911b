//! Everything that can be wrong, made so by hand: the checker has to tell.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Account, Journal, Listed, Mark, Message, Origin, Watched, check, checksum};

/// Two small hosts that are in order, with what was sent, seen and done.
struct Project {
    top: TempDir,
    account: Account,
}

/// Id, sender, mailboxes.
const SENT: [(&str, &str, &[&str]); 5] = [
    ("20260110-153000-0001", "alice", &["task"]),
    ("20260110-153000-0002", "alice", &["@bob"]),
    ("20260110-153000-0003", "alice", &["task"]),
    ("20260110-153000-0004", "alice", &["build"]),
    ("20260110-153000-0006", "alice", &["@bob", "@carol", "task"]),
];

fn value(id: &str, from: &str, to: &[&str], marker: &str) -> Value {
    let mut value = json!({"id": id, "from": from, "to": to[0], "body": {"marker": marker, "text": "…\u{e9}\""}});
    if to.len() > 1 {
        value["recipients"] = json!(to[1..]);
    }
    value
}

impl Project {
    fn new() -> Project {
        let top = tempfile::tempdir().unwrap();
        let values: Vec<Value> =
            SENT.iter().enumerate().map(|(n, (id, from, to))| value(id, from, to, &format!("m{n}"))).collect();
        let by_hand = value("20260110-153000-0005", "jq", &["task"], "by hand");
        let old = value("20200110-153000-0005", "jq", &["task"], "old");
        // Sent on the other host, with an id that was taken here.
        let other = value("20260110-153000-0003", "dave", &["build"], "other");
        let mut imported = value("20260110-153000-0007", "dave", &["build"], "other");
        imported["origin_id"] = "20260110-153000-0003".into();
        let of = |value: &Value| Message::of(value).unwrap();
        let journal = |host, origin, values: &[&Value]| {
            let sent = values.iter().map(|value| of(value)).collect();
            Journal { host, origin, sent }
        };
        let watch = |name: &str, target: Option<&str>, seen: Vec<Message>| Watched {
            host: 0,
            name: name.into(),
            agent: "bob".into(),
            target: target.map(Into::into),
            seen,
        };
        let everything = values.iter().chain([&by_hand, &old, &imported]).map(of).collect();
        let mailbox = [&values[1], &values[4]].map(of).to_vec();
        let list = |host, folder, markers: &[&str]| {
            let markers = markers.iter().map(ToString::to_string).collect();
            Listed { host, agent: "bob".into(), folder, markers }
        };
        let account = Account {
            journals: vec![
                journal(0, Origin::Acknowledged, &values.iter().collect::<Vec<_>>()),
                journal(0, Origin::ByHand, &[&by_hand]),
                journal(0, Origin::Outdated, &[&old]),
                journal(1, Origin::Acknowledged, &[&other]),
            ],
            watches: vec![watch("all", None, everything), watch("one", Some("@bob"), mailbox)],
            marks: vec![
                Mark { host: 0, agent: "bob".into(), what: "archived", marker: "m1".into() },
                Mark { host: 1, agent: "bob".into(), what: "read", marker: "m4".into() },
            ],
            listed: vec![list(0, "unread", &[]), list(0, "open", &["m4"]), list(1, "archived", &["m1"])],
        };
        let project = Project { top, account };
        for message in values.iter().chain([&by_hand]) {
            project.put(0, message);
        }
        // Here, what alice sent third has another id, since dave had it first.
        values.iter().enumerate().filter(|(n, _)| *n != 2).for_each(|(_, message)| project.put(1, message));
        let mut moved = values[2].clone();
        moved["id"] = "20260110-153000-0008".into();
        moved["origin_id"] = values[2]["id"].clone();
        [&moved, &by_hand, &other].into_iter().for_each(|message| project.put(1, message));
        project.put(0, &imported);
        fs::create_dir_all(project.store(0).join("records/mailbox/bob")).unwrap();
        fs::write(project.record(), "{}").unwrap();
        project
    }

    fn store(&self, host: usize) -> PathBuf {
        self.top.path().join(host.to_string())
    }

    fn record(&self) -> PathBuf {
        self.store(0).join("records/mailbox/bob/20260110.json")
    }

    fn place(&self, host: usize, mailbox: &str, name: &str) -> PathBuf {
        let directory = match mailbox.strip_prefix('@') {
            Some(agent) => self.store(host).join(format!("dm/{agent}")),
            None => self.store(host).join(format!("topics/{mailbox}")),
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).unwrap();
        directory.join(name)
    }

    /// Puts a message into all of its mailboxes.
    fn put(&self, host: usize, value: &Value) {
        for mailbox in Message::of(value).unwrap().to {
            let place = self.place(host, &mailbox, &format!("{}.json", value["id"].as_str().unwrap()));
            let mut file =
                fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(place).unwrap();
            std::io::Write::write_all(&mut file, value.to_string().as_bytes()).unwrap();
        }
    }

    fn wrong(&self) -> Vec<String> {
        check(&[self.store(0), self.store(1)], &self.account).wrong
    }

    /// Requires that exactly one thing is wrong, and that it is told like this.
    #[track_caller]
    fn finds(&self, parts: &[&str]) {
        let wrong = self.wrong();
        assert!(wrong.len() == 1 && parts.iter().all(|part| wrong[0].contains(part)), "{wrong:#?}");
    }

    /// Requires that this is among the things that are wrong.
    #[track_caller]
    fn finds_among_others(&self, part: &str) {
        let wrong = self.wrong();
        assert!(wrong.iter().any(|text| text.contains(part)), "{wrong:#?}");
    }
}

#[test]
fn hosts_in_order_have_nothing_wrong_and_everything_is_counted() {
    let project = Project::new();
    let verdict = check(&[project.store(0), project.store(1)], &project.account);
    assert_eq!(verdict.wrong, [] as [&str; 0]);
    let counts = ["sent", "files", "seen", "listed", "marks", "under another id"].map(|what| verdict.count(what));
    assert_eq!(counts, [8, 18, 10, 2, 2, 2]);
}

#[test]
fn a_checksum_is_that_of_zlib() {
    assert_eq!(checksum(&json!({"marker": "m", "text": "é"})), 0xac5e_390a);
}

#[test]
fn a_lost_message_is_found() {
    let project = Project::new();
    fs::remove_file(project.place(0, "task", "20260110-153000-0003.json")).unwrap();
    project.finds(&["host 0: lost: 20260110-153000-0003", "task"]);
    let project = Project::new();
    fs::remove_file(project.place(1, "task", "20260110-153000-0005.json")).unwrap();
    project.finds(&["host 1: lost: 20260110-153000-0005", "by_hand"]);
}

#[test]
fn a_message_that_is_in_some_of_its_mailboxes_only_is_found() {
    let project = Project::new();
    fs::remove_file(project.place(0, "@carol", "20260110-153000-0006.json")).unwrap();
    project.finds(&["host 0: lost: 20260110-153000-0006", "in @carol"]);
}

#[test]
fn a_doubled_message_is_found() {
    let project = Project::new();
    project.put(0, &value("20260110-153000-0009", "alice", &["task"], "m0"));
    project.finds_among_others("doubled: m0 is in task twice");
    // In another mailbox, under another id.
    let project = Project::new();
    project.put(1, &value("20260110-153000-0009", "alice", &["build"], "m0"));
    project.finds_among_others("host 1: doubled: m0 is ");
    // One id for two messages.
    let project = Project::new();
    project.put(0, &value(SENT[0].0, "alice", &["build"], "m7"));
    project.finds_among_others("doubled: one id for ");
}

#[test]
fn a_message_that_nobody_sent_is_found() {
    let project = Project::new();
    project.put(1, &value("20260110-153000-0009", "mallory", &["task"], "m9"));
    project.finds(&["host 1: nobody sent m9", "task"]);
}

#[test]
fn a_changed_a_torn_and_a_misplaced_message_are_found() {
    let project = Project::new();
    let mut changed = value(SENT[0].0, "alice", SENT[0].2, "m0");
    changed["body"]["text"] = "?".into();
    project.put(0, &changed);
    project.finds(&["host 0: changed: 20260110-153000-0001"]);
    let project = Project::new();
    project.put(1, &value(SENT[0].0, "mallory", SENT[0].2, "m0"));
    project.finds(&["host 1: changed: 20260110-153000-0001", "mallory"]);
    let project = Project::new();
    fs::write(project.place(0, "task", "20260110-153000-0001.json"), "{\"id\":").unwrap();
    let wrong = project.wrong();
    assert!(wrong[0].contains("is not whole") && wrong[1].contains("lost"), "{wrong:?}");
    let project = Project::new();
    let (from, to) =
        (project.place(0, "task", "20260110-153000-0001.json"), project.place(0, "task", "20260110-1-1.json"));
    fs::rename(from, to).unwrap();
    project.finds_among_others("topics/task/20260110-1-1.json is no message");
    let project = Project::new();
    let name = "20260110-153000-0001.json";
    fs::rename(project.place(0, "task", name), project.place(0, "task", "20260110-153000-0011.json")).unwrap();
    project.finds(&["holds the id 20260110-153000-0001"]);
    let project = Project::new();
    fs::rename(project.place(0, "task", name), project.place(0, "build", name)).unwrap();
    project.finds_among_others("is addressed to task");
}

#[test]
fn a_message_that_has_another_id_than_was_acknowledged_is_found() {
    let mut project = Project::new();
    project.account.journals[0].sent[0].id = "20260110-153000-0000".into();
    project.finds_among_others("m0 was sent as 20260110-153000-0000 and says that it was 20260110-153000-0001");
    // An origin that is right does not excuse another id where it was acknowledged.
    let project = Project::new();
    fs::remove_file(project.place(0, "build", "20260110-153000-0004.json")).unwrap();
    let mut moved = value("20260110-153000-0009", "alice", &["build"], "m3");
    moved["origin_id"] = SENT[3].0.into();
    project.put(0, &moved);
    project.finds_among_others("m3 was acknowledged as 20260110-153000-0004 and is 20260110-153000-0009");
}

#[test]
fn disorder_of_a_sender_is_found() {
    let mut project = Project::new();
    project.account.journals[0].sent.swap(0, 2);
    project.finds_among_others("disordered: alice got 20260110-153000-0003 and then 20260110-153000-0002");
}

#[test]
fn an_id_that_was_given_twice_is_found() {
    let mut project = Project::new();
    let mut again = project.account.journals[0].sent[3].clone();
    again.marker = "again".into();
    project.account.journals.push(Journal { host: 0, origin: Origin::Acknowledged, sent: vec![again] });
    project.finds_among_others("20260110-153000-0004 was acknowledged for two messages: m3 and again");
}

#[test]
fn what_is_left_behind_is_found() {
    let project = Project::new();
    fs::create_dir(project.store(1).join("tmp")).unwrap();
    fs::write(project.store(1).join("tmp/message"), "").unwrap();
    fs::write(project.store(1).join("tmp/record"), "the next replacement takes this one away").unwrap();
    fs::write(project.store(1).join("journal"), "no concern of the checker").unwrap();
    project.finds(&["host 1: left behind: tmp/message"]);
    let project = Project::new();
    project.put(1, &value("20200110-153000-0005", "jq", &["task"], "old"));
    project.finds(&["host 1: gc left 20200110"]);
}

#[test]
fn mail_that_others_can_read_and_a_torn_record_are_found() {
    let project = Project::new();
    let place = project.place(0, "@bob", "20260110-153000-0002.json");
    fs::set_permissions(place, fs::Permissions::from_mode(0o644)).unwrap();
    project.finds(&["wrong mode: dm/bob/20260110-153000-0002.json has 0644, not 0600"]);
    let project = Project::new();
    fs::set_permissions(project.store(0).join("dm/bob"), fs::Permissions::from_mode(0o755)).unwrap();
    project.finds(&["wrong mode: dm/bob has 0755, not 0700"]);
    let project = Project::new();
    fs::write(project.record(), "{\"read\":").unwrap();
    project.finds(&["the record records/mailbox/bob/20260110.json is not whole"]);
}

#[test]
fn what_a_watch_did_wrong_is_found() {
    let mut project = Project::new();
    project.account.watches[0].seen.remove(0);
    project.finds(&["all missed m0 (20260110-153000-0001"]);
    let mut project = Project::new();
    let again = project.account.watches[0].seen[2].clone();
    project.account.watches[0].seen.push(again);
    project.finds(&["all showed m2 (20260110-153000-0003) twice"]);
    let mut project = Project::new();
    project.account.watches[0].seen.swap(0, 1);
    project.finds(&["disordered: all showed 20260110-153000-0002 and then 20260110-153000-0001"]);
    let mut project = Project::new();
    project.account.watches[0].seen[1].sum += 1;
    project.finds(&["all showed", "sent was"]);
    let mut project = Project::new();
    project.account.watches[1].agent = "eve".into();
    project.account.watches[1].target = None;
    project.finds_among_others("one showed m1, which is for @bob");
    let mut project = Project::new();
    project.account.watches[1].seen[0].marker = "m9".into();
    let wrong = project.wrong();
    assert!(wrong[0].contains("which nobody sent") && wrong[1].contains("one missed"), "{wrong:?}");
    // What came from another host, under an id that it does not have here.
    let mut project = Project::new();
    project.account.watches[0].seen[7].id = "20260110-153000-0003".into();
    project.finds(&["all showed other as 20260110-153000-0003, and it is 20260110-153000-0007"]);
}

#[test]
fn a_farewell_is_due_on_its_own_host_only() {
    let mut project = Project::new();
    project.account.journals[3].origin = Origin::Farewell;
    project.account.watches[0].seen.pop();
    assert_eq!(project.wrong(), [] as [&str; 0]);
    project.account.watches[0].host = 1;
    project.finds_among_others("all missed other");
}

#[test]
fn a_folder_that_is_wrong_is_found() {
    let mut project = Project::new();
    project.account.listed[1].markers.clear();
    project.finds(&["open of bob on host 0 does not list m4"]);
    let mut project = Project::new();
    project.account.listed[0].markers.push("m4".into());
    project.finds(&["unread of bob on host 0 lists m4, which does not belong there"]);
    let mut project = Project::new();
    project.account.listed[2].markers.push("m1".into());
    project.finds(&["archived of bob on host 1 lists m1 2 times"]);
    let mut project = Project::new();
    project.account.marks.pop();
    project.finds(&["unread of bob on host 0 does not list m4"]);
}
