//! What a mailbox answers is what its states say, whatever was done before and whoever died in the middle of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use fmail_api::{
    Bulk, Client, Cursor, Expect, Folder, InboxRequest, MailState, MailboxRecord, Mark, MarkRequest, MessageId,
    RecordKey, Request, Result, Store, Timestamp,
};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::json;

use super::Mailbox;
use super::stretch::Stretch;
use super::tally::{Counted, Tally};
use crate::Operations;
use crate::testing::{Fails, Project, context};

/// How many messages a day's record does not hold.
const MANY: usize = 300;

fn bob() -> fmail_api::AgentName {
    "bob".parse().unwrap()
}

/// What every record of bob's states says, without the mailbox's own code: a part says what is newer than its whole.
fn states(project: &Project) -> BTreeMap<MessageId, MailState> {
    let mut states = BTreeMap::new();
    let records: Vec<_> = block_on(async { project.store.list("mailbox/bob").await.unwrap().collect().await });
    for record in records {
        let record = record.unwrap();
        if Stretch::of_record(&record).is_some() {
            states.extend(record.decode::<MailboxRecord>().unwrap().messages);
        }
    }
    states
}

/// Requires that everything the mailbox answers is what the states and the stored messages say.
#[track_caller]
fn agrees(project: &Project, what: &str) {
    let (states, agent) = (states(project), bob());
    let mailbox = Mailbox::new(&*project.store, &agent, project.now());
    let stored = block_on(async {
        mailbox.arrivals(project.store.scan(mailbox.query()).await.unwrap().messages).await.unwrap()
    });
    let with = |fits: &dyn Fn(&MailState) -> bool| -> BTreeSet<MessageId> {
        let state = |id: &MessageId| states.get(id).cloned().unwrap_or_default();
        stored.keys().filter(|id| fits(&state(id))).copied().collect()
    };
    let unread = with(&|state| state.is_open() && !state.is_read());
    let open = with(&MailState::is_open);
    let archived = with(&|state| state.deleted.is_none() && !state.is_open());
    assert_eq!(block_on(mailbox.unread()).unwrap(), unread, "{what}: unread");
    assert_eq!(block_on(mailbox.open()).unwrap(), open, "{what}: open");
    let held: BTreeSet<MessageId> =
        block_on(mailbox.archived()).unwrap().intersection(&stored.keys().copied().collect()).copied().collect();
    assert_eq!(held, archived, "{what}: archived");
    let count = block_on(mailbox.count()).unwrap();
    assert_eq!((count.total, count.unread), (open.len() as u64, unread.len() as u64), "{what}: count");
}

fn mark(mark: Mark, ids: &[MessageId]) -> Request {
    let ids = ids.iter().map(ToString::to_string).collect();
    Request::Mark(MarkRequest { mark, ids, bulk: None, token: None, dry_run: false })
}

fn mark_all(mark: Mark) -> Request {
    let bulk = Some(Bulk { all: true, ..Bulk::default() });
    Request::Mark(MarkRequest { mark, ids: Vec::new(), bulk, token: None, dry_run: false })
}

fn call(operations: &Operations, request: Request) -> Result<()> {
    let reply = block_on(operations.call(&context("bob"), request))?;
    match reply.events {
        Some(events) => block_on(events.collect::<Vec<_>>()).into_iter().try_for_each(|event| event.map(drop)),
        None => Ok(()),
    }
}

fn with_mail(count: usize) -> (Project, Vec<MessageId>) {
    let project = Project::new();
    let ids = (0..count).map(|number| project.send("alice", "@bob", number).message.id).collect();
    (project, ids)
}

#[test]
fn a_record_never_holds_more_than_it_should() {
    let (project, ids) = with_mail(MANY);
    call(&project.operations, mark_all(Mark::Read)).unwrap();
    agrees(&project, "all read at once");
    for id in &ids {
        call(&project.operations, mark(Mark::Archived, &[*id])).unwrap();
    }
    agrees(&project, "one archived after the other");
    let records: Vec<_> = block_on(async { project.store.list("mailbox/bob").await.unwrap().collect().await });
    let sizes: Vec<usize> = records
        .into_iter()
        .map(|record: Result<fmail_api::Record>| record.unwrap())
        .filter(|record| Stretch::of_record(record).is_some())
        .map(|record| record.decode::<MailboxRecord>().unwrap().messages.len())
        .collect();
    assert!(sizes.iter().all(|size| *size <= 256), "{sizes:?}");
    assert_eq!(sizes.iter().sum::<usize>(), MANY, "no state is kept twice");
}

#[test]
fn whatever_is_done_the_answers_are_what_the_states_say() {
    let (project, mut ids) = with_mail(40);
    let mut random = 0x5eed_u64;
    let mut below = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize % bound
    };
    let marks = [Mark::Read, Mark::Unread, Mark::Acknowledged, Mark::Archived, Mark::Unarchived, Mark::Retrieved];
    for round in 0..600 {
        let chosen = ids[below(ids.len())];
        let what = match below(20) {
            0..=9 => call(&project.operations, mark(marks[below(6)], &[chosen])).map(|()| "one"),
            10..=14 => {
                ids.push(project.send("alice", "@bob", round).message.id);
                Ok("sent")
            }
            15 => call(&project.operations, mark_all(marks[below(6)])).map(|()| "all"),
            16 => call(&project.operations, mark(Mark::Deleted, &[chosen])).map(|()| "deleted"),
            17 => call(
                &project.operations,
                Request::Inbox(InboxRequest { folder: Folder::Open, ..InboxRequest::default() }),
            )
            .map(|()| "looked"),
            18 => {
                let stored = block_on(project.store.delete(&RecordKey::tally(&bob()), Expect::Anything));
                stored.map(|()| "the tally was taken away")
            }
            _ => {
                let claim = InboxRequest { claim_seconds: Some(1), limit: Some(3), ..InboxRequest::default() };
                let claimed = call(&project.operations, Request::Inbox(claim));
                project.clock.advance(std::time::Duration::from_secs(2));
                claimed.map(|()| "claimed")
            }
        };
        agrees(&project, &format!("round {round}: {what:?}"));
    }
    assert!(ids.len() > 150, "enough messages that records were split");
}

/// Lets a process die before each of its store's answers in turn, and looks at what it leaves. How many answers it has.
fn dies_anywhere(request: &dyn Fn(&[MessageId]) -> Request, prepare: &dyn Fn(&Project, &[MessageId])) -> usize {
    let start = || {
        let (project, ids) = with_mail(MANY);
        prepare(&project, &ids);
        (project, ids)
    };
    let (whole, ids) = start();
    let (operations, answers) = whole.failing(Fails::Never);
    call(&operations, request(&ids)).unwrap();
    let answers = answers.load(Ordering::SeqCst);
    for at in (0..answers).step_by(1 + answers / 50) {
        let (project, ids) = start();
        let _ = call(&project.failing(Fails::From(at)).0, request(&ids));
        agrees(&project, &format!("died at answer {at}"));
        call(&project.operations, mark(Mark::Read, &ids[7..9])).unwrap();
        project.send("alice", "@bob", "one more");
        agrees(&project, &format!("died at answer {at}, and life went on"));
        project.clock.advance(std::time::Duration::from_secs(61));
        call(&project.operations, mark(Mark::Unread, &ids[7..8])).unwrap();
        agrees(&project, &format!("died at answer {at}, and is forgotten"));
    }
    answers
}

#[test]
fn who_dies_in_the_middle_of_a_change_leaves_the_answers_right() {
    let nothing = |_: &Project, _: &[MessageId]| {};
    let some_read =
        |project: &Project, ids: &[MessageId]| call(&project.operations, mark(Mark::Read, &ids[..250])).unwrap();
    let single = |ids: &[MessageId]| mark(Mark::Archived, &ids[3..4]);
    let steps = [
        dies_anywhere(&single, &nothing),
        dies_anywhere(&single, &some_read),
        // This one splits what the preparation left whole.
        dies_anywhere(&|ids| mark(Mark::Acknowledged, &ids[249..]), &some_read),
        dies_anywhere(&|_| mark_all(Mark::Archived), &some_read),
        dies_anywhere(&|ids| mark(Mark::Deleted, &ids[2..5]), &some_read),
        dies_anywhere(&|_| Request::Inbox(InboxRequest::default()), &some_read),
    ];
    assert!(steps.iter().all(|steps| *steps > 5), "{steps:?}");
}

#[test]
fn a_tally_that_was_taken_away_in_the_middle_of_a_change_is_right_again() {
    let (counting, ids) = with_mail(30);
    let (dry, answers) = counting.failing(Fails::Never);
    call(&dry, mark(Mark::Archived, &ids[3..4])).unwrap();
    for at in 0..answers.load(Ordering::SeqCst) {
        let (project, ids) = with_mail(30);
        let (dying, _) = project.failing(Fails::From(at));
        let _ = call(&dying, mark(Mark::Archived, &ids[3..4]));
        let key = RecordKey::tally(&bob());
        block_on(project.store.delete(&key, Expect::Anything)).unwrap();
        agrees(&project, &format!("no tally behind answer {at}"));
        block_on(project.store.put(&key, Expect::Anything, json!({"cursor": "x"}), false)).unwrap();
        agrees(&project, &format!("a tally of another kind behind answer {at}"));
    }
}

#[test]
fn a_backlog_is_looked_through_once() {
    let (project, _) = with_mail(MANY);
    let agent = bob();
    let looked = || {
        let (operations, answers) = project.failing(Fails::Never);
        call(&operations, Request::Count).unwrap();
        answers.load(Ordering::SeqCst)
    };
    looked();
    let tally = |project: &Project| block_on(project.store.get(&RecordKey::tally(&agent))).unwrap().unwrap().revision;
    let kept = tally(&project);
    looked();
    assert_eq!(tally(&project), kept, "a look that finds nothing new writes nothing");
    for number in 0..MANY {
        project.send("alice", "@bob", number);
    }
    looked();
    assert_ne!(tally(&project), kept, "what had to be looked through is kept for the next");
}

#[test]
fn the_tally_of_a_large_mailbox_is_one_text_a_day() {
    let mut tally = Tally::empty(Cursor::new("x"));
    let first: MessageId = "20260110-235959-0000".parse().unwrap();
    let ids = |count: u64| (0..count).map(move |number| MessageId::from_ticks(first.ticks() + number * 3).unwrap());
    let expires = Timestamp::from_unix(1_800_000_000, 0);
    for (number, id) in ids(20_000).enumerate() {
        tally.add(id, (number % 4_000 == 17).then_some(expires), Counted::Unread);
    }
    let value = super::as_value(&tally);
    let days = value["unread"]["ids"].as_object().unwrap();
    assert_eq!(days.keys().collect::<Vec<_>>(), ["20260110", "20260111"]);
    assert!(days.values().all(serde_json::Value::is_string), "a value for each would take many times the room");
    assert!(value.to_string().len() < 20_000 * 13, "{}", value.to_string().len());
    assert_eq!(serde_json::from_value::<Tally>(value).unwrap(), tally);
}

#[test]
fn a_tally_of_the_form_of_before_is_made_anew() {
    let (project, ids) = with_mail(MANY);
    let unread: serde_json::Map<_, _> = ids[..3].iter().map(|id| (id.to_string(), json!(null))).collect();
    let before = json!({"cursor": "1.3", "stored": 3, "unread": unread, "read": {}});
    block_on(project.store.put(&RecordKey::tally(&bob()), Expect::Anything, before, false)).unwrap();
    agrees(&project, "a tally with a value for each message");
}
