//! Several processes on one database, and processes that are killed.
//!
//! This binary is also each of those processes: it starts itself again with [`TASK`] set.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use fmail_api::{Draft, ErrorKind, Event, Expect, Message, MessageId, Order, Query, RecordKey, Result, Store};
use fmail_sqlite::{SqliteOptions, SqliteStore};
use futures::StreamExt;
use futures::executor::block_on;
use futures::stream;
use libtest_mimic::{Arguments, Failed, Trial};
use rusqlite::Connection;
use serde_json::json;

/// What a process is to do: its kind, its name and how often.
const TASK: &str = "FMAIL_SQLITE_TASK";
/// On which database.
const FILE: &str = "FMAIL_SQLITE_FILE";

fn main() -> ExitCode {
    if let (Ok(task), Some(file)) = (env::var(TASK), env::var_os(FILE)) {
        return match perform(&task, Path::new(&file)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error:?}");
                ExitCode::FAILURE
            }
        };
    }
    type Case = fn(&Path) -> std::result::Result<(), Failed>;
    let cases: [(&str, Case); 4] = [
        ("two_processes_that_write_lose_nothing_and_a_watch_sees_all_in_order", two_writers),
        ("what_was_answered_survives_kills_in_the_middle_of_groups", killed_in_groups),
        ("a_counter_raised_by_two_processes_misses_nothing", two_counters),
        ("eight_processes_that_make_one_database_agree_on_it", eight_makers),
    ];
    let trial = |(name, case): (&str, Case)| {
        Trial::test(name, move || {
            let directory = tempfile::tempdir()?;
            case(&directory.path().join("mail.sqlite"))
        })
    };
    libtest_mimic::run(&Arguments::from_args(), cases.into_iter().map(trial).collect()).exit_code()
}

/// The part of a process.
fn perform(task: &str, file: &Path) -> Result<()> {
    let parts: Vec<&str> = task.split(' ').collect();
    let count: u64 = parts[2].parse().unwrap_or(0);
    let store = SqliteStore::open(SqliteOptions::new(file))?;
    match parts[0] {
        "append" => block_on(append(&store, parts[1], count)),
        "count" => block_on(raise(&store, count)),
        other => panic!("`{other}` is no task"),
    }
}

/// Appends messages, many at a time, and prints a line behind each answer.
async fn append(store: &SqliteStore, name: &str, count: u64) -> Result<()> {
    let one = |number: u64| async move {
        let draft = Draft::new(name.parse()?, "task".parse()?, format!("{name} word{number}{name}"));
        Ok((number, store.append(draft).await?.message.id))
    };
    let mut answers = stream::iter(0..count).map(one).buffer_unordered(32);
    while let Some(answer) = answers.next().await {
        let (number, id) = answer?;
        // Nobody reads any more when the one who started us has failed.
        if writeln!(std::io::stdout(), "{number} {id}").is_err() {
            break;
        }
    }
    Ok(())
}

fn counter() -> RecordKey {
    RecordKey::leases()
}

/// Raises the counter, each time by compare-and-swap.
async fn raise(store: &SqliteStore, count: u64) -> Result<()> {
    for _ in 0..count {
        loop {
            let record = store.get(&counter()).await?;
            let (expect, before) = match record {
                Some(record) => (Expect::Revision(record.revision), record.value["count"].as_u64().unwrap_or(0)),
                None => (Expect::Absent, 0),
            };
            match store.put(&counter(), expect, json!({ "count": before + 1 }), true).await {
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Starts a process.
fn start(file: &Path, task: &str) -> std::io::Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    command.env(TASK, task).env(FILE, file).stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn()
}

/// The lines that a process prints, whole ones only, until it ends or `enough` are there; then it is killed.
fn lines(child: &mut Child, enough: usize) -> std::io::Result<Vec<String>> {
    let output = child.stdout.take().ok_or_else(|| std::io::Error::other("no output"))?;
    let (mut output, mut lines, mut line) = (BufReader::new(output), Vec::new(), String::new());
    while output.read_line(&mut line)? > 0 {
        lines.extend(line.strip_suffix('\n').map(str::to_owned));
        line.clear();
        if lines.len() == enough {
            child.kill()?;
        }
    }
    child.wait()?;
    Ok(lines)
}

/// The ids that a process has printed.
fn ids(lines: &[String]) -> Vec<MessageId> {
    lines.iter().map(|line| line.split_once(' ').unwrap().1.parse().unwrap()).collect()
}

fn all(store: &SqliteStore, order: Order) -> Vec<Message> {
    block_on(async {
        let scan = store.scan(Query { order, ..Query::default() }).await.unwrap();
        let message = |event: Result<Event>| async move {
            match event.unwrap() {
                Event::Message(delivery) => Some((*delivery.message).clone()),
                other => panic!("{other:?}"),
            }
        };
        scan.messages.filter_map(message).collect().await
    })
}

fn two_writers(file: &Path) -> std::result::Result<(), Failed> {
    const EACH: usize = 1_000;
    let store = SqliteStore::open(SqliteOptions::new(file)).unwrap();
    let start_here = block_on(store.scan(Query::default())).unwrap().cursor;
    let watch = block_on(store.watch(Query::default(), start_here)).unwrap();
    let mut children = [start(file, &format!("append a {EACH}"))?, start(file, &format!("append b {EACH}"))?];
    // This process writes nothing: what the watch sees, others have committed.
    let delivered = watch.filter_map(|event| async move {
        match event.unwrap() {
            Event::Message(delivery) => Some(delivery.message.id),
            _ => None,
        }
    });
    let delivered: Vec<MessageId> = block_on(delivered.take(2 * EACH).collect());
    let mut answered = BTreeSet::new();
    for child in &mut children {
        answered.extend(ids(&lines(child, usize::MAX)?));
    }
    assert_eq!(answered.len(), 2 * EACH, "ids that were answered, each once");
    assert!(delivered.is_sorted(), "assigned ids become visible in ascending order");
    assert_eq!(delivered.iter().copied().collect::<BTreeSet<_>>(), answered);
    assert_eq!(all(&store, Order::Arrival).iter().map(|message| message.id).collect::<Vec<_>>(), delivered);
    Ok(())
}

fn killed_in_groups(file: &Path) -> std::result::Result<(), Failed> {
    let mut answered: BTreeMap<MessageId, String> = BTreeMap::new();
    for (round, enough) in [1, 10, 33, 64, 100, 257].into_iter().enumerate() {
        let name = format!("round-{round}");
        let lines = lines(&mut start(file, &format!("append {name} 100000"))?, enough)?;
        assert!(lines.len() >= enough, "the writer ended by itself");
        for line in &lines {
            let (number, id) = line.split_once(' ').unwrap();
            answered.insert(id.parse().unwrap(), format!("{name} word{number}{name}"));
        }
        let store = SqliteStore::open(SqliteOptions::new(file)).unwrap();
        let stored: BTreeMap<MessageId, String> = all(&store, Order::Ascending)
            .into_iter()
            .map(|message| (message.id, message.body.as_str().unwrap().to_owned()))
            .collect();
        for (id, body) in &answered {
            assert_eq!(stored.get(id), Some(body), "{id} was answered");
        }
        // What is stored is whole: every index has it, the index of words too.
        let found = block_on(async {
            let query = Query { text: Some("word*".into()), order: Order::Descending, ..Query::default() };
            store.scan(query).await.unwrap().messages.count().await
        });
        assert_eq!(found, stored.len());
        let summary = block_on(store.summary(Query::default())).unwrap();
        assert_eq!(summary.targets[0].messages, stored.len() as u64);
        block_on(store.close()).unwrap();
        sound(file);
    }
    Ok(())
}

/// SQLite finds nothing wrong with the file.
fn sound(file: &Path) {
    let connection = Connection::open(file).unwrap();
    let verdict: String = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    connection.execute("INSERT INTO search(search) VALUES ('integrity-check')", ()).unwrap();
}

fn two_counters(file: &Path) -> std::result::Result<(), Failed> {
    let mut children = [start(file, "count a 150")?, start(file, "count b 150")?];
    for child in &mut children {
        assert!(child.wait()?.success());
    }
    let store = SqliteStore::open(SqliteOptions::new(file)).unwrap();
    assert_eq!(block_on(store.get(&counter())).unwrap().unwrap().value, json!({"count": 300}));
    Ok(())
}

fn eight_makers(file: &Path) -> std::result::Result<(), Failed> {
    let file = file.with_file_name("new/directory/mail.sqlite");
    let tasks = (0..8).map(|number| start(&file, &format!("append maker-{number} 5")));
    let mut answered = BTreeSet::new();
    for child in tasks.collect::<std::io::Result<Vec<Child>>>()?.iter_mut() {
        answered.extend(ids(&lines(child, usize::MAX)?));
    }
    assert_eq!(answered.len(), 40);
    let store = SqliteStore::open(SqliteOptions::new(&file)).unwrap();
    assert_eq!(all(&store, Order::Ascending).iter().map(|message| message.id).collect::<BTreeSet<_>>(), answered);
    Ok(())
}
