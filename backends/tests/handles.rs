//! What a daemon keeps open from one group to the next is looked at each time: somebody may have changed the project
//! meanwhile.

mod common;

use common::{Project, all, bodies, send};
use fmail_api::{Cursor, ErrorKind, Event, Order, Query, Selection, Store};
use fmail_backends::{FilesOptions, FilesStore, JournalOptions};
use futures::StreamExt;
use futures::executor::block_on;

fn daemon(project: &Project) -> FilesStore {
    let journal =
        JournalOptions { writes: true, room: 64 * 1024, after: 0, beside: false, ..JournalOptions::default() };
    FilesStore::open(FilesOptions { journal, ..project.options() }).unwrap()
}

#[test]
fn a_mailbox_that_was_moved_away_gets_no_more_messages() {
    let project = Project::in_memory();
    let store = daemon(&project);
    send(&store, "task", "one");
    std::fs::rename(project.path("topics/task"), project.path("topics/old")).unwrap();
    let id = send(&store, "task", "two").id;
    assert_eq!(project.names("topics/task"), [format!("{id}.json")]);
    assert_eq!(project.names("topics/old").len(), 1);
}

#[test]
fn a_mailbox_that_was_removed_is_made_again() {
    let project = Project::in_memory();
    let store = daemon(&project);
    send(&store, "task", "one");
    std::fs::remove_dir_all(project.path("topics/task")).unwrap();
    send(&store, "task", "two");
    assert_eq!(bodies(&all(&store)), ["two"]);
    assert_eq!(bodies(&all(&project.store())), ["two"]);
}

#[test]
fn a_mailbox_whose_place_was_taken_by_a_link_is_refused() {
    let project = Project::in_memory();
    let store = daemon(&project);
    send(&store, "task", "one");
    let elsewhere = project.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::remove_dir_all(project.path("topics/task")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, project.path("topics/task")).unwrap();
    let refused = block_on(store.append(common::draft("task", "two"))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn another_project_in_its_place_is_written_and_not_the_one_that_was_open() {
    let project = Project::in_memory();
    let store = daemon(&project);
    send(&store, "task", "one");
    let away = project.root().join("away");
    std::fs::rename(project.root().join(".fmail"), &away).unwrap();
    send(&store, "task", "two");
    assert_eq!(bodies(&all(&store)), ["two"]);
    assert_eq!(std::fs::read_dir(away.join("topics/task")).unwrap().count(), 1);
}

#[test]
fn an_index_that_was_removed_is_built_again_before_the_next_message() {
    let project = Project::in_memory();
    let store = daemon(&project);
    send(&store, "task", "one");
    std::fs::remove_file(project.path("index")).unwrap();
    send(&store, "task", "two");
    assert_eq!(bodies(&all(&store)), ["one", "two"]);
    assert_eq!(bodies(&all(&project.store())), ["one", "two"]);
}

#[test]
fn a_project_of_a_newer_format_is_refused_as_soon_as_it_is_one() {
    let project = Project::in_memory();
    let store = daemon(&project);
    send(&store, "task", "one");
    let text = std::fs::read_to_string(project.path("project.json")).unwrap();
    std::fs::write(project.path("project.json"), text.replace("\"format\": 2", "\"format\": 99")).unwrap();
    let refused = block_on(store.append(common::draft("task", "two"))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidProject, "{refused}");
    std::fs::write(project.path("project.json"), text).unwrap();
    send(&store, "task", "three");
    assert_eq!(bodies(&all(&store)), ["one", "three"]);
}

/// The next message that a watch delivers.
fn next(watch: &mut fmail_api::EventStream) -> String {
    loop {
        match block_on(watch.next()).unwrap().unwrap() {
            Event::Message(delivery) => return delivery.message.body.as_str().unwrap().to_string(),
            _ => continue,
        }
    }
}

fn end_of(store: &FilesStore) -> Cursor {
    let end = Query { order: Order::Descending, limit: Some(0), ..Query::default() };
    block_on(store.scan(end)).unwrap().cursor
}

/// A watch takes what its own process has just stored from memory. What was removed before it came to that is not delivered.
#[test]
fn a_message_that_was_removed_before_the_watch_looked_is_not_delivered_from_memory() {
    let project = Project::in_memory();
    let store = daemon(&project);
    send(&store, "task", "before");
    let mut watch = block_on(store.watch(Query::default(), end_of(&store))).unwrap();
    let gone = send(&store, "task", "gone").id;
    let selection = Selection { ids: [gone].into(), ..Selection::default() };
    let removed = block_on(async { store.remove(selection).await.unwrap().collect::<Vec<_>>().await });
    assert_eq!(removed.len(), 1);
    send(&store, "task", "here");
    assert_eq!(next(&mut watch), "here");
}

/// The same id in another mailbox is another message, whatever is remembered of the first.
#[test]
fn a_foreign_file_with_the_id_of_a_fresh_message_is_delivered_as_itself() {
    let project = Project::in_memory();
    let store = daemon(&project);
    send(&store, "task", "before");
    let mut watch = block_on(store.watch(Query::default(), end_of(&store))).unwrap();
    let message = send(&store, "task", "ours");
    assert_eq!(next(&mut watch), "ours");
    let text = std::fs::read_to_string(project.path(&format!("topics/task/{}.json", message.id))).unwrap();
    let theirs = text.replace("\"ours\"", "\"theirs\"").replace("\"task\"", "\"other\"");
    project.plant(&format!("topics/other/{}.json", message.id), &theirs);
    assert_eq!(next(&mut watch), "theirs");
}

#[test]
fn who_asks_which_file_it_is_gets_what_a_full_look_says() {
    use fmail_backends::files::fs::{Fs, Open, RealFs};
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::create_dir(at("top")).unwrap();
    let top = RealFs.open_top(directory.path(), "top").unwrap();
    std::fs::create_dir(at("top/directory")).unwrap();
    std::fs::write(at("top/file"), "five!").unwrap();
    std::os::unix::fs::symlink("file", at("top/link")).unwrap();
    for name in ["directory", "file", "link"] {
        assert_eq!(RealFs.identity(&top, name).unwrap(), RealFs.stat(&top, name).unwrap().identity(), "{name}");
    }
    let missing = RealFs.identity(&top, "nothing").unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    assert_eq!(RealFs.size(&RealFs.open(&top, "file", Open::Read).unwrap()).unwrap(), 5);
}
