//! A store that does not answer is not an empty mailbox: whatever fails, an operation on mail gives an error, or the
//! answer that it would have given.

use std::sync::atomic::Ordering;

use fmail_api::{
    Bulk, Client, Event, Folder, InboxRequest, Mark, MarkRequest, MessageId, ReadRequest, ReceiptRequest, Request,
    Response, Result, ThreadRequest,
};
use futures::StreamExt;
use futures::executor::block_on;

use crate::Operations;
use crate::testing::{Fails, Project, context};

/// Mail in every state: unread, read, archived, and one in a thread.
fn project() -> (Project, Vec<MessageId>) {
    let project = Project::new();
    project.send("bob", "task", "I am here");
    let ids: Vec<MessageId> =
        ["one", "two", "three", "four"].map(|body| project.send("alice", "@bob", body).message.id).into();
    for (mark, id) in [(Mark::Read, ids[1]), (Mark::Archived, ids[2])] {
        project.call("bob", marking(mark, &[id])).unwrap();
    }
    (project, ids)
}

fn marking(mark: Mark, ids: &[MessageId]) -> Request {
    let ids = ids.iter().map(ToString::to_string).collect();
    Request::Mark(MarkRequest { mark, ids, bulk: None, token: None, dry_run: false })
}

fn folder(folder: Folder) -> Request {
    Request::Inbox(InboxRequest { folder, ..InboxRequest::default() })
}

fn requests(ids: &[MessageId]) -> Vec<Request> {
    let bulk = |mark| {
        let bulk = Some(Bulk { all: true, ..Bulk::default() });
        Request::Mark(MarkRequest { mark, ids: Vec::new(), bulk, token: None, dry_run: false })
    };
    let read = |peek| Request::Read(ReadRequest { ids: vec![ids[0].to_string()], peek, token: None });
    let from = Some("alice".parse().unwrap());
    vec![
        Request::Count,
        folder(Folder::Unread),
        folder(Folder::Open),
        folder(Folder::Archived),
        Request::Inbox(InboxRequest { from, peek: true, ..InboxRequest::default() }),
        Request::Inbox(InboxRequest { claim_seconds: Some(60), ..InboxRequest::default() }),
        read(false),
        read(true),
        marking(Mark::Read, &ids[..1]),
        marking(Mark::Unread, &ids[1..2]),
        marking(Mark::Acknowledged, &ids[..2]),
        marking(Mark::Archived, &ids[..1]),
        marking(Mark::Archived, &ids[2..3]),
        marking(Mark::Unarchived, &ids[2..3]),
        marking(Mark::Deleted, &ids[..1]),
        bulk(Mark::Read),
        bulk(Mark::Archived),
        bulk(Mark::Unarchived),
        bulk(Mark::Deleted),
        Request::Reply(Box::new(serde_json::from_value(serde_json::json!({"id": ids[0], "body": "yes"})).unwrap())),
        Request::Thread(ThreadRequest { id: ids[0].to_string() }),
        Request::Receipt(ReceiptRequest { id: ids[0].to_string() }),
    ]
}

/// What an operation answers, to its last line, as far as it does not depend on chance.
fn answer(operations: &Operations, request: Request) -> Result<String> {
    let reply = block_on(operations.call(&context("bob"), request))?;
    let events: Vec<Result<Event>> = match reply.events {
        Some(events) => block_on(events.collect()),
        None => Vec::new(),
    };
    let mut text = match reply.head {
        // A mark that could not be made says so at its message.
        Response::Marked(marked) if marked.iter().any(|one| one.error.is_some()) => {
            return Err(marked.into_iter().find_map(|one| one.error).unwrap());
        }
        // The message is what counts; what else the sender should know may be missing.
        Response::Sent(sent) => format!("sent {}", sent.message.id),
        head => format!("{head:?}"),
    };
    for event in events {
        match event? {
            Event::Mail(mail) => text += &format!(" {} {:?}", mail.message.id, mail.standing),
            other => text += &format!("{other:?}"),
        }
    }
    Ok(text)
}

#[test]
fn an_outage_never_looks_like_an_empty_mailbox_or_a_success() {
    let count = requests(&project().1).len();
    for number in 0..count {
        let (whole, ids) = project();
        let request = requests(&ids).remove(number);
        let (operations, answers) = whole.failing(Fails::Never);
        let right = answer(&operations, request.clone()).unwrap();
        let mut failures = 0;
        for at in 0..answers.load(Ordering::SeqCst) {
            for fails in [Fails::At(at), Fails::From(at)] {
                let (project, ids) = project();
                let (operations, _) = project.failing(fails);
                match answer(&operations, requests(&ids).remove(number)) {
                    Ok(given) => assert_eq!(given, right, "{request:?} with {fails:?}"),
                    Err(_) => failures += 1,
                }
            }
        }
        assert!(failures > 1, "{request:?} does not mind when its store fails");
    }
}
