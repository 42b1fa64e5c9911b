//! Archiving that was killed, in each of the states that it can leave.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fmail_chat_file::archive::{Archived, Job, Which, archive};
use tempfile::TempDir;

struct Place(TempDir);

impl Place {
    fn new(text: &str) -> Place {
        let place = Place(TempDir::new().unwrap());
        fs::create_dir(place.memory()).unwrap();
        fs::write(place.file(), text).unwrap();
        place
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("chat.md")
    }

    fn memory(&self) -> PathBuf {
        self.0.path().join("memory")
    }

    fn hidden(&self, name: &str) -> PathBuf {
        self.0.path().join(format!(".chat.md.{name}"))
    }

    fn archive(&self, stamp: &str, keep: u64) -> Archived {
        let (file, into) = (self.file(), self.memory());
        let (which, timeout) = (Which::AllBut(keep), Duration::from_secs(20));
        archive(&Job { file: &file, into: &into, stamp, which, dry_run: false, timeout }).unwrap()
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    /// What the archives hold, by name.
    fn archives(&self) -> Vec<(String, String)> {
        let mut found: Vec<_> = fs::read_dir(self.memory())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap()))
            .collect();
        found.sort();
        found
    }

    fn is_tidy(&self) -> bool {
        let names = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().contains("archiving")).count() == 0
    }
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

const LINES: &str = "[a-to-b]: one\n[a-to-b]: two\n[a-to-b]: three\n";

#[test]
fn killed_before_the_exchange_nothing_was_moved() {
    let place = Place::new(LINES);
    fs::write(place.memory().join(".chat-1.md.part"), "[a-to-b]: one\n[a-to-b]: two\n").unwrap();
    fs::write(place.hidden("archiving-new"), "[a-to-b]: three\n").unwrap();
    fs::hard_link(place.file(), place.hidden(&format!("archiving-{}-16", LINES.len()))).unwrap();
    append(&place.file(), "[a-to-b]: four\n");
    let done = place.archive("2", 2);
    assert_eq!((done.moved, done.kept, done.late), (2, 2, 0));
    assert_eq!(place.text(), "[a-to-b]: three\n[a-to-b]: four\n");
    assert_eq!(place.archives(), [("chat-2.md".into(), "[a-to-b]: one\n[a-to-b]: two\n".into())]);
    assert!(place.is_tidy());
}

#[test]
fn killed_behind_the_exchange_what_came_late_is_brought_over() {
    let place = Place::new(LINES);
    let old = place.hidden(&format!("archiving-{}-16", LINES.len()));
    fs::write(place.memory().join(".chat-1.md.part"), "[a-to-b]: one\n[a-to-b]: two\n").unwrap();
    fs::rename(place.file(), &old).unwrap();
    fs::write(place.file(), "[a-to-b]: three\n").unwrap();
    append(&old, "[a-to-b]: late\n");
    append(&place.file(), "[a-to-b]: meanwhile\n");
    let done = place.archive("2", 9);
    assert_eq!((done.moved, done.kept, done.late), (0, 3, 15));
    assert_eq!(place.text(), "[a-to-b]: three\n[a-to-b]: meanwhile\n[a-to-b]: late\n");
    assert_eq!(place.archives(), [("chat-1.md".into(), "[a-to-b]: one\n[a-to-b]: two\n".into())]);
    assert!(place.is_tidy());
}

#[test]
fn killed_when_all_was_brought_over_it_is_not_brought_again() {
    let place = Place::new(LINES);
    let old = place.hidden(&format!("archiving-{}-16", LINES.len()));
    fs::rename(place.file(), &old).unwrap();
    append(&old, "[a-to-b]: late\n");
    fs::write(place.file(), "[a-to-b]: three\n[a-to-b]: late\n").unwrap();
    let done = place.archive("2", 9);
    assert_eq!((done.kept, done.late), (2, 0));
    assert_eq!(place.text(), "[a-to-b]: three\n[a-to-b]: late\n");
    assert!(place.is_tidy());
}

#[test]
fn a_line_without_its_end_stays() {
    let place = Place::new("[a-to-b]: one\n[a-to-b]: tw");
    let done = place.archive("1", 0);
    assert_eq!((done.moved, done.kept), (1, 0));
    assert_eq!(place.text(), "[a-to-b]: tw\n", "nobody writes it any more, so that it gets its end");
    assert_eq!(place.archives(), [("chat-1.md".into(), "[a-to-b]: one\n".into())]);
}

#[test]
fn an_archive_of_the_same_second_gets_a_name_of_its_own() {
    let place = Place::new(LINES);
    place.archive("1", 2);
    place.archive("1", 1);
    let names: Vec<String> = place.archives().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["chat-1-1.md", "chat-1.md"]);
}
