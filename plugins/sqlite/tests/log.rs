//! The write-ahead log stays small, however slow somebody reads.

use std::fs;

use fmail_api::{Draft, Event, Order, Query, Store};
use fmail_sqlite::{Durability, SqliteOptions, SqliteStore};
use futures::StreamExt;
use futures::executor::block_on;
use futures::stream;

const MESSAGES: usize = 4_000;
const BODY: usize = 8_000;

fn draft(number: usize) -> Draft {
    let body = format!("{number} {}", "x".repeat(BODY));
    Draft::new("alice".parse().unwrap(), "task".parse().unwrap(), body)
}

async fn append(store: &SqliteStore, count: usize) {
    let answers = stream::iter(0..count).map(|number| store.append(draft(number))).buffer_unordered(64);
    answers.for_each(|answer| async { drop(answer.unwrap()) }).await;
}

#[test]
fn readers_that_stand_still_do_not_let_the_log_grow() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mail.sqlite");
    // The log is the same without waiting for the disk.
    let options = SqliteOptions { durability: Durability::Normal, ..SqliteOptions::new(&path) };
    let store = SqliteStore::open(options).unwrap();
    block_on(async {
        append(&store, 600).await;
        let mut scan = store.scan(Query { order: Order::Arrival, ..Query::default() }).await.unwrap();
        let mut watch = store.watch(Query::default(), scan.cursor.clone()).await.unwrap();
        assert!(matches!(scan.messages.next().await, Some(Ok(Event::Message(_)))));
        append(&store, 1).await;
        assert!(matches!(watch.next().await, Some(Ok(Event::Message(_)))));
        // Both stand still from here on, in the middle of what they read.
        let written = MESSAGES * BODY;
        append(&store, MESSAGES).await;
        let log = fs::metadata(path.with_file_name("mail.sqlite-wal")).unwrap().len();
        assert!(log < written as u64 / 2, "the log has {log} bytes after {written} were written");
        // And go on where they were.
        assert_eq!(scan.messages.count().await, 599);
        let rest = watch.filter(|event| std::future::ready(matches!(event, Ok(Event::Message(_)))));
        assert_eq!(rest.take(MESSAGES).count().await, MESSAGES);
    });
}
