//! A file to which anything happens, in any order, beside a model that knows what was written: every line comes once, in
//! its order, with its number.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use fmail_chat_file::{FollowOptions, Follower, Item, Start, Woken};
use tempfile::TempDir;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

struct Model {
    directory: TempDir,
    follower: Follower,
    random: Random,
    /// What the file holds, as far as the model knows.
    lines: Vec<String>,
    /// What must come.
    expected: Vec<String>,
    written: usize,
    /// Another file may stand in the place of the one that is open.
    replaced: bool,
    log: Vec<String>,
}

impl Model {
    fn new(seed: u64, events: bool) -> Model {
        let directory = tempfile::tempdir().unwrap();
        let options = FollowOptions {
            start: Start::Beginning,
            events,
            interval: std::time::Duration::from_millis(5),
            ..FollowOptions::default()
        };
        let follower = Follower::open(directory.path().join("chat.md"), options).unwrap();
        let (lines, expected, log) = (Vec::new(), Vec::new(), Vec::new());
        Model { directory, follower, random: Random(seed), lines, expected, written: 0, replaced: false, log }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("chat.md")
    }

    /// Some lines that nobody has written before, and a comment now and then.
    fn fresh(&mut self) -> Vec<String> {
        let count = 1 + self.random.below(4);
        (0..count)
            .map(|_| {
                self.written += 1;
                format!("[a-to-b]: {} {}", self.written, "x".repeat(self.random.below(30)))
            })
            .collect()
    }

    fn text(lines: &[String]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn append(&mut self) {
        let fresh = self.fresh();
        let text = Self::text(&fresh);
        self.lines.extend(fresh.clone());
        self.expected.extend(fresh);
        // In pieces, as a slow writer does.
        let cut = self.random.below(text.len());
        let mut file = OpenOptions::new().append(true).create(true).open(self.path()).unwrap();
        file.write_all(&text.as_bytes()[..cut]).unwrap();
        if self.random.below(2) == 0 {
            self.take_what_is_there();
        }
        file.write_all(&text.as_bytes()[cut..]).unwrap();
    }

    /// Reads without waiting, so that what is in the middle of something is seen there.
    fn take_what_is_there(&mut self) {
        let mut found = Vec::new();
        while self.follower.read(&mut found).unwrap() {}
        self.check(found);
    }

    fn check(&mut self, found: Vec<Item>) {
        for item in found {
            let Item::Line(line) = item else { continue };
            let text = String::from_utf8(line.bytes).unwrap();
            if text.starts_with('#') {
                continue;
            }
            assert!(!self.expected.is_empty(), "nobody wrote {text:?} now; {:?}", self.log);
            assert_eq!(text, self.expected.remove(0), "{:?}", self.log);
            if let Some(place) = self.lines.iter().position(|known| *known == text) {
                assert_eq!(line.number, place as u64 + 1, "{text:?}; {:?}", self.log);
            }
        }
    }

    /// Reads and waits until nothing more can come.
    fn settle(&mut self) {
        let mut found = Vec::new();
        let deadline = Instant::now() + std::time::Duration::from_secs(60);
        loop {
            while self.follower.read(&mut found).unwrap() {}
            let lines =
                found.iter().filter(|item| matches!(item, Item::Line(line) if line.bytes.first() != Some(&b'#')));
            let complete = lines.count() >= self.expected.len();
            if complete && self.follower.due().is_none() {
                break;
            }
            assert!(Instant::now() < deadline, "{:?} did not come; {:?}", self.expected, self.log);
            if self.follower.wait(Some(deadline)).unwrap() == Woken::Time {
                break;
            }
        }
        self.check(found);
        self.replaced = false;
        assert_eq!(self.expected, [] as [String; 0], "{:?}", self.log);
    }

    fn put(&mut self, in_place: bool) {
        self.replaced = true;
        let text = Self::text(&self.lines);
        if in_place {
            // Truncated, then written in two pieces.
            let mut file = OpenOptions::new().write(true).truncate(true).create(true).open(self.path()).unwrap();
            let cut = self.random.below(text.len() + 1);
            file.write_all(&text.as_bytes()[..cut]).unwrap();
            if self.random.below(2) == 0 {
                self.take_what_is_there();
            }
            file.write_all(&text.as_bytes()[cut..]).unwrap();
        } else {
            let other = self.directory.path().join("other");
            fs::write(&other, text).unwrap();
            fs::rename(other, self.path()).unwrap();
        }
    }

    fn step(&mut self) {
        let kind = self.random.below(10);
        let in_place = self.random.below(2) == 0;
        self.log.push(format!("{kind}{}", if in_place { " in place" } else { "" }));
        match kind {
            0..=3 => self.append(),
            // Saved by an editor, with something new at its end.
            4 => {
                self.settle();
                let fresh = self.fresh();
                self.lines.extend(fresh.clone());
                self.expected.extend(fresh);
                self.put(in_place);
            }
            // A line changed in the middle, or one put above everything.
            5 => {
                self.settle();
                let at = self.random.below(self.lines.len().saturating_sub(3).max(1)).min(self.lines.len());
                self.lines.insert(at, format!("# note {}", self.written));
                self.put(in_place);
            }
            // Old messages archived.
            6 => {
                self.settle();
                let gone = self.random.below(self.lines.len().max(1));
                self.lines.drain(..gone);
                self.put(in_place);
            }
            // Moved away or deleted, and written anew.
            7 | 8 => {
                if self.replaced {
                    // A file that was there for a moment only, and never open, is beyond anyone.
                    self.settle();
                }
                if kind == 7 {
                    let _ = fs::rename(self.path(), self.directory.path().join("archive"));
                } else {
                    let _ = fs::remove_file(self.path());
                }
                if in_place {
                    self.take_what_is_there();
                }
                self.lines.clear();
                self.append();
                self.settle();
            }
            // Emptied, and written anew.
            _ => {
                self.settle();
                fs::write(self.path(), "").unwrap();
                if in_place {
                    self.take_what_is_there();
                }
                self.lines.clear();
                self.append();
                self.settle();
            }
        }
    }
}

#[test]
fn every_line_comes_once_whatever_becomes_of_the_file() {
    let seed = std::env::var("FMAIL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seed.map_or_else(|| (1..=if full() { 40 } else { 4 }).collect(), |seed| vec![seed]);
    std::thread::scope(|scope| {
        for seed in seeds {
            scope.spawn(move || {
                println!("FMAIL_TEST_SEED={seed}");
                let mut model = Model::new(seed * 7919, seed % 2 == 1);
                for _ in 0..if full() { 200 } else { 40 } {
                    model.step();
                }
                model.settle();
            });
        }
    });
}

fn full() -> bool {
    std::env::var_os("FMAIL_TEST_FULL").is_some()
}
