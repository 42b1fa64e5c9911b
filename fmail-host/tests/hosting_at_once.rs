//! Programs that find projects at the same time, and that are killed while they do.
//!
//! The programs are this very test, started again with a variable that says what to do.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use common::Place;
use fmail_api::HostedProject;
use fmail_host::{Catalogue, Environment, Settings};

/// Says in which home the program finds projects, one for each line that it reads.
const HOME: &str = "HOSTING_TEST_HOME";

fn catalogue(home: &Path) -> Catalogue {
    let mut environment = Environment::new(home, [("HOME".to_string(), home.display().to_string())].into());
    environment.system_dir = home.join("etc");
    Catalogue::new(&environment, &Settings::default(), &[], Arc::new(|_| {})).unwrap()
}

/// Not a test: what a program does that was started again.
#[test]
fn the_program() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let catalogue = catalogue(Path::new(&home));
    for line in std::io::stdin().lock().lines() {
        let found = catalogue.find(Path::new(&line.unwrap()), true).unwrap();
        // Standard output belongs to the test's own frame.
        writeln!(std::io::stderr(), "{}", serde_json::to_string(&found).unwrap()).unwrap();
    }
}

struct Program {
    child: Child,
}

impl Program {
    fn start(home: &Path) -> Program {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_program", "--nocapture"])
            .env(HOME, home)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Program { child }
    }

    /// Asks for all of these, and does not wait.
    fn ask(&mut self, paths: &[PathBuf]) {
        let mut stdin = self.child.stdin.take().unwrap();
        for path in paths {
            // One that was killed does not listen any more.
            let _ = writeln!(stdin, "{}", path.display());
        }
    }

    fn answers(mut self) -> Vec<HostedProject> {
        let lines = BufReader::new(self.child.stderr.take().unwrap()).lines().map(|line| line.unwrap());
        let answers = lines.filter_map(|line| serde_json::from_str(&line).ok()).collect();
        self.child.wait().unwrap();
        answers
    }
}

/// Paths that all have one slug, and directories among them.
fn alike(place: &Place) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for between in ["-", "/", "_", ".", "--", "/-", " ", "+"] {
        paths.push(format!("/col/a{between}b").into());
        paths.push(place.dir(&format!("home/col/a{between}b")));
    }
    paths
}

#[test]
fn programs_that_ask_at_once_agree_on_every_slug() {
    let place = Place::new();
    let paths = alike(&place);
    let home = place.path("home");
    let mut programs: Vec<Program> = (0..6).map(|_| Program::start(&home)).collect();
    for (number, program) in programs.iter_mut().enumerate() {
        let mut order = paths.clone();
        order.rotate_left(number * 3);
        program.ask(&order);
    }
    let mut by_root: BTreeMap<PathBuf, BTreeSet<(String, String, String)>> = BTreeMap::new();
    let mut new = 0;
    for program in programs {
        let answers = program.answers();
        assert_eq!(answers.len(), paths.len());
        for one in answers {
            new += usize::from(one.new);
            by_root.entry(one.root).or_default().insert((one.slug, one.id, one.created.to_string()));
        }
    }
    assert_eq!((by_root.len(), new), (paths.len(), paths.len()), "each project is created once");
    assert!(by_root.values().all(|told| told.len() == 1), "{by_root:?}");
    let slugs: BTreeSet<_> = by_root.values().flatten().map(|(slug, ..)| slug).collect();
    assert_eq!(slugs.len(), paths.len());
    assert_eq!(catalogue(&home).hosted().unwrap().len(), paths.len());
}

#[test]
fn a_program_that_is_killed_leaves_nothing_that_another_cannot_finish() {
    let place = Place::new();
    let home = place.dir("home");
    let mut told: BTreeMap<PathBuf, HostedProject> = BTreeMap::new();
    for round in 0..15 {
        let paths: Vec<PathBuf> = (0..40)
            .map(|number| match number % 2 {
                0 => format!("/col/r{round}/{}", number / 8).into(),
                _ => place.dir(&format!("home/r{round}/{}", number / 8)),
            })
            .collect();
        let mut program = Program::start(&home);
        let lines = BufReader::new(program.child.stderr.take().unwrap()).lines();
        program.ask(&paths);
        // Somewhere in the middle of it; where exactly is up to the machine.
        let seen: Vec<HostedProject> =
            lines.map_while(|line| line.ok()).filter_map(|line| serde_json::from_str(&line).ok()).take(round).collect();
        program.child.kill().unwrap();
        program.child.wait().unwrap();
        let after = catalogue(&home);
        for one in seen {
            let again = after.find(Path::new(&one.key), false).unwrap();
            assert_eq!(again, HostedProject { new: false, ..one });
        }
        for path in &paths {
            let found = HostedProject { new: false, ..after.find(path, true).unwrap() };
            assert!(found.root.join(".fmail/project.json").is_file() && found.root.join(".fmail/.gitignore").is_file());
            told.insert(path.clone(), found);
        }
    }
    let all = catalogue(&home);
    for (path, before) in &told {
        assert_eq!(all.find(path, false).unwrap(), *before);
    }
    assert_eq!(all.hosted().unwrap().len(), told.len());
}

/// Every state that a kill can leave, made by hand.
#[test]
fn every_half_done_state_is_finished_by_whoever_comes_next() {
    let place = Place::new();
    let home = place.dir("home");
    let data = home.join(".local/share/fmail");
    let key = || Path::new("/col/key");
    let whole = catalogue(&home).find(key(), true).unwrap();
    let note = data.join("projects/col-key.json");

    // Noted, and no directory; a directory, and no `.fmail`; a `.fmail`, and nothing in it.
    for keep in 0..3 {
        fs::remove_dir_all(&whole.root).unwrap();
        match keep {
            0 => {}
            1 => fs::create_dir(&whole.root).unwrap(),
            _ => fs::create_dir_all(whole.root.join(".fmail")).unwrap(),
        }
        assert_eq!(catalogue(&home).find(key(), false).is_ok(), keep == 2);
        let again = catalogue(&home).find(key(), true).unwrap();
        assert_eq!((&again.slug, &again.root, &again.id), (&whole.slug, &whole.root, &whole.id));
        assert!(whole.root.join(".fmail/project.json").is_file() && again.new == (keep < 2));
    }

    // A temporary that is half written; one that is the very file that was linked; both under a number of ours.
    let note_before = fs::read_to_string(&note).unwrap();
    for number in 0..50 {
        let temporary = data.join(format!("projects/.{}-{number}.tmp", std::process::id()));
        match number % 2 {
            0 => fs::write(temporary, "{\"slug").unwrap(),
            _ => fs::hard_link(&note, temporary).unwrap(),
        }
    }
    for number in 0..10 {
        catalogue(&home).find(Path::new(&format!("/other/{number}")), true).unwrap();
    }
    assert_eq!(fs::read_to_string(&note).unwrap(), note_before, "nobody writes into what is linked");
    assert_eq!(catalogue(&home).hosted().unwrap().len(), 11);

    // A project in a directory that nobody has noted.
    let directory = place.dir("home/app");
    let before = catalogue(&home).find(&directory, true).unwrap();
    fs::remove_file(data.join("projects").join(format!("{}.json", before.slug))).unwrap();
    assert_eq!(catalogue(&home).find(&directory, false).unwrap(), HostedProject { new: false, ..before });
}
