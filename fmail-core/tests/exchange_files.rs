//! The exchange between hosts over the files store: what is held follows the files, also through a rebuilt index.

use std::path::Path;
use std::sync::Arc;

use fmail_api::{
    Client, Compared, Context, DigestRequest, Event, FetchRequest, Fingerprint, Held, ImportRequest, Imported, Message,
    Place, Request, Response, SendRequest, Store, Stretch,
};
use fmail_backends::{FilesOptions, FilesStore, SystemClock};
use fmail_core::{Blocking, Fanout, Operations};
use futures::executor::{block_on, block_on_stream};

/// As a daemon has it: streams are read on other threads.
fn open(root: &Path) -> Operations {
    let blocking: Blocking = Arc::new(|work| drop(std::thread::spawn(work)));
    let store = FilesStore::open(FilesOptions::new(root)).unwrap();
    let shared: Arc<dyn Store> = Arc::new(Fanout::new(Arc::new(store), blocking.clone()));
    Operations::new(shared, Arc::new(SystemClock)).reading_on(blocking)
}

fn ask(operations: &Operations, request: Request) -> Response {
    block_on(operations.call(&Context::local("peer".parse().unwrap()), request)).unwrap().head
}

fn send(operations: &Operations, body: &str) -> Message {
    let send = SendRequest::new("task".parse().unwrap(), body);
    match ask(operations, Request::Send(Box::new(send))) {
        Response::Sent(sent) => sent.message,
        other => panic!("{other:?}"),
    }
}

fn places(operations: &Operations) -> Vec<Place> {
    let held = Held { stretch: Stretch::default(), count: 0, fingerprint: Fingerprint::default() };
    match ask(operations, Request::Digest(DigestRequest { horizon: None, held: vec![held] })) {
        Response::Digest(mut digest) => match digest.answers.pop() {
            Some(Compared::Places(places)) => places,
            Some(Compared::Same) => Vec::new(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn fetch(operations: &Operations) -> Vec<Arc<Message>> {
    let all = FetchRequest { stretches: vec![Stretch::default()], ..FetchRequest::default() };
    let reply = block_on(operations.call(&Context::local("peer".parse().unwrap()), Request::Fetch(all))).unwrap();
    let messages = block_on_stream(reply.events.unwrap()).filter_map(|event| match event.unwrap() {
        Event::Message(delivery) => Some(delivery.message.clone()),
        _ => None,
    });
    messages.collect()
}

#[test]
fn what_is_held_follows_the_files_through_a_rebuilt_index() {
    let root = tempfile::tempdir().unwrap();
    let operations = open(root.path());
    let sent: Vec<Message> = (0..20).map(|number| send(&operations, &format!("message {number}"))).collect();
    assert_eq!(places(&operations), sent.iter().map(Place::of).collect::<Vec<_>>());
    // Somebody takes one away, and the index with it.
    let fmail = root.path().join(".fmail");
    std::fs::remove_file(fmail.join(format!("topics/task/{}.json", sent[7].id))).unwrap();
    std::fs::remove_file(fmail.join("index")).unwrap();
    let last = send(&operations, "behind the rebuild");
    let expected: Vec<Place> =
        sent.iter().filter(|message| message.id != sent[7].id).chain([&last]).map(Place::of).collect();
    assert_eq!(places(&operations), expected);
    assert_eq!(fetch(&operations).iter().map(|message| Place::of(message)).collect::<Vec<_>>(), expected);
}

#[test]
fn two_directories_come_to_hold_the_same_whatever_ids_they_gave() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, two) = (open(one.path()), open(two.path()));
    let ours = send(&one, "ours");
    let theirs = Message { body: "theirs".into(), ..ours.clone() };
    let import = |to: &Operations, message: &Message| match ask(
        to,
        Request::Import(Box::new(ImportRequest::new(message.clone()))),
    ) {
        Response::Imported(imported) => imported,
        other => panic!("{other:?}"),
    };
    assert_eq!(import(&two, &theirs), Imported::New);
    for message in fetch(&one) {
        assert!(matches!(import(&two, &message), Imported::Relocated(_)));
        assert_eq!(import(&two, &message), Imported::Duplicate);
    }
    for message in fetch(&two) {
        import(&one, &message);
    }
    assert_eq!((places(&one), places(&one).len()), (places(&two), 2));
    assert!(fetch(&two).iter().all(|message| message.id == ours.id && message.origin_id.is_none()));
}
