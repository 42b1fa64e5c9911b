//! Appending: whole lines or nothing, whatever stands in the file, and what is refused.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fmail_api::ErrorKind;
use fmail_chat_file::write::{check_message, check_name, check_recipient, fit};
use fmail_chat_file::{Appender, ChatLine, Entry, Joiner, Locked, Options, append};
use proptest::prelude::*;

fn line(sender: &str, recipient: &str, broadcast: &[&str], message: &str) -> ChatLine {
    ChatLine {
        sender: sender.into(),
        recipient: recipient.into(),
        broadcast: broadcast.iter().map(|target| (*target).into()).collect(),
        message: message.into(),
    }
}

fn hello() -> ChatLine {
    line("a", "b", &[], "hello")
}

fn entries(text: &[u8]) -> Vec<Entry> {
    let mut joiner = Joiner::new(usize::MAX);
    let (mut offset, mut found) = (0, Vec::new());
    for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        found.extend(joiner.push(number as u64 + 1, offset, line));
        offset += line.len() as u64;
    }
    found.extend(joiner.finish());
    found
}

#[test]
fn a_missing_file_is_made_with_its_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(".workplace/chat.md");
    let first = append(&path, &hello(), &Options::default()).unwrap();
    assert_eq!((first.line_number, first.offset, first.length), (1, 0, 16));
    let second = append(&path, &line("b", "a", &["c", "d"], "one\n\n  two"), &Options::default()).unwrap();
    assert_eq!((second.line_number, second.offset), (2, 16));
    let third = append(&path, &hello(), &Options { sync: false, ..Options::default() }).unwrap();
    assert_eq!((third.line_number, third.offset), (5, second.offset + second.length));
    let text = "[a-to-b]: hello\n[b-to-a] @ [c, d]: one\n  \n    two\n[a-to-b]: hello\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let refused = append(&directory.path().join("x/y"), &hello(), &Options { create: false, ..Options::default() });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_last_line_without_a_newline_gets_one_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chat.md");
    fs::write(&path, "# Chat\n[x-to-y]: unended").unwrap();
    let appended = append(&path, &hello(), &Options::default()).unwrap();
    assert_eq!((appended.line_number, appended.offset), (3, 25));
    assert_eq!(fs::read_to_string(&path).unwrap(), "# Chat\n[x-to-y]: unended\n[a-to-b]: hello\n");
}

#[test]
fn a_line_that_another_writer_is_in_the_middle_of_is_waited_for() {
    // On a busy machine the other writer may rest for so long that its line counts as ended. Not every time.
    let waited = (0..20).any(|_| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("chat.md");
        let mut other = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        other.write_all(b"[x-to-y]: first half").unwrap();
        let appending = std::thread::spawn({
            let path = path.clone();
            move || append(&path, &hello(), &Options::default()).unwrap()
        });
        std::thread::sleep(Duration::from_millis(20));
        other.write_all(b", second half\n").unwrap();
        appending.join().unwrap();
        fs::read_to_string(&path).unwrap() == "[x-to-y]: first half, second half\n[a-to-b]: hello\n"
    });
    assert!(waited);
}

#[test]
fn lines_are_counted_also_when_others_write_and_when_the_file_is_written_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chat.md");
    let mut appender = Appender::new(&path, Options { sync: false, ..Options::default() });
    assert_eq!(appender.append(&hello()).unwrap().line_number, 1);
    let foreign = |text: &str| OpenOptions::new().append(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
    foreign("# one\n\n# three\n");
    assert_eq!(appender.append(&hello()).unwrap().line_number, 5);
    // The same file, shorter, longer, and another one in its place.
    fs::write(&path, "x\n").unwrap();
    assert_eq!(appender.append(&hello()).unwrap().line_number, 2);
    fs::write(&path, "x\n".repeat(100)).unwrap();
    assert_eq!(appender.append(&hello()).unwrap().line_number, 101);
    fs::rename(&path, directory.path().join("archive.md")).unwrap();
    assert_eq!(appender.append(&hello()).unwrap().line_number, 1);
}

#[test]
fn a_line_for_which_there_is_no_room_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chat.md");
    let before = format!("# {}\n", "x".repeat(900));
    fs::write(&path, &before).unwrap();
    // A file may have 1,024 bytes here, so that a write is cut short and the next one fails, as on a full disk.
    let limited = "trap '' XFSZ; ulimit -f 1; exec \"$0\" --exact --nocapture child_that_appends";
    let output = Command::new("bash")
        .args(["-c", limited])
        .arg(std::env::current_exe().unwrap())
        .env("CHAT_FILE", &path)
        .env("CHAT_MESSAGE", "y".repeat(500))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("cannot be written: File too large") && told.contains("nothing was written"), "{told}");
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    append(&path, &hello(), &Options::default()).unwrap();
}

/// Not a test of its own: what another test runs in a process of its own.
#[test]
fn child_that_appends() {
    let Some(path) = std::env::var_os("CHAT_FILE") else { return };
    let message = std::env::var("CHAT_MESSAGE").unwrap();
    let appended = append(Path::new(&path), &line("child", "b", &[], &message), &Options::default());
    println!("told: {appended:?}");
}

#[test]
fn a_lock_that_is_held_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chat.md");
    let held = Locked::open(&path, true, Duration::ZERO).unwrap();
    for timeout in [Duration::ZERO, Duration::from_millis(50)] {
        let error = append(&path, &hello(), &Options { timeout, ..Options::default() }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Backpressure, "{error}");
    }
    assert_eq!(fs::read(&path).unwrap(), b"");
    drop(held);
    append(&path, &hello(), &Options { timeout: Duration::from_secs(10), ..Options::default() }).unwrap();
}

#[test]
fn who_waited_for_the_lock_of_a_file_that_was_replaced_writes_to_the_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chat.md");
    let held = Locked::open(&path, true, Duration::ZERO).unwrap();
    let waiting = std::thread::spawn({
        let path = path.clone();
        move || append(&path, &hello(), &Options::default()).unwrap()
    });
    // Its place in the kernel's queue shows in /proc/locks as a line with an arrow.
    let number = std::os::unix::fs::MetadataExt::ino(&held.file().metadata().unwrap());
    while !fs::read_to_string("/proc/locks")
        .unwrap()
        .lines()
        .any(|lock| lock.contains("->") && lock.contains(&format!(":{number} ")))
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    let archive = directory.path().join("archive.md");
    fs::rename(&path, &archive).unwrap();
    fs::write(&path, "# a new one\n").unwrap();
    drop(held);
    assert_eq!(waiting.join().unwrap().line_number, 2);
    assert_eq!(fs::read(&archive).unwrap(), b"");
    assert_eq!(fs::read_to_string(&path).unwrap(), "# a new one\n[a-to-b]: hello\n");
}

#[test]
fn what_is_no_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refused = append(directory.path(), &hello(), &Options::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidRequest, "{refused}");
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let refused = append(&pipe, &hello(), &Options::default()).unwrap_err();
    assert!(refused.to_string().contains("not a regular file"), "{refused}");
}

#[test]
fn names_that_would_be_misread_are_refused() {
    for (name, why) in [
        ("a-to-b", "\"-to-\" in it"),
        ("", "is empty"),
        ("a b", "has ' '"),
        ("a.b", "has '.'"),
        ("é", "has 'é'"),
        ("a]", "has ']'"),
        ("a\n", "has '\\n'"),
    ] {
        let error = check_name(name, "sender").unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidAgent && error.to_string().contains(why), "{error}");
        assert!(line(name, "b", &[], "x").to_line().is_err());
        assert!(line("a", name, &[], "x").to_line().is_err());
        assert!(line("a", "b", &["c", name], "x").to_line().is_err());
    }
    // As a sender it is read right, as a recipient it is not.
    assert!(line("to-do", "b", &["to-do"], "x").to_line().is_ok());
    assert!(check_recipient("to-do").unwrap_err().to_string().contains("begins with \"to-\""));
    let misread = ChatLine::parse("[a-to-to-do]: x").unwrap();
    assert_eq!((misread.sender.as_str(), misread.recipient.as_str()), ("a-to", "do"));
}

#[test]
fn messages_that_would_be_changed_are_refused_and_can_be_made_to_fit() {
    for (message, fitting) in
        [("", ""), (" x", "x"), ("\nx", "x"), ("\u{a0}x\r\ny\r", "x\ny"), ("x\r", "x"), (" \t", ""), ("x\r\r\n", "x\n")]
    {
        assert_eq!(check_message(message).unwrap_err().kind(), ErrorKind::InvalidRequest, "{message:?}");
        assert_eq!(fit(message), fitting, "{message:?}");
        assert_eq!(check_message(&fit(message)).is_ok(), !fitting.is_empty(), "{message:?}");
    }
    for message in ["x", "x ", "x\n", "x\n\n\ny", "x\ry", "[a-to-b]: x", "x\n[a-to-b]: y"] {
        assert!(check_message(message).is_ok(), "{message:?}");
        assert_eq!(fit(message), message);
    }
}

/// Names of the pieces that make trouble.
fn name() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "-", "to", "_", "-to", "to-", "9", "B"]), 1..5)
        .prop_map(|pieces| pieces.concat())
}

fn message() -> impl Strategy<Value = String> {
    let pieces = vec!["x", " ", "\n", "  ", "\t", "\r", "[a-to-b]: ", "@", "é", "\u{85}", "\u{2028}", "\0", "]"];
    prop::collection::vec(prop::sample::select(pieces), 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn what_is_written_is_read_as_it_was_meant_or_refused(
        sender in name(),
        recipient in name(),
        broadcast in prop::collection::vec(name(), 0..3),
        message in message(),
    ) {
        let meant = ChatLine { sender, recipient, broadcast, message };
        if let Ok(text) = meant.to_line() {
            let between = format!("# before\n{text}[c-to-d]: after\n");
            let found: Vec<ChatLine> = entries(between.as_bytes()).into_iter().map(|entry| entry.line).collect();
            prop_assert_eq!(found, vec![meant, line("c", "d", &[], "after")]);
        }
    }
}

/// A process that is killed while it waits for nothing leaves no half line: its write was one call.
#[test]
fn a_writer_that_is_killed_leaves_whole_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chat.md");
    for round in 0..20 {
        let mut child = Command::new("bash")
            .args(["-c", "while :; do \"$0\" --exact child_that_appends >/dev/null; done"])
            .arg(std::env::current_exe().unwrap())
            .env("CHAT_FILE", &path)
            .env("CHAT_MESSAGE", "z".repeat(2000 + round))
            .process_group(0)
            .spawn()
            .unwrap();
        let started = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        while fs::metadata(&path).map_or(0, |metadata| metadata.len()) <= started {
            std::thread::yield_now();
        }
        rustix::process::kill_process_group(rustix::process::Pid::from_child(&child), rustix::process::Signal::KILL)
            .unwrap();
        child.wait().unwrap();
    }
    let text = fs::read(&path).unwrap();
    assert!(text.ends_with(b"\n"));
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line = ChatLine::parse(line).unwrap();
        assert!((2000..2020).contains(&line.message.len()) && line.sender == "child");
    }
}
