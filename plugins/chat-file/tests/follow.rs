//! Following a file through everything that can happen to one. Here with the library, step by step; `tests/e2e` does the
//! same with the built command.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fmail_chat_file::{Change, FollowOptions, Follower, Item, Line, Start, Woken};
use tempfile::TempDir;

/// A directory with or without a chat file, and who follows it.
struct Scene {
    directory: TempDir,
    follower: Option<Follower>,
    found: Vec<Item>,
}

impl Scene {
    fn new() -> Scene {
        Scene { directory: tempfile::tempdir().unwrap(), follower: None, found: Vec::new() }
    }

    /// A file with this text, and someone who follows it from here.
    fn following(text: &str, start: Start) -> Scene {
        let mut scene = Scene::new();
        scene.write(text);
        scene.follow(FollowOptions { start, ..FollowOptions::default() });
        scene
    }

    fn follow(&mut self, options: FollowOptions) {
        self.follower = Some(Follower::open(self.path(), options).unwrap());
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("chat.md")
    }

    fn write(&self, text: impl AsRef<[u8]>) {
        fs::write(self.path(), text).unwrap();
    }

    fn append(&self, text: impl AsRef<[u8]>) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.path()).unwrap();
        file.write_all(text.as_ref()).unwrap();
    }

    /// Puts another file into its place.
    fn replace(&self, text: impl AsRef<[u8]>) {
        let other = self.directory.path().join("other");
        fs::write(&other, text).unwrap();
        fs::rename(other, self.path()).unwrap();
    }

    /// Everything that is found until nothing more can come without another change.
    fn look(&mut self) -> Vec<Item> {
        let follower = self.follower.as_mut().unwrap();
        loop {
            while follower.read(&mut self.found).unwrap() {}
            // The events of what was done are there already. As long as time has to pass, that is waited for.
            let time_matters = follower.due().is_some();
            let end = if time_matters { None } else { Some(Instant::now()) };
            if follower.wait(end).unwrap() == Woken::Time && !time_matters {
                return std::mem::take(&mut self.found);
            }
        }
    }

    /// Reads until this many lines were found.
    fn lines(&mut self, count: usize) -> Vec<Line> {
        let follower = self.follower.as_mut().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            while follower.read(&mut self.found).unwrap() {}
            let lines: Vec<Line> = lines_of(&self.found);
            if lines.len() >= count {
                self.found.clear();
                return lines;
            }
            assert!(Instant::now() < end, "{:?}", self.found);
            follower.wait(Some(end)).unwrap();
        }
    }

    /// Requires that exactly these lines come, with these numbers.
    #[track_caller]
    fn sees(&mut self, expected: &[(u64, &str)]) {
        let found = self.look();
        let found: Vec<(u64, String)> =
            lines_of(&found).into_iter().map(|line| (line.number, String::from_utf8(line.bytes).unwrap())).collect();
        let found: Vec<(u64, &str)> = found.iter().map(|(number, text)| (*number, text.as_str())).collect();
        assert_eq!(found, expected);
    }
}

fn lines_of(items: &[Item]) -> Vec<Line> {
    items.iter().filter_map(|item| if let Item::Line(line) = item { Some(line.clone()) } else { None }).collect()
}

fn changes_of(items: &[Item]) -> Vec<Change> {
    items.iter().filter_map(|item| if let Item::Change(change) = item { Some(change.clone()) } else { None }).collect()
}

#[test]
fn from_the_end_only_what_comes_is_read_and_its_number_is_right() {
    let mut scene = Scene::following("a\nb\n\nc\n", Start::End);
    scene.sees(&[]);
    scene.append("d\ne\n");
    scene.sees(&[(5, "d"), (6, "e")]);
}

#[test]
fn from_the_beginning_everything_is_read() {
    let mut scene = Scene::following("a\nb\n", Start::Beginning);
    let lines = scene.lines(2);
    assert_eq!(lines.iter().map(|line| (line.number, line.offset)).collect::<Vec<_>>(), [(1, 0), (2, 2)]);
    scene.append("c\n");
    scene.sees(&[(3, "c")]);
}

#[test]
fn after_a_line_what_follows_is_read() {
    Scene::following("a\nb\nc\n", Start::After(2)).sees(&[(3, "c")]);
    Scene::following("a\nb\nc\n", Start::After(3)).sees(&[]);
    Scene::following("a\nb\nc\n", Start::After(0)).sees(&[(1, "a"), (2, "b"), (3, "c")]);
    // The last line lacks its newline: it is the third, and who names it has seen it.
    let mut scene = Scene::following("a\nb\nc", Start::After(3));
    scene.sees(&[]);
    scene.append("\nd\n");
    scene.sees(&[(4, "d")]);
    Scene::following("a\nb\nc", Start::After(2)).sees(&[(3, "c")]);
}

#[test]
fn a_file_with_fewer_lines_than_were_seen_is_another_one() {
    let mut scene = Scene::following("a\nb\n", Start::After(7));
    let found = scene.look();
    assert_eq!(changes_of(&found), [Change::Shorter { lines: 2, skipped: 7 }]);
    assert_eq!(lines_of(&found).len(), 2);
}

#[test]
fn a_half_written_line_is_waited_for() {
    let mut scene = Scene::following("a\n", Start::End);
    scene.append("half");
    let follower = scene.follower.as_mut().unwrap();
    while follower.read(&mut scene.found).unwrap() {}
    assert_eq!(scene.found, []);
    scene.append(" and half\n");
    scene.sees(&[(2, "half and half")]);
}

#[test]
fn a_line_without_a_newline_is_given_when_the_file_rests_and_not_again_for_its_newline() {
    let mut scene = Scene::following("a\n", Start::End);
    scene.append("no newline");
    let found = lines_of(&scene.look());
    assert_eq!((found.len(), found[0].ended, found[0].again, found[0].number), (1, false, false, 2));
    scene.append("\r\nb\n");
    scene.sees(&[(3, "b")]);
}

#[test]
fn a_line_that_goes_on_after_it_was_given_is_given_again_whole() {
    let mut scene = Scene::following("a\n", Start::End);
    scene.append("no new");
    assert_eq!(scene.lines(1)[0].bytes, b"no new");
    scene.append("line\nb\n");
    let found = lines_of(&scene.look());
    assert_eq!((found[0].bytes.as_slice(), found[0].again, found[0].number), (&b"no newline"[..], true, 2));
    assert_eq!((found[1].bytes.as_slice(), found[1].again, found.len()), (&b"b"[..], false, 2));
}

#[test]
fn a_last_line_that_was_there_at_the_start_is_old_unless_it_goes_on() {
    let mut scene = Scene::following("a\nold", Start::End);
    scene.sees(&[]);
    scene.append("\nb\n");
    scene.sees(&[(3, "b")]);
    let mut scene = Scene::following("a\nhal", Start::End);
    scene.append("f\nb\n");
    scene.sees(&[(2, "half"), (3, "b")]);
}

#[test]
fn a_file_that_is_not_there_yet_is_read_from_its_first_line() {
    for start in [Start::End, Start::Beginning, Start::After(5)] {
        let mut scene = Scene::new();
        scene.follow(FollowOptions { start, ..FollowOptions::default() });
        assert_eq!(changes_of(&scene.look()), [Change::Missing]);
        scene.append("a\n");
        scene.sees(&[(1, "a")]);
    }
}

#[test]
fn a_truncated_file_is_read_from_its_first_line() {
    let mut scene = Scene::following("a\nb\nc\n", Start::End);
    scene.sees(&[]);
    scene.write("");
    assert_eq!(changes_of(&scene.look()), [Change::New]);
    scene.append("a\n");
    scene.sees(&[(1, "a")]);
}

#[test]
fn a_file_that_is_truncated_and_written_at_once_is_read_from_its_first_line() {
    for text in ["x\n", "x\ny\nz\nlonger than it was before\n"] {
        let mut scene = Scene::following("a\nb\nc\n", Start::End);
        scene.sees(&[]);
        scene.write(text);
        let found = scene.look();
        assert_eq!(changes_of(&found), [Change::New]);
        assert_eq!(lines_of(&found).len(), text.lines().count(), "{text}");
    }
}

#[test]
fn a_file_that_is_moved_away_is_read_to_its_end_and_the_next_one_from_its_start() {
    let mut scene = Scene::following("a\n", Start::End);
    scene.sees(&[]);
    // A writer that has the file open does not notice that it is moved.
    let mut writer = OpenOptions::new().append(true).open(scene.path()).unwrap();
    fs::rename(scene.path(), scene.directory.path().join("archive.md")).unwrap();
    writer.write_all(b"b\n").unwrap();
    assert_eq!(scene.lines(1)[0].number, 2);
    writer.write_all(b"c\nunfinished").unwrap();
    scene.append("d\n");
    writer.write_all(b", still").unwrap();
    scene.sees(&[(3, "c"), (4, "unfinished, still"), (1, "d")]);
    writer.write_all(b"e\n").unwrap();
    scene.append("f\n");
    scene.sees(&[(2, "f")]);
}

#[test]
fn a_deleted_file_is_told_and_the_next_one_is_read_from_its_start() {
    let mut scene = Scene::following("a\n", Start::End);
    scene.sees(&[]);
    fs::remove_file(scene.path()).unwrap();
    assert_eq!(changes_of(&scene.look()), [Change::Missing]);
    scene.append("a\nb\n");
    scene.sees(&[(1, "a"), (2, "b")]);
}

#[test]
fn a_file_that_an_editor_replaced_goes_on_where_it_was() {
    let mut scene = Scene::following("a\nb\n", Start::Beginning);
    assert_eq!(scene.lines(2).len(), 2);
    scene.replace("a\nb\nc\n");
    scene.sees(&[(3, "c")]);
    scene.append("d\n");
    scene.sees(&[(4, "d")]);
    // Somebody wrote a line at its top, and one was divided.
    scene.replace("# Chat\na\nb\nc\nd\ne\n");
    scene.sees(&[(6, "e")]);
}

#[test]
fn a_file_that_is_saved_as_editors_do_with_a_backup_goes_on_where_it_was() {
    let mut scene = Scene::following("a\nb\n", Start::Beginning);
    assert_eq!(scene.lines(2).len(), 2);
    fs::rename(scene.path(), scene.directory.path().join("chat.md~")).unwrap();
    let follower = scene.follower.as_mut().unwrap();
    while follower.read(&mut scene.found).unwrap() {}
    scene.write("");
    let follower = scene.follower.as_mut().unwrap();
    while follower.read(&mut scene.found).unwrap() {}
    scene.write("a\nb\nc\n");
    scene.sees(&[(3, "c")]);
}

#[test]
fn a_file_that_is_rewritten_in_place_goes_on_where_it_was() {
    let old: String = (0..3000).map(|number| format!("line {number}\n")).collect();
    let mut scene = Scene::following(&old, Start::End);
    scene.sees(&[]);
    // In two pieces, with looks between them.
    scene.write("");
    let follower = scene.follower.as_mut().unwrap();
    while follower.read(&mut scene.found).unwrap() {}
    scene.append(&old[..5000]);
    let follower = scene.follower.as_mut().unwrap();
    while follower.read(&mut scene.found).unwrap() {}
    scene.append(format!("{}new\n", &old[5000..]));
    scene.sees(&[(3001, "new")]);
    // A change above, which moves everything; the last lines are the same.
    let edited = old.replace("line 7\n", "line seven\nand one more\n");
    scene.write(format!("{edited}new\nnewer\n"));
    scene.sees(&[(3003, "newer")]);
}

#[test]
fn what_is_left_of_an_archived_file_is_not_read_again() {
    let old: String = (0..1000).map(|number| format!("line {number}\n")).collect();
    let mut scene = Scene::following(&old, Start::Beginning);
    assert_eq!(scene.lines(1000).len(), 1000);
    let kept = old.split_once("line 989\n").unwrap().1;
    scene.replace(kept);
    scene.sees(&[]);
    scene.append("new\n");
    scene.sees(&[(11, "new")]);
}

#[test]
fn a_directory_that_is_not_there_yet_or_is_replaced_is_waited_for() {
    let mut scene = Scene::new();
    let directory = scene.directory.path().join("a/b");
    scene.follower = Some(Follower::open(directory.join("chat.md"), FollowOptions::default()).unwrap());
    assert_eq!(changes_of(&scene.look()), [Change::Missing]);
    fs::create_dir_all(&directory).unwrap();
    scene.sees(&[]);
    fs::write(directory.join("chat.md"), "a\n").unwrap();
    assert_eq!(scene.lines(1)[0].bytes, b"a");
    fs::rename(scene.directory.path().join("a"), scene.directory.path().join("away")).unwrap();
    assert_eq!(changes_of(&scene.look()), [Change::Missing]);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("chat.md"), "b\n").unwrap();
    assert_eq!(scene.lines(1)[0].bytes, b"b");
}

#[test]
fn links_are_followed_also_when_they_are_turned() {
    let mut scene = Scene::new();
    let top = scene.directory.path().to_path_buf();
    for name in ["one", "two"] {
        fs::create_dir(top.join(name)).unwrap();
        fs::write(top.join(name).join("chat.md"), format!("{name}\n")).unwrap();
    }
    std::os::unix::fs::symlink("one", top.join("current")).unwrap();
    std::os::unix::fs::symlink("current/chat.md", scene.path()).unwrap();
    scene.follow(FollowOptions::default());
    scene.sees(&[]);
    fs::rename(top.join("one/chat.md"), top.join("one/archive.md")).unwrap();
    fs::write(top.join("one/chat.md"), "replaced behind the link\n").unwrap();
    assert_eq!(scene.lines(1)[0].bytes, b"replaced behind the link");
    std::os::unix::fs::symlink("two", top.join("next")).unwrap();
    fs::rename(top.join("next"), top.join("current")).unwrap();
    assert_eq!(scene.lines(1)[0].bytes, b"two");
}

#[test]
fn polling_sees_the_same() {
    let mut scene = Scene::new();
    scene.write("a\n");
    let interval = Duration::from_millis(10);
    scene.follow(FollowOptions { events: false, interval, ..FollowOptions::default() });
    scene.append("b\n");
    assert_eq!(scene.lines(1)[0].number, 2);
    scene.replace("a\nb\nc\n");
    assert_eq!(scene.lines(1)[0].number, 3);
    fs::remove_file(scene.path()).unwrap();
    scene.append("x\n");
    let found = scene.lines(1);
    assert_eq!((found[0].number, found[0].bytes.as_slice()), (1, &b"x"[..]));
}

#[test]
fn a_line_that_is_too_long_is_told_and_the_next_one_comes() {
    let mut scene = Scene::new();
    scene.follow(FollowOptions { max_line: 1000, ..FollowOptions::default() });
    scene.append(format!("{}\n{}\nshort\n", "x".repeat(1000), "y".repeat(300_000)));
    let found = scene.look();
    let kinds: Vec<String> = found
        .iter()
        .map(|item| match item {
            Item::Line(line) => format!("{}:{}", line.number, line.bytes.len()),
            Item::TooLong { number, offset, length, allowed } => format!("{number}@{offset} {length}>{allowed}"),
            Item::Change(change) => format!("{change:?}"),
        })
        .collect();
    assert_eq!(kinds, ["1:1000", "2@1001 300001>1000", "3:5"]);
}

#[test]
fn what_is_no_file_is_refused() {
    let scene = Scene::new();
    fs::create_dir(scene.path()).unwrap();
    let error = Follower::open(scene.path(), FollowOptions::default()).unwrap_err();
    assert!(error.to_string().contains("is not a regular file"), "{error}");
    let pipe = scene.directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = Follower::open(&pipe, FollowOptions::default()).unwrap_err();
    assert!(error.to_string().contains("is not a regular file"), "{error}");
}

#[test]
fn a_wait_ends_when_it_is_stopped() {
    let mut scene = Scene::following("a\n", Start::End);
    scene.sees(&[]);
    let stopper = scene.follower.as_ref().unwrap().stopper();
    let thread = std::thread::spawn(move || stopper.stop());
    let end = Instant::now() + Duration::from_secs(60);
    assert_eq!(scene.follower.as_mut().unwrap().wait(Some(end)).unwrap(), Woken::Stopped);
    thread.join().unwrap();
}
