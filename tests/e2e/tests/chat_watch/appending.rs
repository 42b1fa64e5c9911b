//! Many who write at once, with and without the lock.

use std::collections::HashSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fmail_chat_file::{Appender, ChatLine, Options};
use fmail_e2e::full;

use super::{Team, brief};

const PROCESSES: usize = 50;
const SHELLS: usize = 5;

#[test]
fn no_line_of_50_processes_and_5_shells_is_torn_or_lost_and_each_is_printed_once() {
    let (of_process, of_shell) = if full() { (100, 2000) } else { (10, 200) };
    let team = Team::with("# Chat\n");
    let mut watch = team.watch(&[]);
    let mut multiline = team.watch(&["--multiline"]);
    let writers: Vec<Child> = (0..PROCESSES)
        .map(|number| process(&team, number, of_process))
        .chain((0..SHELLS).map(|number| shell(&team, number, of_shell)))
        .collect();
    let total = PROCESSES * of_process + SHELLS * of_shell;
    let printed: Vec<serde_json::Value> = (0..total).map(|_| watch.json()).collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let file = std::fs::read_to_string(team.file()).unwrap();
    let lines: Vec<&str> = file.lines().collect();
    // Every line is one that somebody wrote, whole.
    let messages: Vec<ChatLine> = lines.iter().filter_map(ChatLine::parse).collect();
    assert_eq!(messages.len(), total);
    assert_eq!(lines.len(), 1 + total + PROCESSES * of_process, "each message of a process has a further line");
    let mut distinct = HashSet::new();
    for message in &printed {
        let (number, text) = brief(message);
        let there = ChatLine::parse(lines[number as usize - 1]).unwrap_or_else(|| panic!("no message: {message}"));
        assert_eq!(
            (there.sender.as_str(), there.message.as_str()),
            (message["sender"].as_str().unwrap(), text.as_str())
        );
        assert!(distinct.insert(number), "printed twice: {message}");
        if there.sender.starts_with("process") {
            assert_eq!(
                lines[number as usize],
                format!("  of {}", there.sender),
                "torn from its second line: {message}"
            );
        }
    }
    let expected: HashSet<(String, String)> = (0..PROCESSES)
        .flat_map(|number| (0..of_process).map(move |count| (format!("process-{number}"), padded(count))))
        .chain(
            (0..SHELLS)
                .flat_map(|number| (0..of_shell).map(move |count| (format!("shell-{number}"), count.to_string()))),
        )
        .collect();
    let found: HashSet<(String, String)> =
        messages.into_iter().map(|message| (message.sender, message.message)).collect();
    assert!(found == expected, "{:?}", expected.symmetric_difference(&found).take(5).collect::<Vec<_>>());
    for _ in 0..total {
        let message = multiline.json();
        let sender = message["sender"].as_str().unwrap();
        let whole = !sender.starts_with("process") || brief(&message).1.ends_with(&format!("\nof {sender}"));
        assert!(whole, "{message}");
    }
    assert!(watch.line_within(std::time::Duration::from_millis(200)).is_none());
}

/// A text long enough that a line which was written in pieces would be torn at times.
fn padded(count: usize) -> String {
    format!("{count} {}", "x".repeat(count * 37 % 3000))
}

/// This test's own executable, in a process that appends through the library.
fn process(team: &Team, number: usize, count: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "appending::child_that_appends"])
        .env("CHAT_FILE", team.file())
        .env("CHAT_SENDER", format!("process-{number}"))
        .env("CHAT_COUNT", count.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn shell(team: &Team, number: usize, count: usize) -> Child {
    let script = format!("for ((i = 0; i < {count}; i++)); do echo \"[shell-{number}-to-all]: $i\" >> chat.md; done");
    Command::new("bash").args(["-c", &script]).current_dir(team.file().parent().unwrap()).spawn().unwrap()
}

/// Not a test of its own: what the test above runs in processes.
#[test]
fn child_that_appends() {
    let Ok(sender) = std::env::var("CHAT_SENDER") else { return };
    let path = std::env::var_os("CHAT_FILE").unwrap();
    let count: usize = std::env::var("CHAT_COUNT").unwrap().parse().unwrap();
    let timeout = fmail_e2e::DEADLINE;
    let mut appender = Appender::new(Path::new(&path), Options { sync: false, timeout, ..Options::default() });
    for number in 0..count {
        let message = format!("{}\nof {sender}", padded(number));
        let line = ChatLine { sender: sender.clone(), recipient: "all".into(), broadcast: Vec::new(), message };
        let appended = appender.append(&line).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let there = text.lines().nth(appended.line_number as usize - 1).and_then(ChatLine::parse).unwrap();
        assert_eq!((there.sender, there.message), (sender.clone(), padded(number)), "at {appended:?}");
    }
}
