//! The store in states that a process around it could hardly be stopped in.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use fmail_api::{Draft, Event, Message, NoticeKind, Priority, Query, Store};
use futures::StreamExt;
use futures::executor::block_on;
use tempfile::TempDir;

use crate::line;
use crate::sidecar::Sidecar;
use crate::state::{Pending, State};
use crate::{ChatOptions, ChatStore};

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(TempDir::new().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("chat.md")
    }

    fn open(&self) -> ChatStore {
        ChatStore::open(ChatOptions::new(self.file())).unwrap()
    }

    fn by_hand(&self, text: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.file()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// All messages, and what was told beside them.
    fn scan(&self) -> (Vec<Message>, Vec<String>) {
        let (mut messages, mut told) = (Vec::new(), Vec::new());
        block_on(async {
            let mut events = self.open().scan(Query::default()).await.unwrap().messages;
            while let Some(event) = events.next().await {
                match event.unwrap() {
                    Event::Message(delivery) => messages.push(Message::clone(&delivery.message)),
                    Event::Notice(notice) if notice.kind == NoticeKind::Broken => told.push(notice.text),
                    _ => {}
                }
            }
        });
        (messages, told)
    }

    /// Notes a message as a writer does that is killed right behind it.
    fn note(&self, draft: &Draft) {
        let sidecar = Sidecar::open(&ChatOptions::new(self.file())).unwrap();
        let _lock = sidecar.lock().unwrap();
        let mark = line::fingerprint(&line::written(draft).unwrap().0);
        let before = block_on(sidecar.state()).unwrap().unwrap_or_default();
        let pending = Some(Pending::new(draft, mark).unwrap());
        sidecar.put_state(&State { busy: true, pending, ..before }).unwrap();
    }
}

fn draft(body: &str) -> Draft {
    let mut draft = Draft::new("coder".parse().unwrap(), "@reviewer".parse().unwrap(), body);
    draft.priority = Priority::High;
    draft.key = Some("once".into());
    draft
}

#[test]
fn killed_behind_the_line_the_message_is_there_with_everything_and_its_key_is_known() {
    let place = Place::new();
    block_on(place.open().append(Draft { key: None, ..draft("before") })).unwrap();
    place.note(&draft("urgent"));
    place.by_hand("[coder-to-reviewer]: urgent\n[coder-to-reviewer]: urgent\n");
    let (messages, _) = place.scan();
    let seen: Vec<_> = messages.iter().map(|message| (message.body.as_str().unwrap(), message.priority)).collect();
    assert_eq!(seen, [("before", Priority::High), ("urgent", Priority::High), ("urgent", Priority::Normal)]);
    let again = block_on(place.open().append(draft("urgent"))).unwrap();
    assert!(again.duplicate && again.message.id == messages[1].id);
    assert_eq!(place.scan().0, messages);
}

#[test]
fn killed_before_the_line_nothing_was_sent() {
    let place = Place::new();
    place.by_hand("[coder-to-reviewer]: by hand\n");
    let before = place.scan().0;
    place.note(&draft("urgent"));
    assert_eq!(place.scan().0, before);
    // Somebody says the same later: that is another message.
    place.by_hand("[coder-to-reviewer]: urgent\n");
    assert_eq!(place.scan().0[1].key, None);
    let sent = block_on(place.open().append(draft("urgent"))).unwrap();
    assert!(!sent.duplicate);
    assert_eq!(place.scan().0.len(), 3);
    assert_eq!(fs::read_to_string(place.file()).unwrap().lines().count(), 3);
}

#[test]
fn lines_that_come_below_a_message_later_make_it_another_one() {
    let place = Place::new();
    place.by_hand("[a-to-b]: first\n[a-to-b]: list\n");
    let before = place.scan().0;
    place.by_hand("  - one\n[a-to-b]: last\n");
    let after = place.scan().0;
    let bodies: Vec<_> = after.iter().map(|message| message.body.as_str().unwrap()).collect();
    assert_eq!(bodies, ["first", "list\n- one", "last"]);
    assert_eq!(after[0].id, before[0].id);
    assert!(after[1].id > before[1].id);
}

#[test]
fn a_line_that_can_be_no_message_is_told_each_time() {
    let place = Place::new();
    let name = "A".repeat(90);
    place.by_hand(&format!("[{name}-to-b]: too long a name\n[a-to-b]: fine\n"));
    for _ in 0..2 {
        let (messages, told) = place.scan();
        assert_eq!(messages.len(), 1);
        assert!(told.len() == 1 && told[0].contains("too long"), "{told:?}");
    }
}
