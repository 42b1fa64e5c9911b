//! Reading very much in order of arrival: it is not listed first, and the result is the same as if it were.

mod common;

use std::sync::Arc;

use common::{Project, all, arrivals, scan, send};
use fmail_api::{Message, MessageId, Order, Query, Scope, Since, Store};
use futures::executor::block_on;

const MANY: usize = 3_500;

/// A project with many messages in three topics, written by hand.
fn project() -> Project {
    let project = Project::in_memory();
    for number in 0..MANY {
        let topic = ["task", "build", "docs"][number % 3];
        let id = format!("20260110-15{:02}{:02}-{:04}", number / 60 % 60, number % 60, number);
        std::fs::create_dir_all(project.path(&format!("topics/{topic}"))).unwrap();
        let text =
            format!(r#"{{"id":"{id}","from":"jq","to":"{topic}","time":"2026-01-10T15:00:00Z","body":"{number}"}}"#);
        std::fs::write(project.path(&format!("topics/{topic}/{id}.json")), text).unwrap();
    }
    project
}

fn ids(messages: &[Arc<Message>]) -> Vec<MessageId> {
    messages.iter().map(|message| message.id).collect()
}

fn by_arrival(query: Query) -> Query {
    Query { order: Order::Arrival, ..query }
}

#[test]
fn everything_comes_once_and_in_order() {
    let project = project();
    let store = project.store();
    let expected = ids(&all(&store));
    assert_eq!(expected.len(), MANY);
    assert_eq!(ids(&arrivals(&store)), expected);
    let of_topic = Query { scope: Scope::Target("build".parse().unwrap()), ..Query::default() };
    let in_topic = ids(&scan(&store, of_topic.clone()));
    assert!(in_topic.len() > 1_000);
    assert_eq!(ids(&scan(&store, by_arrival(of_topic))), in_topic);
    let middle = Query { since: Some(Since::Id(expected[499])), ..Query::default() };
    assert_eq!(ids(&scan(&store, by_arrival(middle))), expected[500..]);
}

#[test]
fn it_goes_on_behind_a_cursor_and_ends_where_the_scan_began() {
    let project = project();
    let store = project.store();
    let expected = ids(&all(&store));
    let page = Query { limit: Some(1_000), ..by_arrival(Query::default()) };
    let cursor = block_on(store.scan(page)).unwrap().cursor;
    let rest = by_arrival(Query { since: Some(Since::Cursor(cursor)), ..Query::default() });
    let begun = block_on(store.scan(rest.clone())).unwrap();
    // What arrives now is behind the cursor of the scan that has begun.
    let later = send(&store, "task", "later").id;
    let messages = common::messages(begun.messages).unwrap();
    assert_eq!(ids(&messages), expected[1_000..]);
    let after = by_arrival(Query { since: Some(Since::Cursor(begun.cursor)), ..Query::default() });
    assert_eq!(ids(&scan(&store, after)), [later]);
}

#[test]
fn a_damaged_index_is_made_anew_before_anything_is_delivered() {
    let project = project();
    let expected = ids(&all(&project.store()));
    let index = project.path("index");
    let mut bytes = std::fs::read(&index).unwrap();
    // The last third holds entries only: one of them, far from both ends.
    let place = bytes.len() * 5 / 6;
    bytes[place] ^= 0x10;
    // In place: another file of that name would be made anew for that alone.
    let file = std::fs::OpenOptions::new().write(true).open(&index).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes[place..=place], place as u64).unwrap();
    assert_eq!(ids(&arrivals(&project.store())), expected);
}

#[test]
fn from_the_newest_on_it_is_the_same_turned_around_also_what_is_out_of_order() {
    let project = project();
    let store = project.store();
    assert_eq!(all(&store).len(), MANY);
    // Found after the index was built: older than everything, among the others, and so far ahead that it is planted.
    for (id, topic) in [
        ("20250101-000000-0001", "task"),
        ("20260110-151000-9999", "docs"),
        ("20260110-151500-9999", "build"),
        ("20990101-000000-0001", "build"),
    ] {
        let text =
            format!(r#"{{"id":"{id}","from":"late","to":"{topic}","time":"2026-01-10T15:00:00Z","body":"late"}}"#);
        std::fs::write(project.path(&format!("topics/{topic}/{id}.json")), text).unwrap();
    }
    let expected = ids(&all(&store));
    assert_eq!(expected.len(), MANY + 4);
    let cursor = {
        let page = Query { limit: Some(1_000), ..by_arrival(Query::default()) };
        block_on(store.scan(page)).unwrap().cursor
    };
    for query in [
        Query::default(),
        Query { from: Some("late".parse().unwrap()), ..Query::default() },
        Query { since: Some(Since::Id(expected[700])), ..Query::default() },
        Query { since: Some(Since::Cursor(cursor)), ..Query::default() },
        Query { scope: Scope::Target("build".parse().unwrap()), ..Query::default() },
    ] {
        let mut turned = ids(&scan(&store, query.clone()));
        assert!(!turned.is_empty(), "{query:?}");
        turned.reverse();
        let newest = Query { order: Order::Descending, ..query };
        assert_eq!(ids(&scan(&store, newest.clone())), turned, "{newest:?}");
    }
}

#[test]
fn a_damaged_index_is_made_anew_before_a_message_from_the_newest_on_is_delivered() {
    use std::os::unix::fs::FileExt;

    let project = project();
    let store = project.store();
    let mut expected = ids(&all(&store));
    expected.reverse();
    // Far from the newest, so that the damage would be met only after thousands were delivered.
    let index = std::fs::File::options().write(true).open(project.path("index")).unwrap();
    let end = index.metadata().unwrap().len();
    index.write_all_at(&[0xff; 16], end - 3_000 * 64).unwrap();
    let newest = Query { order: Order::Descending, ..Query::default() };
    assert_eq!(ids(&scan(&store, newest)), expected);
}
