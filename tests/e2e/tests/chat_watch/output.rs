//! What is printed, what is not, and where.

use std::time::Duration;

use fmail_e2e::{DEADLINE, Sandbox};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Team, at, brief, next};

#[test]
fn the_object_is_the_documents_key_by_key() {
    let team = Team::with("# Chat\n".repeat(41));
    let mut watch = team.watch(&[]);
    team.append("[coder-to-reviewer]: Please review changes in src/auth.rs\n");
    let line = watch.line();
    let (before, rest) = line.split_at(r#"{"timestamp":""#.len());
    assert_eq!(before, r#"{"timestamp":""#);
    let (timestamp, rest) = rest.split_at("2026-02-17T10:05:00.123Z".len());
    let shape: String = timestamp.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z");
    assert_eq!(
        rest,
        r#"","sender":"coder","recipient":"reviewer","broadcast":[],"message":"Please review changes in src/auth.rs","line_number":42}"#
    );
}

#[test]
fn every_example_of_the_document_is_printed_as_it_says() {
    let team = Team::with(
        "\
# Comments and empty lines are ignored

[sender-to-recipient]: message content here
[coder-to-reviewer]: Please review changes in src/auth.rs — added JWT validation
[sender-to-recipient] @ [target1, target2]: message content here
[reviewer-to-coder] @ [developer, manager]: Approved with minor suggestions — see inline comments
[reviewer-to-coder] @ [developer]: Acknowledged — starting review
[coder-to-reviewer]: Review needed for auth module
  Changes:
  - Added JWT validation in src/auth.rs
  - Updated middleware in src/middleware.rs
  - Added tests in tests/auth_test.rs
no message: this line
[no separator]: in this one
",
    );
    let printed: Vec<Value> = team
        .read(&["--from-start"])
        .into_iter()
        .map(|mut message| {
            message.as_object_mut().unwrap().remove("timestamp");
            message
        })
        .collect();
    let message = |line: u64, sender: &str, recipient: &str, broadcast: &[&str], text: &str| json!({"sender": sender, "recipient": recipient, "broadcast": broadcast, "message": text, "line_number": line});
    let acknowledged = "Acknowledged — starting review";
    let approved = "Approved with minor suggestions — see inline comments";
    assert_eq!(
        printed,
        [
            message(3, "sender", "recipient", &[], "message content here"),
            message(4, "coder", "reviewer", &[], "Please review changes in src/auth.rs — added JWT validation"),
            message(5, "sender", "recipient", &["target1", "target2"], "message content here"),
            message(6, "reviewer", "coder", &["developer", "manager"], approved),
            message(7, "reviewer", "coder", &["developer"], acknowledged),
            message(8, "coder", "reviewer", &[], "Review needed for auth module"),
        ]
    );
}

/// The first block of this kind in docs/chat.md.
fn block(kind: &str) -> String {
    let document = std::fs::read_to_string(fmail_e2e::workspace().join("docs/chat.md")).unwrap();
    let (_, rest) = document.split_once(&format!("```{kind}\n")).unwrap_or_else(|| panic!("no {kind}"));
    rest.split_once("```").unwrap().0.to_string()
}

#[test]
fn docs_chat_md_shows_what_is_printed() {
    let team = Team::with(block("text"));
    let without_times = |lines: &str| -> Vec<String> {
        lines.lines().map(|line| line.split_once(",\"sender\"").expect("a message").1.to_string()).collect()
    };
    let printed = team.sandbox.fmail().args(["chat", "watch", "--once"]).ok().stdout;
    assert_eq!(without_times(&printed), without_times(&block("json")));
    // Its commands are what the command line takes.
    team.sandbox.write("notes.md", "");
    for command in block("bash").lines() {
        let command = command.split(" #").next().unwrap().replace("--timeout 5m", "");
        team.sandbox.bash("shell", &format!("{command} --timeout 1ms")).ok();
    }
}

#[test]
fn only_what_is_new_is_printed_unless_more_is_asked_for() {
    let team = Team::with("[a-to-b]: one\n[a-to-b]: two\n");
    let mut watch = team.watch(&[]);
    let mut all = team.watch(&["--from-start"]);
    let mut since = team.watch(&["--since-line", "1"]);
    team.append("[a-to-b]: three\n");
    assert_eq!(next(&mut watch), at(3, "three"));
    assert_eq!([(); 3].map(|()| next(&mut all)), [at(1, "one"), at(2, "two"), at(3, "three")]);
    assert_eq!([(); 2].map(|()| next(&mut since)), [at(2, "two"), at(3, "three")]);
}

#[test]
fn a_watch_that_goes_on_from_the_last_line_repeats_nothing_and_misses_nothing() {
    let team = Team::with("");
    let mut last = 0;
    let mut seen = Vec::new();
    for round in 0..5 {
        for number in 0..7 {
            team.append(format!("# between\n[a-to-b]: {round}.{number}\n"));
        }
        let since = last.to_string();
        for message in team.sandbox.fmail().args(["chat", "watch", "--since-line", &since, "-c", "6"]).ok().json_lines()
        {
            let (number, text) = brief(&message);
            last = number;
            seen.push(text);
        }
    }
    seen.extend(team.read(&["--since-line", &last.to_string()]).iter().map(|message| brief(message).1));
    let expected: Vec<String> =
        (0..5).flat_map(|round| (0..7).map(move |number| format!("{round}.{number}"))).collect();
    assert_eq!(seen, expected);
}

#[test]
fn only_messages_for_an_agent_are_printed_when_it_is_named() {
    let team = Team::with(
        "[a-to-Rev]: to\n[a-to-b] @ [x, Rev ,y]: target\n[Rev-to-b]: from\n[a-to-rev]: another\n[a-to-b] @ [Revy]: near\n",
    );
    for name in ["Rev", "@Rev"] {
        let texts: Vec<String> = team.read(&["--for", name]).iter().map(|message| brief(message).1).collect();
        assert_eq!(texts, ["to", "target"]);
    }
    for name in ["", "a b", "a.b", "@"] {
        let refused = team.sandbox.fmail().args(["chat", "watch", "--for", name]).fails(4);
        refused.says(&["is no name of a chat file", "letters, digits, - and _ only"]);
    }
}

#[test]
fn any_bytes_can_stand_in_the_file() {
    let mut text = b"\xef\xbb\xbf# a mark\r\n[a-to-b]: crlf\r\n\xff\xfe\0\n[a-to-b]: \xff\xc3(\x00\x1b[31m\n".to_vec();
    text.extend([b"[a-to-b]: ", "x".repeat(3_000_000).as_bytes(), b"\n"].concat());
    text.extend(b"[a-to-b]: \r\n[a-to-b]:\r\n[c-to-d]: no newline");
    let team = Team::with(text);
    let printed: Vec<(u64, String)> = team.read(&[]).iter().map(brief).collect();
    assert_eq!(printed[0], at(2, "crlf"));
    assert_eq!(printed[1], at(4, "\u{fffd}\u{fffd}(\0\u{1b}[31m"));
    assert_eq!((printed[2].0, printed[2].1.len()), (5, 3_000_000));
    assert_eq!(printed[3], at(6, " "));
    assert_eq!(printed[4..], [at(8, "no newline")]);
    let mut watch = team.watch(&["--since-line", "7"]);
    assert_eq!(next(&mut watch), at(8, "no newline"));
    assert_eq!(team.read(&["--since-line", "8"]), [] as [Value; 0]);
}

#[test]
fn a_line_that_is_too_long_is_told_and_not_printed() {
    let team = Team::with("");
    let mut watch = team.watch(&[]);
    team.append(format!("[a-to-b]: {}\n[a-to-b]: next\n", "x".repeat(5_000_000)));
    assert_eq!(next(&mut watch), at(2, "next"));
    let told = watch.stderr_line();
    assert!(told.contains("line 1 has 5000011 bytes") && told.contains("not printed"), "{told}");
}

#[test]
fn a_half_written_line_is_waited_for() {
    let team = Team::with("");
    let mut watch = team.watch(&[]);
    team.append("[a-to-b]: half");
    team.append(" and");
    team.append(" half\n");
    assert_eq!(next(&mut watch), at(1, "half and half"));
}

#[test]
fn a_line_without_a_newline_is_printed_when_the_file_rests() {
    let team = Team::with("# Chat\n");
    let mut watch = team.watch(&[]);
    team.append("[a-to-b]: no newline");
    assert_eq!(next(&mut watch), at(2, "no newline"));
    team.append("\n[a-to-b]: next");
    assert_eq!(next(&mut watch), at(3, "next"));
    team.append(" week\n");
    assert_eq!(next(&mut watch), at(3, "next week"));
    let told = watch.stderr_line();
    assert!(told.contains("line 3 went on after it was printed"), "{told}");
}

#[test]
fn it_ends_on_its_count_and_on_its_time_with_0() {
    let team = Team::with("[a-to-b]: one\n[a-to-b]: two\n[a-to-b]: three\n");
    let output = team.sandbox.fmail().args(["chat", "watch", "--from-start", "--count", "2"]).ok();
    assert_eq!(output.json_lines().iter().map(brief).collect::<Vec<_>>(), [at(1, "one"), at(2, "two")]);
    let output = team.sandbox.fmail().args(["chat", "watch", "--timeout", "200ms"]).ok();
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""));
}

#[test]
fn once_prints_what_is_there_and_needs_a_file() {
    let team = Team::with(format!("[a-to-b]: {}\n", "x".repeat(100)).repeat(20_000));
    assert_eq!(team.read(&[]).len(), 20_000);
    assert_eq!(team.read(&["--since-line", "19990"]).len(), 10);
    std::fs::remove_file(team.file()).unwrap();
    let refused = team.sandbox.fmail().args(["chat", "watch", "--once"]).fails(7);
    refused.says(&["chat.md does not exist", "without --once it is waited for"]);
}

#[test]
fn a_time_that_is_too_short_for_what_is_there_is_told() {
    let team = Team::with("[a-to-b]: x\n".repeat(500_000));
    let output = team.sandbox.fmail().args(["chat", "watch", "--from-start", "--timeout", "1ms"]).ok();
    let last = output.json_lines().last().map(|message| brief(message).0).expect("what was read is printed");
    assert!(last < 500_000, "{last}");
    output.says(&["not all lines were looked at", &format!("--since-line {last}")]);
}

#[test]
fn signals_and_a_reader_that_is_gone_end_it_quietly() {
    for signal in [Signal::INT, Signal::TERM] {
        let team = Team::with("");
        let mut watch = team.watch(&["--from-start"]);
        team.append("[a-to-b]: x\n");
        watch.line();
        watch.signal(signal);
        let output = watch.wait();
        assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (0, "", ""));
    }
    let team = Team::with("[a-to-b]: x\n[a-to-b]: y\n");
    let script = "fmail chat watch --from-start | head -n 1; echo ${PIPESTATUS[0]}";
    let output = team.sandbox.bash("shell", script).ok();
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("\"x\"") && lines[1] == "0", "{output}");
    assert_eq!(output.stderr, "");
}

#[test]
fn a_reader_that_does_not_read_stops_neither_a_signal_nor_the_time() {
    let team = Team::with(format!("[a-to-b]: {}\n", "x".repeat(1000)).repeat(5000));
    let script = "mkfifo pipe; sleep 60 < pipe & fmail chat watch --from-start --timeout 1s > pipe; echo $?; kill $!";
    let output = team.sandbox.bash("shell", script).spawn().wait_within(DEADLINE);
    assert_eq!(output.stdout, "0\n", "{output}");
}

#[test]
fn bad_arguments_are_refused() {
    let team = Team::with("");
    let watch = |args: &[&str]| team.sandbox.fmail().args(["chat", "watch"]).args(args).fails(2);
    watch(&["--from-start", "--since-line", "3"]).says(&["--from-start", "--since-line"]);
    watch(&["--since-line", "-1"]);
    watch(&["--since-line", "x"]).says(&["x"]);
    watch(&["--count", "0"]);
    watch(&["--timeout", "soon"]).says(&["soon"]);
    watch(&["."]).says(&["is not a regular file"]);
    team.bash("mkfifo pipe");
    watch(&[".workplace/pipe"]).says(&["is not a regular file"]);
    team.sandbox.fmail().args(["chat"]).fails(2);
}

#[test]
fn a_file_that_may_not_be_read_is_an_error_and_no_silence() {
    use std::os::unix::fs::PermissionsExt;
    let team = Team::with("[a-to-b]: x\n");
    for directory in [team.sandbox.outside().to_path_buf(), team.sandbox.path()] {
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::fs::set_permissions(team.file(), std::fs::Permissions::from_mode(0o000)).unwrap();
    let refused = team.sandbox.fmail().args(["chat", "watch", "--from-start"]).unprivileged().fails(9);
    refused.says(&["chat.md cannot be read: Permission denied"]);
}

#[test]
fn the_file_is_the_nearest_workplaces_or_the_one_that_was_named() {
    let sandbox = Sandbox::new();
    sandbox.git(&["init", "-q"]);
    sandbox.write(".workplace/chat.md", "[a-to-b]: root\n");
    sandbox.write("deep/er/x", "");
    sandbox.write("own/.workplace/chat.md", "[a-to-b]: own\n");
    sandbox.write("own/er/x", "");
    sandbox.write("other.md", "[a-to-b]: other\n");
    for (cwd, args, expected) in [
        ("", &[][..], "root"),
        ("deep/er", &[], "root"),
        ("own", &[], "own"),
        ("own/er", &[], "own"),
        ("deep", &["../other.md"], "other"),
    ] {
        let watch = sandbox.fmail().cwd(sandbox.path().join(cwd)).args(["chat", "watch", "--from-start", "-c", "1"]);
        assert_eq!(brief(&watch.args(args).ok().json()), at(1, expected), "{cwd:?}");
    }
}

#[test]
fn looking_creates_nothing() {
    let sandbox = Sandbox::new();
    let before = sandbox.tree();
    let output = sandbox.fmail().args(["chat", "watch", "--timeout", "300ms"]).ok();
    output.says(&[".workplace/chat.md does not exist; waiting for it"]);
    sandbox.assert_unchanged(&before);
}

#[test]
fn a_watch_that_is_told_to_poll_sees_the_same() {
    let team = Team::with("[a-to-b]: one\n");
    let polling = team.sandbox.fmail().env("FMAIL_WATCH__EVENTS", "false").args(["chat", "watch", "--from-start"]);
    let mut watch = polling.spawn();
    assert_eq!(next(&mut watch), at(1, "one"));
    team.append("[a-to-b]: two\n");
    assert_eq!(next(&mut watch), at(2, "two"));
    team.bash("mv chat.md old.md; echo '[a-to-b]: three' > chat.md");
    assert_eq!(next(&mut watch), at(1, "three"));
    assert_eq!(watch.line_within(Duration::from_millis(300)), None);
}
