//! Every shell example of SPEC.md, run as it is written there, by bash, with the real `fmail` on its PATH.

use fmail_e2e::{Running, Sandbox};
use rustix::process::Signal;

/// A running watch, as SPEC.md writes it; what is sent from now on reaches it.
fn watching(sandbox: &Sandbox, agent: &str, command: &str) -> Running {
    let mut watch = sandbox.bash(agent, command).spawn();
    watch.await_watching();
    watch
}

/// Ctrl+C, after which a watch ends normally.
fn interrupt(watch: Running) {
    watch.signal_all(Signal::INT);
    let output = watch.wait();
    assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output}");
}

fn is_id(text: &str) -> bool {
    let digits = |part: &str, count| part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit());
    matches!(text.split('-').collect::<Vec<_>>()[..], [day, time, tick]
        if digits(day, 8) && digits(time, 6) && digits(tick, 4))
}

#[test]
fn quick_start() {
    let sandbox = Sandbox::new();
    let sent = sandbox.bash("me", r#"fmail send task "implement user auth""#).ok();
    assert!(is_id(sent.stdout.trim_end()), "{sent}");
    assert!(sandbox.store().is_dir());

    let log = sandbox.bash("me", "fmail log task").ok();
    assert_eq!(log.stdout, format!("{} me -> task: implement user auth\n", sent.stdout.trim_end()));

    let mut watch = watching(&sandbox, "other", "fmail watch task");
    sandbox.send("me", "task", "another");
    assert!(watch.line().ends_with(" me -> task: another"));
    interrupt(watch);
}

#[test]
fn concepts_the_identity_and_direct_messages() {
    let sandbox = Sandbox::new();
    sandbox.send("reviewer", "lobby", "hello");
    let mut inbox = watching(&sandbox, "myname", "fmail watch @myname");
    let script = r#"
        export FMAIL_AGENT=architect    # Your identity
        fmail send @reviewer "please check PR #42"
        fmail send @myname "for you"
    "#;
    let output = sandbox.bash("nobody", script).ok();
    assert_eq!(output.stdout.lines().count(), 2);
    assert!(inbox.line().ends_with(" architect -> @myname: for you"));
    interrupt(inbox);
    assert_eq!(sandbox.bodies("reviewer", &["@reviewer"]), ["please check PR #42"]);
}

#[test]
fn send_its_three_forms() {
    let sandbox = Sandbox::new();
    sandbox.write("notes.txt", "from a file\n");
    let script = r#"
        fmail send topic "message"
        fmail send topic -f notes.txt
        echo "message" | fmail send topic
        fmail send @agent "to an agent"
    "#;
    sandbox.bash("agent", script).ok();
    assert_eq!(sandbox.bodies("agent", &["topic"]), ["message", "from a file", "message"]);
    assert_eq!(sandbox.bodies("agent", &["@agent"]), ["to an agent"]);
}

#[test]
fn send_examples() {
    let sandbox = Sandbox::new();
    sandbox.write("spec.md", "# Title\n\nText with \"quotes\".\n");
    sandbox.write(
        ".fmail/topics/task/20260110-153000-0042.json",
        r#"{"id":"20260110-153000-0042","from":"lead","to":"task","time":"2026-01-10T15:30:00Z","body":"do it"}"#,
    );
    let script = r#"
        fmail send task "implement auth"
        fmail send @reviewer "please check PR #42"
        cat spec.md | fmail send docs
        fmail send task --reply-to 0042 "done"
    "#;
    let output = sandbox.bash("reviewer", script).ok();
    assert!(output.stdout.lines().all(is_id), "{output}");
    assert_eq!(sandbox.bodies("reviewer", &["docs"]), ["# Title\n\nText with \"quotes\"."]);
    let task = sandbox.log("reviewer", &["task"]);
    let done = task.iter().find(|message| message["body"] == "done").expect("stored");
    assert_eq!(done["reply_to"], "20260110-153000-0042");
}

#[test]
fn log_examples() {
    let sandbox = Sandbox::new();
    for number in 1..=7 {
        sandbox.send("other", "task", &format!("task {number}"));
    }
    sandbox.send("other", "build", "built");
    sandbox.send("other", "@myname", "to me");
    sandbox.send("myname", "@other", "to the other");
    let lines = |command: &str| -> Vec<String> {
        let output = sandbox.bash("myname", command).ok();
        let body = |line: &str| line.split_once(": ").expect("a message").1.to_string();
        output.stdout.lines().map(body).collect()
    };
    assert_eq!(lines("fmail log                    # All recent messages").len(), 9);
    assert_eq!(lines("fmail log task               # Just task topic").len(), 7);
    assert_eq!(lines("fmail log task -n 5          # Last 5"), ["task 3", "task 4", "task 5", "task 6", "task 7"]);
    assert_eq!(lines("fmail log --since 1h         # Last hour").len(), 9);
    assert_eq!(lines("fmail log @myname            # Messages to me (inbox)"), ["to me"]);
    assert_eq!(lines("fmail log @$FMAIL_AGENT"), ["to me"]);
}

#[test]
fn watch_examples() {
    let sandbox = Sandbox::new();
    sandbox.send("sender", "lobby", "the project exists");
    let commands = [
        ("fmail watch                  # All topics", vec!["build", "task", "@myname"]),
        ("fmail watch task             # Just task", vec!["task"]),
        ("fmail watch @myname          # My direct messages", vec!["@myname"]),
        ("fmail watch --timeout 5m     # Exit after 5 minutes", vec!["build", "task", "@myname"]),
    ];
    let mut watches: Vec<(Running, Vec<&str>)> =
        commands.map(|(command, sees)| (watching(&sandbox, "myname", command), sees)).into();
    for target in ["build", "task", "@myname", "@sender"] {
        sandbox.send("sender", target, "news");
    }
    for (watch, sees) in &mut watches {
        for target in sees {
            assert!(watch.line().ends_with(&format!(" sender -> {target}: news")));
        }
    }
    watches.into_iter().for_each(|(watch, _)| interrupt(watch));
}

#[test]
fn who_register_and_status_examples() {
    let sandbox = Sandbox::new();
    let script = r#"
        fmail register
        fmail register agent-42
        fmail status "working on auth"
        fmail status                 # Show your current status
    "#;
    let output = sandbox.bash("agent-42", script).ok();
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines[1..], ["agent-42", "working on auth"], "{output}");

    let who = sandbox.bash("agent-42", "fmail who").ok();
    let rows: Vec<Vec<&str>> = who.stdout.lines().map(|line| line.split("  ").map(str::trim).collect()).collect();
    let columns =
        |row: &[&str]| row.iter().filter(|cell| !cell.is_empty()).map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(columns(&rows[0]), ["NAME", "LAST SEEN", "STATUS"]);
    let mine = rows.iter().find(|row| row[0] == "agent-42").expect("listed");
    assert_eq!(columns(mine), ["agent-42", "active", "working on auth"]);
    assert!(rows.iter().any(|row| row[0] == lines[0]), "{who}");

    let cleared = sandbox.bash("agent-42", "fmail status --clear; fmail status").ok();
    assert_eq!(cleared.stdout, "");
    assert_eq!(sandbox.bash("x", "fmail register agent-42").run().code, 8);
}

#[test]
fn topics_gc_and_init_examples() {
    let sandbox = Sandbox::new();
    let init = sandbox.bash("me", "fmail init                   # Initialize in current directory").ok();
    assert!(!init.stdout.trim().is_empty());
    let init = sandbox.bash("me", "fmail init --project myproj  # Set explicit project ID").ok();
    assert_eq!(init.stdout, "myproj\n");

    let old = ".fmail/topics/task/20200110-153000-0001.json";
    sandbox.write(
        old,
        r#"{"id":"20200110-153000-0001","from":"a","to":"task","time":"2020-01-10T15:30:00Z","body":"old"}"#,
    );
    sandbox.send("me", "task", "new");
    let topics = sandbox.bash("me", "fmail topics").ok();
    let rows: Vec<Vec<&str>> = topics.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["TOPIC", "MESSAGES", "LAST", "ACTIVITY"]);
    assert_eq!(rows[1][..2], ["task", "2"]);

    let dry = sandbox.bash("me", "fmail gc --dry-run           # Show what would be removed").ok();
    assert_eq!(dry.stdout, "topics/task/20200110-153000-0001.json\n");
    assert!(sandbox.path().join(old).exists());
    sandbox.bash("me", "fmail gc                     # Remove messages older than 7 days").ok();
    assert!(!sandbox.path().join(old).exists());
    sandbox.bash("me", "fmail gc --days 1            # Remove messages older than 1 day").ok();
    assert_eq!(sandbox.bodies("me", &["task"]), ["new"]);
}

#[test]
fn help_examples() {
    let sandbox = Sandbox::new();
    let help = sandbox.bash("me", "fmail help                   # Human-readable help").ok();
    for command in ["send", "log", "watch", "who", "register", "status", "topics", "gc", "init", "help"] {
        assert!(help.stdout.lines().any(|line| line.trim_start().starts_with(command)), "{command}\n{help}");
    }
    let robot = sandbox.bash("me", "fmail --robot-help           # Machine-readable for AI agents").ok();
    assert_eq!(robot.json()["name"], "fmail");
    assert!(!sandbox.store().exists(), "help creates nothing");
}

#[test]
fn body_content_examples() {
    let sandbox = Sandbox::new();
    sandbox.write("README.md", "# Read me\n");
    let script = r#"
        # String
        fmail send task "implement auth"

        # Object (auto-detected from JSON syntax)
        fmail send task '{"action": "build", "target": "main"}'

        # File contents
        fmail send docs -f README.md
    "#;
    sandbox.bash("me", script).ok();
    let task = sandbox.log("me", &["task"]);
    assert_eq!(task[0]["body"], "implement auth");
    assert_eq!(task[1]["body"], serde_json::json!({"action": "build", "target": "main"}));
    assert_eq!(sandbox.bodies("me", &["docs"]), ["# Read me"]);
}

#[test]
fn pattern_task_assignment() {
    let sandbox = Sandbox::new();
    let mut inbox = watching(&sandbox, "coder-1", "fmail watch @$FMAIL_AGENT --json");
    sandbox.bash("lead", "# Lead assigns work\nfmail send @coder-1 \"implement JWT auth\"").ok();
    let assigned = inbox.json();
    interrupt(inbox);
    assert_eq!((&assigned["from"], &assigned["body"]), (&"lead".into(), &"implement JWT auth".into()));

    let script = r#"
        # Coder acknowledges and starts
        fmail status "working on JWT auth"
        fmail send @lead --reply-to "$MSG_ID" "on it"
        fmail who
        # Coder completes
        fmail send @lead "done, PR #42 ready"
        fmail status --clear
    "#;
    let id = assigned["id"].as_str().expect("an id");
    let coder = sandbox.bash("coder-1", script).env("MSG_ID", id).ok();
    assert!(coder.stdout.contains("working on JWT auth"), "{coder}");
    let answers = sandbox.log("lead", &["@lead"]);
    assert_eq!(answers[0]["reply_to"], id);
    assert_eq!(sandbox.bodies("lead", &["@lead"]), ["on it", "done, PR #42 ready"]);
    assert!(sandbox.agent("coder-1").args(["who", "--json"]).ok().json()[0].get("status").is_none_or(|s| s.is_null()));
}

#[test]
fn pattern_file_coordination() {
    let sandbox = Sandbox::new();
    let check = r#"
        # Check before editing (another agent)
        recent=$(fmail log editing --since 5m --json)
        if echo "$recent" | grep -q "auth.go"; then
            echo "Someone is editing this file"
        fi
    "#;
    assert_eq!(sandbox.bash("second", check).ok().stdout, "");
    sandbox.bash("first", "# Announce intent before editing\nfmail send editing \"src/auth.go\"").ok();
    assert_eq!(sandbox.bash("second", check).ok().stdout, "Someone is editing this file\n");
}

/// SPEC.md's responder; where it has `# process request...` this one waits for a line from a pipe.
const RESPONDER: &str = r#"
    # Responder (in a loop)
    fmail watch @$FMAIL_AGENT --json | while read -r msg; do
        sender=$(echo "$msg" | jq -r '.from')
        read -r < process-request
        fmail send @"$sender" "analysis complete: 2 issues found"
    done
"#;

#[test]
fn pattern_request_response() {
    let sandbox = Sandbox::new();
    sandbox.command("mkfifo".as_ref()).arg("process-request").ok();
    sandbox.send("analyzer", "lobby", "here");
    let responder = watching(&sandbox, "analyzer", RESPONDER);
    let script = r#"
        # Requester
        fmail send @analyzer "analyze src/auth.go"
        response=$(fmail watch @$FMAIL_AGENT --count 1 --timeout 2m)
        echo "$response"
    "#;
    let requester = watching(&sandbox, "requester", script);
    // The request has arrived at the responder, which opens the pipe to read: now its work is done.
    sandbox.bash("test", "echo done > process-request").ok();
    let output = requester.wait();
    assert_eq!(output.code, 0, "{output}");
    let response = output.stdout.lines().nth(1).expect("behind the id");
    assert!(response.ends_with(" analyzer -> @requester: analysis complete: 2 issues found"), "{output}");
    drop(responder);
}

#[test]
fn pattern_request_response_with_a_fast_answer() {
    // The answer is there before the requester watches; `--since` with the request's id finds it all the same.
    let sandbox = Sandbox::new();
    sandbox.send("analyzer", "lobby", "here");
    let responder = r#"fmail watch @$FMAIL_AGENT --json --count 1 | while read -r msg; do
        fmail send @"$(echo "$msg" | jq -r .from)" "quick"
    done"#;
    let responder = watching(&sandbox, "analyzer", responder);
    let request = sandbox.send("requester", "@analyzer", "analyze src/auth.go");
    responder.wait();
    let script = "fmail watch @$FMAIL_AGENT --since $ID --count 1 --timeout 2m";
    let output = sandbox.bash("requester", script).env("ID", &request).ok();
    assert!(output.stdout.ends_with(" analyzer -> @requester: quick\n"), "{output}");
}

#[test]
fn pattern_broadcast_status() {
    let sandbox = Sandbox::new();
    let mut build = watching(&sandbox, "listener", "fmail watch build --json");
    let script = r#"
        # Set your status (visible in `fmail who`)
        fmail status "building main branch"

        # Or broadcast to a topic
        fmail send build '{"status":"started","target":"main"}'
    "#;
    sandbox.bash("builder", script).ok();
    assert_eq!(build.json()["body"], serde_json::json!({"status": "started", "target": "main"}));
    interrupt(build);
    assert!(sandbox.bash("listener", "fmail who").ok().stdout.contains("building main branch"));
}

#[test]
fn pattern_multi_agent_coordination() {
    let sandbox = Sandbox::new();
    let mut coordinator = watching(&sandbox, "coordinator", "fmail watch task --json");
    sandbox.bash("coordinator", "# Coordinator starts work\nfmail send task \"implement auth module\"").ok();
    assert_eq!(coordinator.json()["body"], "implement auth module");
    let script = r#"
        # Workers claim tasks
        fmail send task '{"claimed":"auth-login","by":"'$FMAIL_AGENT'"}'

        # Workers report completion
        fmail send task '{"done":"auth-login","by":"'$FMAIL_AGENT'"}'
    "#;
    let names: Vec<String> = (1..=6).map(|number| format!("worker-{number}")).collect();
    let workers: Vec<Running> = names.iter().map(|name| sandbox.bash(name, script).spawn()).collect();
    let mut seen: Vec<(String, &str)> = Vec::new();
    for _ in 0..2 * names.len() {
        let body = coordinator.json()["body"].take();
        let what = if body["claimed"] == "auth-login" { "claimed" } else { "done" };
        assert_eq!(body[what], "auth-login");
        seen.push((body["by"].as_str().expect("a worker").to_string(), what));
    }
    workers.into_iter().for_each(|worker| assert_eq!(worker.wait().code, 0));
    for name in &names {
        let order: Vec<&str> = seen.iter().filter(|(by, _)| by == name).map(|(_, what)| *what).collect();
        assert_eq!(order, ["claimed", "done"], "{name}");
    }
    // Everyone who looks sees the same first claim: that one has the task.
    let first = |agent: &str| {
        let claims = sandbox.log(agent, &["task"]);
        claims.into_iter().find(|message| !message["body"]["claimed"].is_null()).expect("a claim")["from"].clone()
    };
    assert!(names.iter().all(|name| first(name) == first("coordinator")));
    interrupt(coordinator);
}
