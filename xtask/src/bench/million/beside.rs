//! The files beside SQLite, with the same messages: the `sqlite` store behind the same commands, and the library alone, asked
//! the same in SQL.

use std::path::{Path, PathBuf};

use fmail_api::{Error, Result};

use super::{Projects, add_peak, peak};
use crate::bench::plugins::Plugins;
use crate::bench::report::{Report, shown};
use crate::bench::stage::{Stage, succeed};
use crate::bench::timing::{medians, ratio, time};
use crate::cargo;
use crate::fixture;

/// What is asked.
struct Question {
    what: &'static str,
    command: Vec<String>,
    /// The same without fmail.
    sql: Option<String>,
    /// It was measured with few messages already.
    known: bool,
    /// Reading every message takes seconds; a few times are enough to tell.
    slow: bool,
}

/// Adds the rows of this measurement.
pub fn measure(stage: &Stage, projects: &Projects, rounds: usize, report: &mut Report) -> Result<()> {
    let plugins = Plugins::set(stage)?;
    let sqlite = imported(stage, &plugins, projects)?;
    let database = database(&sqlite)?;
    let count = projects.count();
    for question in questions(projects.messages) {
        let Question { what, command, sql, known, slow } = question;
        let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        let rounds = if slow { rounds.div_ceil(50) } else { rounds };
        let (few, many) = (&projects.few, &projects.many);
        let commands =
            [stage.fmail(few, &arguments), stage.fmail(many, &arguments), plugins.fmail(&sqlite, "sqlite", &arguments)];
        let [little, files, with_sqlite] = medians(rounds, commands)?;
        let small = format!("{what}, 1,000 messages");
        let what = format!("{what}, {count} messages");
        if known {
            report.figure(format!("{what}, files"), shown(files));
        } else {
            report.figure(small, shown(little));
            report.compared(&what, shown(files), ratio(files, little), "with 1,000");
            add_peak(report, &what, peak(&mut stage.fmail_with_peak(many, &arguments))?);
        }
        report.compared(format!("{what}, `sqlite` store"), shown(with_sqlite), ratio(with_sqlite, files), "the files");
        if let Some(sql) = sql {
            let [plain] = medians(rounds, [plugins.cost(&["query", &database.display().to_string(), &sql])])?;
            report.compared(format!("{what}, SQLite alone"), shown(plain), ratio(plain, files), "the files");
        }
    }
    Ok(())
}

fn questions(messages: usize) -> Vec<Question> {
    let question = |what, words: &[&str], sql: Option<String>| Question {
        what,
        command: words.iter().map(|word| word.to_string()).collect(),
        sql,
        known: false,
        slow: false,
    };
    let known = |question| Question { known: true, ..question };
    let search = |word: &str| {
        Some(format!(
            "SELECT m.json FROM search CROSS JOIN messages m ON m.id = search.rowid WHERE search MATCH \
             '{{subject body tags}} : \"{word}\"' ORDER BY search.rowid DESC LIMIT 20"
        ))
    };
    let topics = "SELECT target, count(*), max(id) FROM places GROUP BY target".to_string();
    let newest = "SELECT m.json FROM places p CROSS JOIN messages m ON m.id = p.id WHERE p.target = 'task' \
                  ORDER BY p.id DESC LIMIT 20";
    let rare = (messages / 2).to_string();
    let old = question("`fmail search`, a word in one old message", &["search", &rare], search(&rare));
    vec![
        known(question("`fmail log task -n 20`", &["log", "task", "-n", "20"], Some(newest.into()))),
        known(question("`fmail send`", &["send", "bench", "one more"], None)),
        question("`fmail topics`", &["topics"], Some(topics)),
        question("`fmail search`, a word in every message", &["search", "module"], search("module")),
        Question { slow: true, ..old },
    ]
}

/// A project whose store is the `sqlite` plugin, with the messages of the large one. Importing them takes minutes, so that the
/// result is kept below the target directory as the fixture is.
fn imported(stage: &Stage, plugins: &Plugins<'_>, projects: &Projects) -> Result<PathBuf> {
    let kept = fixture::derived("sqlite", projects.messages, |directory| {
        let (from, to) = (projects.many.display().to_string(), directory.display().to_string());
        let taken = time(&mut plugins.cost(&["fill", &from, &to, "sqlite"]))?;
        eprintln!("imported {} messages into sqlite in {}", projects.count(), shown(taken));
        Ok(())
    })?;
    let copy = stage.directory().join("sqlite");
    cargo::run(std::process::Command::new("cp").arg("-a").arg(&kept).arg(&copy))?;
    // The first command finds out what later ones know.
    succeed(&mut plugins.fmail(&copy, "sqlite", &["topics"]))?;
    rustix::fs::sync();
    Ok(copy)
}

/// The file that the plugin keeps everything in.
fn database(root: &Path) -> Result<PathBuf> {
    let mut directories = vec![root.join(".fmail")];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(&directory).map_err(crate::install::doing("reading", &directory))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            match path.file_name() {
                Some(name) if name == "mail.sqlite" => return Ok(path),
                _ if path.is_dir() => directories.push(path),
                _ => {}
            }
        }
    }
    Err(Error::internal(format!("there is no mail.sqlite below {}", root.display())))
}
