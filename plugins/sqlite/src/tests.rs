//! What cannot be seen from outside: the clock, the groups, a full disk, and the ways along the indexes.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use fmail_api::{
    Clock, Draft, ErrorKind, Imported, Message, MessageId, Order, Query, Result, Scope, Selection, Since, Store,
    Timestamp,
};
use futures::StreamExt;
use futures::executor::block_on;
use futures::future::join_all;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::database::Database;
use crate::filter::Filter;
use crate::walk::Walk;
use crate::{Durability, SqliteOptions, SqliteStore};

/// A clock that stands where it is put.
struct Hands {
    seconds: AtomicI64,
    boot_seconds: AtomicU64,
}

impl Hands {
    fn at(text: &str) -> Arc<Self> {
        let time: Timestamp = text.parse().unwrap();
        Arc::new(Hands { seconds: AtomicI64::new(time.unix_seconds()), boot_seconds: AtomicU64::new(1_000) })
    }

    fn turn(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix(self.seconds.load(Ordering::Relaxed), 0)
    }

    fn since_boot(&self) -> Duration {
        Duration::from_secs(self.boot_seconds.load(Ordering::Relaxed))
    }
}

fn options(directory: &TempDir) -> SqliteOptions {
    SqliteOptions { durability: Durability::Normal, ..SqliteOptions::new(directory.path().join("mail.sqlite")) }
}

fn clocked(directory: &TempDir, clock: &Arc<Hands>) -> SqliteStore {
    SqliteStore::open(SqliteOptions { clock: clock.clone(), ..options(directory) }).unwrap()
}

fn draft(body: impl Into<serde_json::Value>) -> Draft {
    Draft::new("alice".parse().unwrap(), "task".parse().unwrap(), body)
}

fn append(store: &SqliteStore) -> Result<String> {
    block_on(store.append(draft("hello"))).map(|appended| appended.message.id.to_string())
}

fn foreign(id: &str) -> Message {
    draft("theirs").into_message(id.parse().unwrap(), "2026-01-10T15:30:00Z".parse().unwrap())
}

#[test]
fn ids_follow_the_clock_and_never_repeat_within_a_tick() {
    let (directory, clock) = (tempfile::tempdir().unwrap(), Hands::at("2026-01-10T15:30:00Z"));
    let store = clocked(&directory, &clock);
    assert_eq!(append(&store).unwrap(), "20260110-153000-0000");
    assert_eq!(append(&store).unwrap(), "20260110-153000-0001");
    clock.turn(1);
    assert_eq!(append(&store).unwrap(), "20260110-153001-0000");
}

#[test]
fn a_clock_that_steps_back_is_counted_over_while_the_machine_runs_and_is_backpressure_after_it() {
    let (directory, clock) = (tempfile::tempdir().unwrap(), Hands::at("2026-01-10T15:30:00Z"));
    let store = clocked(&directory, &clock);
    append(&store).unwrap();
    clock.turn(-3_600);
    clock.boot_seconds.fetch_add(5, Ordering::Relaxed);
    assert_eq!(append(&store).unwrap(), "20260110-153005-0000");
    block_on(store.close()).unwrap();
    // As if the machine had been started again.
    let connection = Connection::open(directory.path().join("mail.sqlite")).unwrap();
    connection.execute("UPDATE state SET boot = 'another'", ()).unwrap();
    drop(connection);
    let store = clocked(&directory, &clock);
    assert_eq!(append(&store).unwrap_err().kind(), ErrorKind::Backpressure);
    clock.turn(3_600);
    assert_eq!(append(&store).unwrap(), "20260110-153005-0001");
}

#[test]
fn an_import_moves_the_counter_only_when_it_is_at_most_ten_seconds_ahead() {
    let (directory, clock) = (tempfile::tempdir().unwrap(), Hands::at("2026-01-10T15:30:00Z"));
    let store = clocked(&directory, &clock);
    assert_eq!(block_on(store.import(foreign("20260110-153010-0000"))).unwrap(), Imported::New);
    assert_eq!(append(&store).unwrap(), "20260110-153010-0001");
    for (planted, fresh) in
        [("20260110-153010-0002", "20260110-153010-0002"), ("20990101-000000-0001", "20260110-153010-0003")]
    {
        let relocated = Imported::Relocated(fresh.parse().unwrap());
        assert_eq!(block_on(store.import(foreign(planted))).unwrap(), relocated);
    }
}

#[test]
fn a_key_is_forgotten_after_a_day_and_with_its_message() {
    let (directory, clock) = (tempfile::tempdir().unwrap(), Hands::at("2026-01-10T15:30:00Z"));
    let store = clocked(&directory, &clock);
    let keyed = || block_on(store.append(Draft { key: Some("k".into()), ..draft("hello") })).unwrap();
    assert!(!keyed().duplicate);
    clock.turn(24 * 60 * 60);
    assert!(keyed().duplicate);
    clock.turn(1);
    let second = keyed();
    assert!(!second.duplicate);
    assert!(keyed().duplicate);
    let selection = Selection { ids: [second.message.id].into(), ..Selection::default() };
    block_on(async { store.remove(selection).await.unwrap().map(Result::unwrap).count().await });
    assert!(!keyed().duplicate);
}

/// How many transactions the log beside the database holds: a frame that ends one says how large the database is.
fn transactions(path: &Path) -> usize {
    let log = fs::read(path.with_file_name("mail.sqlite-wal")).unwrap();
    let frames = log[32..].chunks_exact(24 + 4096);
    frames.filter(|frame| frame[4..8] != [0; 4]).count()
}

#[test]
fn what_waits_together_is_one_transaction_and_each_has_its_own_verdict() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    let store = SqliteStore::open(options.clone()).unwrap();
    block_on(store.append(Draft { key: Some("known".into()), ..draft("first") })).unwrap();
    let before = transactions(&options.path);
    let other = Connection::open(&options.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let key: fmail_api::RecordKey = "leases".parse().unwrap();
    let (appended, put) = block_on(async {
        // The first is on its way to the lock before the others are asked for; they wait behind it.
        let numbers = (0..50).map(|number| {
            let key = (number % 10 == 9).then(|| "known".to_owned());
            store.append(Draft { key, ..draft(number) })
        });
        let unknown = fmail_api::Expect::Revision(fmail_api::Revision::new("none"));
        let put = store.put(&key, unknown, serde_json::json!({}), true);
        let release = async {
            other.execute_batch("ROLLBACK").unwrap();
        };
        let (appended, put, ()) = futures::join!(join_all(numbers), put, release);
        (appended, put)
    });
    assert_eq!(put.unwrap_err().kind(), ErrorKind::Conflict);
    let duplicates = appended.iter().filter(|appended| appended.as_ref().unwrap().duplicate).count();
    assert_eq!(duplicates, 5);
    assert!(transactions(&options.path) - before <= 2, "{} transactions", transactions(&options.path) - before);
    let count = block_on(async { store.scan(Query::default()).await.unwrap().messages.count().await });
    assert_eq!(count, 46);
}

#[test]
fn a_full_disk_is_told_nothing_is_stored_in_part_and_others_in_the_group_are_not_taken_along() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions { max_pages: Some(120), ..options(&directory) }).unwrap();
    let (answers, stored) = block_on(async {
        // Every fourth is far too large for what is left.
        let bodies = (0..20).map(|number| "word ".repeat(if number % 4 == 3 { 120_000 } else { 10 }));
        let answers = join_all(bodies.map(|body| store.append(draft(body)))).await;
        (answers, store.scan(Query::default()).await.unwrap().messages.count().await)
    });
    for (number, answer) in answers.iter().enumerate() {
        match answer {
            Ok(_) => assert!(number % 4 != 3, "{number} was stored"),
            Err(error) => {
                assert_eq!((error.kind(), number % 4), (ErrorKind::Unavailable, 3), "{error:?}");
                assert!(error.to_string().contains("no space"), "{error}");
            }
        }
    }
    assert_eq!(stored, 15);
    let found = Query { text: Some("word".into()), ..Query::default() };
    assert_eq!(block_on(async { store.scan(found).await.unwrap().messages.count().await }), 15);
}

#[test]
fn a_group_waits_once_for_a_lock_that_it_does_not_get() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions { busy_timeout: Duration::from_millis(300), ..options(&directory) };
    let store = SqliteStore::open(options.clone()).unwrap();
    let other = Connection::open(&options.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let start = std::time::Instant::now();
    let answers = block_on(join_all((0..100).map(|number| store.append(draft(number)))));
    assert!(start.elapsed() < Duration::from_secs(15), "a hundred waited one after another: {:?}", start.elapsed());
    for answer in answers {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Backpressure);
    }
    other.execute_batch("ROLLBACK").unwrap();
    append(&store).unwrap();
    assert_eq!(block_on(async { store.scan(Query::default()).await.unwrap().messages.count().await }), 1);
}

#[test]
fn a_list_of_more_records_than_a_page_has_each_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(options(&directory)).unwrap();
    let keys: Vec<fmail_api::RecordKey> = (0..300)
        .flat_map(|number| ["mailbox/bob", "mailbox/bob-2", "mailbox"].map(|under| format!("{under}/n{number:03}")))
        .map(|key| key.parse().unwrap())
        .collect();
    block_on(join_all(keys.iter().map(|key| store.put(key, fmail_api::Expect::Absent, serde_json::json!({}), false))));
    for (prefix, count) in [("mailbox/bob", 300), ("mailbox/bob-2/", 300), ("mailbox", 900), ("", 900), ("m", 0)] {
        let found: Vec<fmail_api::RecordKey> =
            block_on(async { store.list(prefix).await.unwrap().map(|record| record.unwrap().key).collect().await });
        assert!(found.is_sorted() && found.iter().all(|key| key.is_under(prefix)), "{prefix}");
        assert_eq!(found.len(), count, "{prefix}");
    }
}

#[test]
fn stores_of_one_process_on_one_file_share_their_connections_and_have_to_agree() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    let (one, two) = (Database::open(&options).unwrap(), Database::open(&options).unwrap());
    assert!(Arc::ptr_eq(&one, &two));
    let differing = SqliteOptions { durability: Durability::Full, ..options.clone() };
    assert_eq!(Database::open(&differing).err().unwrap().kind(), ErrorKind::InvalidConfig);
    let link = options.path.with_file_name("other.sqlite");
    fs::hard_link(&options.path, &link).unwrap();
    let linked = SqliteOptions { path: link, ..options.clone() };
    assert_eq!(Database::open(&linked).err().unwrap().kind(), ErrorKind::InvalidConfig);
}

#[test]
fn a_cursor_from_before_a_backup_was_restored_is_expired_and_skips_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    let backup = options.path.with_file_name("backup");
    let end = |store: &SqliteStore| block_on(store.scan(Query::default())).unwrap().cursor;
    let store = SqliteStore::open(options.clone()).unwrap();
    append(&store).unwrap();
    let common = end(&store);
    Connection::open(&options.path).unwrap().execute("VACUUM INTO ?", [backup.to_str().unwrap()]).unwrap();
    append(&store).unwrap();
    let lost = end(&store);
    block_on(store.close()).unwrap();
    for name in ["mail.sqlite", "mail.sqlite-wal", "mail.sqlite-shm"] {
        fs::remove_file(options.path.with_file_name(name)).unwrap();
    }
    fs::rename(&backup, &options.path).unwrap();
    let store = SqliteStore::open(options).unwrap();
    let since = |cursor| Query { since: Some(Since::Cursor(cursor)), ..Query::default() };
    assert_eq!(block_on(store.scan(since(lost.clone()))).err().unwrap().kind(), ErrorKind::Expired);
    append(&store).unwrap();
    append(&store).unwrap();
    assert_eq!(block_on(store.scan(since(lost.clone()))).err().unwrap().kind(), ErrorKind::Expired);
    assert_eq!(block_on(store.watch(Query::default(), lost)).err().unwrap().kind(), ErrorKind::Expired);
    let behind = block_on(async { store.scan(since(common)).await.unwrap().messages.count().await });
    assert_eq!(behind, 2);
}

#[test]
fn closing_ends_watches_with_an_error_and_refuses_later_calls() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(options(&directory)).unwrap();
    let start = block_on(store.scan(Query::default())).unwrap().cursor;
    let mut watch = block_on(store.watch(Query::default(), start)).unwrap();
    let (last, closed) = block_on(async { futures::join!(watch.next(), store.close()) });
    closed.unwrap();
    assert_eq!(last.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(block_on(watch.next()).is_none());
    assert_eq!(append(&store).unwrap_err().kind(), ErrorKind::Unavailable);
}

/// Every combination of what a query can ask, in every order, goes along an index and sorts nothing. The one exception
/// are words in order of arrival, which their index does not know.
#[test]
fn no_walk_reads_everything_before_its_first_message() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    let store = SqliteStore::open(options.clone()).unwrap();
    append(&store).unwrap();
    let database = Database::open(&options).unwrap();
    let connection = Connection::open(&options.path).unwrap();
    let scopes =
        [Scope::All, Scope::Topics, Scope::Target("task".parse().unwrap()), Scope::Visible("bob".parse().unwrap())];
    let sinces = [None, Some(Since::Id(MessageId::MIN)), Some(Since::Time(Timestamp::from_unix(0, 0)))];
    for (scope, since) in scopes.iter().flat_map(|scope| sinces.iter().map(move |since| (scope, since))) {
        for bits in 0..16 {
            let query = Query {
                scope: scope.clone(),
                since: since.clone(),
                from: (bits & 1 > 0).then(|| "alice".parse().unwrap()),
                thread: (bits & 2 > 0).then(|| "plan".into()),
                text: (bits & 4 > 0).then(|| "word".into()),
                before: (bits & 8 > 0).then(|| Timestamp::from_unix(9, 9)),
                ..Query::default()
            };
            let filter = Filter::new(&connection, query.clone(), &database.epoch).unwrap();
            for order in [Order::Ascending, Order::Descending, Order::Arrival] {
                let walk = Walk::new(&filter, order);
                let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", walk.sql())).unwrap();
                let nothing = vec![rusqlite::types::Null; explain.parameter_count()];
                let plan = explain.query_map(rusqlite::params_from_iter(nothing), |row| row.get::<_, String>(3));
                let plan: Vec<String> = plan.unwrap().map(std::result::Result::unwrap).collect();
                let sorts = plan.iter().any(|step| step.contains("TEMP B-TREE"));
                assert_eq!(sorts, order == Order::Arrival && query.text.is_some(), "{query:?} {order:?}: {plan:?}");
            }
        }
    }
}
