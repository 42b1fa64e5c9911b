//! `fmail nudge`: a word to an agent that is there, through the daemon and by the configured command.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use fmail_e2e::{DEADLINE, Fmail, Running, Sandbox, eventually};
use rustix::process::Signal;
use serde_json::json;

/// Starts these watches and waits until the daemon serves all of them.
fn connected<const N: usize>(sandbox: &Sandbox, watches: [Fmail; N]) -> [Running; N] {
    let watches = watches.map(Fmail::spawn);
    let mut looks = 0;
    eventually(DEADLINE.as_secs(), "watches at the daemon", || {
        looks = if sandbox.connections() == N { looks + 1 } else { 0 };
        (looks == 10).then_some(())
    });
    watches
}

/// Sets the nudge commands of the user.
fn configure(sandbox: &Sandbox, commands: &str) {
    let directory = sandbox.home().join(".config/fmail");
    std::fs::create_dir_all(&directory).expect("own directory");
    std::fs::write(directory.join("config.toml"), format!("[mail.nudge]\n{commands}\n")).expect("own file");
}

fn nudge(sandbox: &Sandbox, args: &[&str]) -> Fmail {
    sandbox.agent("alice").arg("nudge").args(args)
}

#[test]
fn every_watch_of_the_agent_gets_it_and_nothing_is_stored() {
    let sandbox = Sandbox::new();
    let _daemon = sandbox.forged(&[]);
    let watches = [
        sandbox.agent("bob").args(["watch", "--json", "--count", "1"]),
        sandbox.agent("bob").args(["watch", "task"]),
        sandbox.agent("carol").args(["watch"]),
    ];
    let [mut json, mut text, mut other] = connected(&sandbox, watches);
    let nudged = nudge(&sandbox, &["@Bob", "wake\nup\u{202e}"]).ok();
    assert_eq!((nudged.stdout.as_str(), nudged.stderr.as_str()), ("reached 2 sessions of @bob\n", ""));
    let line = json.json();
    assert_eq!(
        (&line["event"], &line["from"], &line["text"]),
        (&json!("nudge"), &json!("alice"), &json!("wake\nup\u{202e}"))
    );
    assert!(line["time"].is_string() && line.as_object().is_some_and(|line| line.len() == 4), "{line}");
    assert_eq!(text.line(), "! nudge from @alice: wake\\nup\\u{202e}");
    // It does not count as a message; the message behind it does.
    assert!(sandbox.bodies("bob", &[]).is_empty());
    sandbox.send("alice", "task", "hello");
    assert_eq!(json.json()["body"], "hello");
    assert_eq!(json.wait().code, 0);
    assert!(text.line().ends_with(" alice -> task: hello"));
    assert!(other.line().ends_with(" alice -> task: hello"), "who was not nudged gets the message first");
    let nudged = nudge(&sandbox, &["carol", "you too", "--json"]).ok();
    assert_eq!(nudged.json(), json!({"agent": "carol", "sessions": 1, "command": null}));
    assert_eq!(other.line(), "! nudge from @alice: you too");
}

#[test]
fn nobody_reached_is_a_failure_of_its_own() {
    let sandbox = Sandbox::new();
    nudge(&sandbox, &["bob", "hi"]).fails(19).says(&["no session of @bob was reached", "no forged", "fmail send @bob"]);
    assert!(!sandbox.store().exists(), "a nudge creates no project");
    let _daemon = sandbox.forged(&[]);
    nudge(&sandbox, &["bob", "hi", "--json"]).fails(19).says(&["no session of @bob was reached", "none is open"]);
}

#[test]
fn without_a_daemon_the_command_is_run_and_no_session_is_claimed() {
    let sandbox = Sandbox::new();
    let script = "printf '%s|%s|%s|%s|%s\\n' \"$@\" \"$FMAIL_NUDGE_AGENT\" \"$FMAIL_NUDGE_FROM\" \"$FMAIL_NUDGE_TEXT\" > told; \
        echo noise; fmail whoami >/dev/null";
    configure(&sandbox, &format!("bob = ['bash', '-ec', '''{script}''', 'x', '<{{agent}}>', '{{from}}: {{text}}']"));
    let nudged = nudge(&sandbox, &["bob", "say \"{from}\" $(id); now"]).ok();
    assert_eq!(nudged.stdout, "reached no session of @bob; its command was run\n");
    assert_eq!(nudged.stderr, "", "what the command prints is not ours");
    let told = std::fs::read_to_string(sandbox.path().join("told")).expect("the command ran");
    assert_eq!(told, "<bob>|alice: say \"{from}\" $(id); now|bob|alice|say \"{from}\" $(id); now\n");
    nudge(&sandbox, &["carol", "hi"]).fails(19);
}

#[test]
fn the_default_command_is_for_all_others() {
    let sandbox = Sandbox::new();
    configure(&sandbox, "default = ['touch', 'for-{agent}']\nbob = []");
    nudge(&sandbox, &["carol", "hi"]).ok();
    assert!(sandbox.path().join("for-carol").exists());
    nudge(&sandbox, &["bob", "hi"]).fails(19);
}

#[test]
fn a_command_that_fails_is_shown_and_fails_the_nudge_only_when_it_reached_nobody() {
    let sandbox = Sandbox::new();
    configure(&sandbox, "bob = ['sh', '-c', 'echo no such pane; exit 3']\ncarol = ['/no/such/program']");
    let failed = nudge(&sandbox, &["bob", "hi"]).fails(19);
    failed.says(&["the command for @bob", "exit status: 3", "    no such pane\n", "its command failed"]);
    nudge(&sandbox, &["carol", "hi"]).fails(19).says(&["/no/such/program"]);
    let _daemon = sandbox.forged(&[]);
    let [_watch] = connected(&sandbox, [sandbox.agent("bob").arg("watch")]);
    let reached = nudge(&sandbox, &["bob", "hi", "--json"]).ok();
    reached.says(&["no such pane"]);
    assert_eq!(reached.json(), json!({"agent": "bob", "sessions": 1, "command": "failed"}));
}

#[test]
fn a_command_ends_with_the_nudge_that_is_interrupted() {
    let sandbox = Sandbox::new();
    configure(&sandbox, "bob = ['sh', '-c', 'sleep 1000 & echo $! > child.tmp; mv child.tmp child; wait']");
    let running = nudge(&sandbox, &["bob", "hi"]).spawn();
    let child = sandbox.path().join("child");
    let child = eventually(DEADLINE.as_secs(), "a command that runs", || std::fs::read_to_string(&child).ok());
    running.signal(Signal::INT);
    assert_eq!(running.wait().code, 18);
    eventually(DEADLINE.as_secs(), "the end of what the command started", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).ok();
        stat.is_none_or(|stat| stat.contains(") Z ")).then_some(())
    });
}

#[test]
fn a_projects_own_file_cannot_name_a_command() {
    let sandbox = Sandbox::new();
    sandbox.write(".fmail/config.toml", "[mail.nudge]\ndefault = ['touch', 'owned']\n");
    nudge(&sandbox, &["bob", "hi"]).fails(14).says(&["config.toml:1", "mail.nudge", "a project file may not"]);
    assert!(!sandbox.path().join("owned").exists());
}

#[test]
fn what_is_no_nudge_is_refused() {
    let sandbox = Sandbox::new();
    configure(&sandbox, "default = ['touch', 'ran']");
    let long = "x".repeat(4097);
    for text in ["", "  ", "\u{1b}[2J", &long] {
        nudge(&sandbox, &["bob", text]).fails(2);
    }
    nudge(&sandbox, &["bob", "two", "words"]).fails(2).says(&["needs quotes"]);
    nudge(&sandbox, &["no name!", "hi"]).fails(4);
    assert!(!sandbox.path().join("ran").exists());
}

#[test]
fn a_daemon_that_does_not_answer_does_not_keep_the_command_from_running() {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "task", "one");
    configure(&sandbox, "default = ['touch', 'ran']");
    // Takes the connection and never answers.
    let _silent = UnixListener::bind(sandbox.store().join("forged.sock")).expect("own directory");
    let running = nudge(&sandbox, &["bob", "hi"]).spawn();
    let nudged = running.wait_within(Duration::from_secs(30));
    nudged.says(&["whether a session was reached is not known"]);
    assert_eq!((nudged.code, nudged.stdout.as_str()), (0, "reached no session of @bob; its command was run\n"));
}

#[test]
fn a_daemon_that_knows_no_nudges_does_not_keep_the_command_from_running() {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "task", "one");
    let listener = UnixListener::bind(sandbox.store().join("forged.sock")).expect("own directory");
    let plain = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().expect("a connection");
            let asked = BufReader::new(stream.try_clone().expect("a stream")).lines().take(2);
            for (line, req_id) in asked.zip(["hello", "1"]) {
                line.expect("a line");
                let error = json!({"code": "invalid_request", "message": "unknown cmd", "retryable": false});
                writeln!(stream, "{}", json!({"ok": false, "error": error, "req_id": req_id})).expect("a reader");
            }
        }
    });
    nudge(&sandbox, &["bob", "hi"]).fails(2).says(&["unknown cmd"]);
    configure(&sandbox, "default = ['touch', 'ran']");
    let nudged = nudge(&sandbox, &["bob", "hi"]).ok();
    nudged.says(&["unknown cmd"]);
    assert_eq!(nudged.stdout, "reached no session of @bob; its command was run\n");
    assert!(sandbox.path().join("ran").exists());
    plain.join().expect("the daemon was asked twice");
}
