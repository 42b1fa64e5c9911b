//! A cloned repository is hostile: whatever its `.fmail/` contains, nothing outside is read, written, run or dialled, and
//! no command hangs.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fmail_e2e::{Sandbox, assert_same, tree};
use serde_json::json;

const SECRET: &str = "canary-7f3a";

/// Everything that a user might run in a clone.
const COMMANDS: &[&[&str]] = &[
    &["log"],
    &["log", "task", "--json"],
    &["log", "@me"],
    &["log", "@victim", "--allow-other-dm"],
    &["watch", "--timeout", "80ms"],
    &["watch", "--timeout", "80ms", "--since", "2020-01-01"],
    &["send", "task", "x"],
    &["send", "fresh", "x"],
    &["send", "@victim", "x"],
    &["send", "task", "x", "--reply-to", "0001"],
    &["who"],
    &["topics"],
    &["register", "bob"],
    &["register"],
    &["status"],
    &["status", "busy"],
    &["gc", "--days", "1"],
    &["gc", "--dry-run"],
    &["quarantine", "list"],
    &["quarantine", "isolate", "topics/task/20260110-153000-0001.json"],
    &["quarantine", "isolate", "agents/x.json"],
    &["quarantine", "restore", "topics/task/20260110-153000-0001.json"],
    &["init"],
    &["init", "--project", "mine"],
    &["whoami"],
    &["config", "show", "--origin"],
];

/// A clone, and next to it the directory that must stay as it is, with a message that looks right and holds a secret.
struct Clone {
    sandbox: Sandbox,
    outside: PathBuf,
}

impl Clone {
    fn new() -> Clone {
        let sandbox = Sandbox::new();
        let outside = sandbox.outside().join("secrets");
        for directory in ["topics/task", "dm/victim", "dm/me", "agents", "task"] {
            fs::create_dir_all(outside.join(directory)).expect("own directory");
        }
        let message = |to: &str| {
            let id = "20260110-153000-0001";
            json!({"id": id, "from": "a", "to": to, "time": "2026-01-10T15:30:00Z", "body": SECRET}).to_string()
        };
        let file = "20260110-153000-0001.json";
        for (place, to) in [("topics/task", "task"), ("task", "task"), ("dm/victim", "@victim"), ("dm/me", "@me")] {
            fs::write(outside.join(place).join(file), message(to)).expect("own file");
        }
        fs::write(outside.join("message.json"), message("task")).expect("own file");
        let agent = json!({"name": "x", "status": SECRET, "first_seen": "2026-01-10T15:30:00Z",
            "last_seen": "2026-01-10T15:30:00Z"});
        fs::write(outside.join("agents/x.json"), agent.to_string()).expect("own file");
        fs::write(outside.join("project.json"), json!({"id": SECRET, "created": "2026-01-10T15:30:00Z"}).to_string())
            .expect("own file");
        fs::write(outside.join("text"), SECRET).expect("own file");
        Clone { sandbox, outside }
    }

    /// A path below `.fmail` of the clone, with the directories above it.
    fn place(&self, path: &str) -> PathBuf {
        let path = self.sandbox.store().join(path);
        fs::create_dir_all(path.parent().expect("below the project")).expect("own directory");
        path
    }

    fn link(&self, place: &str, to: &str) -> &Self {
        symlink(self.outside.join(to), self.place(place)).expect("own directory");
        self
    }

    /// Runs everything; the outside must be neither seen nor touched, and nothing may take long.
    #[track_caller]
    fn holds(&self) {
        let before = tree(&self.outside);
        for args in COMMANDS {
            let output = self.sandbox.agent("me").args(*args).spawn().wait_within(Duration::from_secs(20));
            assert!(output.code < 100, "{args:?} {output}");
            // What stands in the way stays there: nobody is told to try again (12, unavailable).
            assert_ne!(output.code, 12, "{args:?} {output}");
            assert!(!output.stdout.contains(SECRET) && !output.stderr.contains(SECRET), "{args:?} read it\n{output}");
            let said = tree(&self.outside);
            assert_same(&before, &said);
        }
    }
}

#[test]
fn topics_is_a_link() {
    let clone = Clone::new();
    clone.link("topics", "topics").holds();
    let output = clone.sandbox.agent("me").args(["send", "task", "x"]).run();
    assert_ne!(output.code, 0, "{output}");
    output.says(&["topics"]);
}

#[test]
fn a_directory_that_became_a_link_is_an_error_and_never_an_empty_list() {
    let clone = Clone::new();
    clone.sandbox.send("me", "task", "was here");
    fs::remove_dir_all(clone.sandbox.store().join("topics")).expect("own directory");
    clone.link("topics", "topics").holds();
    for args in [&["log"][..], &["log", "task"], &["topics"], &["watch", "--timeout", "1s"]] {
        clone.sandbox.agent("me").args(args).fails(9).says(&[".fmail/topics", "symbolic link"]);
    }
}

#[test]
fn a_topic_is_a_link() {
    let clone = Clone::new();
    clone.link("topics/task", "task").holds();
    let output = clone.sandbox.agent("me").args(["send", "task", "x"]).run();
    assert_eq!(output.code, 9, "{output}");
    output.says(&["topics/task", "symbolic link"]);
    // The other topics are not affected, and what is skipped is told.
    clone.sandbox.send("me", "build", "fine");
    clone.sandbox.agent("me").args(["log"]).ok().says(&["skipped .fmail/topics/task", "not a directory"]);
    assert!(clone.sandbox.bodies("me", &["build"]).contains(&"fine".to_string()));
}

#[test]
fn mailboxes_are_links() {
    Clone::new().link("dm", "dm").holds();
    let clone = Clone::new();
    clone.link("dm/victim", "dm/victim").link("dm/me", "dm/me").holds();
    let output = clone.sandbox.agent("me").args(["send", "@victim", "x"]).run();
    assert_ne!(output.code, 0, "{output}");
}

#[test]
fn agents_are_links() {
    Clone::new().link("agents", "agents").holds();
    let clone = Clone::new();
    clone.link("agents/x.json", "agents/x.json").link("agents/me.json", "agents/new.json").holds();
    assert!(!clone.outside.join("agents/new.json").exists());
    symlink("/etc/passwd", clone.place("agents/root.json")).expect("own directory");
    let who = clone.sandbox.agent("y").args(["who"]).ok();
    assert!(!who.stdout.contains("/bin/") && !who.stderr.contains("/bin/"), "{who}");
}

#[test]
fn what_fmail_keeps_for_itself_is_links() {
    for (place, to) in [
        ("tmp", "task"),
        ("tmp", "none"),
        ("lock", "text"),
        ("lock", "none"),
        ("index", "text"),
        ("index", "none"),
        ("project.json", "project.json"),
        ("project.json", "none"),
        (".gitignore", "text"),
        (".gitignore", "none"),
        ("quarantine", "task"),
        ("records", "agents"),
        ("config.toml", "text"),
        ("config.yaml", "none"),
    ] {
        let clone = Clone::new();
        clone.link(place, to).holds();
        assert!(!clone.outside.join("none").exists(), "{place}");
    }
}

#[test]
fn links_planted_where_temporaries_are_written() {
    let clone = Clone::new();
    for name in ["record", "message", "index", "0", "1"] {
        clone.link(&format!("tmp/{name}"), "text");
    }
    clone.holds();
}

#[test]
fn a_message_is_a_link_to_a_secret() {
    let clone = Clone::new();
    clone.link("topics/task/20260110-153000-0001.json", "message.json");
    clone.link("topics/task/20260110-153000-0002.json", "text");
    clone.link("dm/me/20260110-153000-0003.json", "message.json");
    clone.holds();
    let mut watch = clone.sandbox.agent("me").args(["watch", "--json"]).spawn();
    watch.await_watching();
    clone.link("topics/task/20260110-153000-0004.json", "message.json");
    clone.sandbox.send("me", "build", "next");
    assert_eq!(watch.json()["body"], "next");
}

#[test]
fn a_hard_kind_of_message_does_not_hang() {
    let clone = Clone::new();
    for (kind, path) in
        [("fifo", "topics/task/20260110-153000-0001.json"), ("fifo2", "dm/me/20260110-153000-0002.json")]
    {
        let made = clone.sandbox.command(Path::new("mkfifo")).arg(clone.place(path)).ok();
        assert_eq!(made.stderr, "", "{kind}");
    }
    fs::create_dir_all(clone.place("topics/task/20260110-153000-0003.json/deep")).expect("own directory");
    for path in ["agents/x.json", "agents/me.json"] {
        clone.sandbox.command(Path::new("mkfifo")).arg(clone.place(path)).ok();
    }
    clone.holds();
}

#[test]
fn pipes_in_place_of_fmail_s_own_files_do_not_hang() {
    for name in ["lock", "index", "project.json", "config.toml", "config.yaml", ".gitignore", "tmp/record", "topics"] {
        let clone = Clone::new();
        clone.sandbox.command(Path::new("mkfifo")).arg(clone.place(name)).ok();
        clone.holds();
    }
}

#[test]
fn odd_names_are_not_followed_anywhere() {
    let clone = Clone::new();
    for name in ["topics/Task", "topics/a b", "topics/..x", "dm/UPPER", "topics/\u{202e}evil", "topics/-n"] {
        let id = "20260110-153000-0001";
        let body = json!({"id": id, "from": "a", "to": "task", "time": "2026-01-10T15:30:00Z", "body": "odd"});
        fs::write(clone.place(&format!("{name}/{id}.json")), body.to_string()).expect("own file");
    }
    clone.holds();
    assert_eq!(clone.sandbox.bodies("me", &["task"]).iter().filter(|body| *body == "odd").count(), 0);
}

#[test]
fn a_configuration_that_names_a_path_a_command_or_an_address_runs_and_dials_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("bound");
    let clone = Clone::new();
    let mark = clone.outside.join("was-run");
    let script = clone.place("run.sh");
    fs::write(&script, format!("#!/bin/sh\ntouch {}\n", mark.display())).expect("own file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("own file");
    for text in [
        format!("mail.store = \"exec:{}\"\n", script.display()),
        format!("mail.store = \"{}\"\n", script.display()),
        "mail.store = \"./run.sh\"\n".to_string(),
        "mail.store = \"$(touch was-run)\"\n".to_string(),
        "mail.store = \"evil.so\"\n".to_string(),
        "mail.plugins = [\"/tmp/evil.so\"]\n".to_string(),
    ] {
        fs::write(clone.place("config.toml"), &text).expect("own file");
        for args in [&["send", "task", "x"][..], &["log"], &["watch", "--timeout", "50ms"]] {
            clone.sandbox.agent("me").args(args).fails(14).says(&["config.toml:1"]);
        }
        clone.holds();
    }
    let relay = format!("[mail.relay]\nenabled = true\npeers = [\"{address}\"]\n");
    fs::write(clone.place("config.toml"), relay).expect("own file");
    clone.holds();
    clone.sandbox.send("me", "task", "works without the relay");
    let shown = clone.sandbox.agent("me").args(["config", "show"]).ok().stdout;
    assert!(shown.contains("not acted on"), "{shown}");
    let dialled = listener.accept().map(|_| ()).expect_err("nobody may dial");
    assert_eq!(dialled.kind(), std::io::ErrorKind::WouldBlock);
    assert!(!mark.exists());
}

#[test]
fn escape_sequences_in_names_of_files_and_agents_reach_no_terminal_through_stderr() {
    let clone = Clone::new();
    fs::write(clone.place("agents/x.json"), "\u{1b}]0;owned\u{7}").expect("own file");
    fs::write(clone.place("topics/task/20260110-153000-0001.json"), "{\"id\":\"\u{1b}[2J\"}").expect("own file");
    fs::write(clone.place("project.json"), "{\"id\":\"\u{1b}[2J\"}").expect("own file");
    for args in COMMANDS {
        let output = clone.sandbox.agent("me").args(*args).run();
        assert!(!output.stderr.contains('\u{1b}'), "{args:?} {output:?}");
    }
}
