//! The state table, row by row, on a store in memory. The conformance suite has the rest, for every store.

use std::time::Duration;

use fmail_api::{
    Bulk, ErrorKind, Event, Folder, InboxRequest, Mail, MailCount, Mark, MarkRequest, Marked, ReadRequest, Request,
    Response, Result, SendRequest, Since, Standing,
};
use futures::StreamExt;
use futures::executor::block_on;

use crate::testing::Project;

fn mail(project: &Project, agent: &str, request: Request) -> Result<Vec<Mail>> {
    let events = project.call(agent, request)?.events.unwrap();
    let mail = events.map(|event| match event.unwrap() {
        Event::Mail(mail) => *mail,
        other => panic!("{other:?}"),
    });
    Ok(block_on(mail.collect()))
}

fn inbox(project: &Project, agent: &str, request: InboxRequest) -> Vec<Mail> {
    mail(project, agent, Request::Inbox(request)).unwrap()
}

fn bodies(project: &Project, agent: &str, folder: Folder) -> Vec<String> {
    let mail = inbox(project, agent, InboxRequest { folder, peek: true, ..InboxRequest::default() });
    mail.iter().map(|mail| mail.message.body.as_str().unwrap().to_string()).collect()
}

fn count(project: &Project, agent: &str) -> (u64, u64) {
    match project.call(agent, Request::Count).unwrap().head {
        Response::Counted { count: MailCount { total, unread, .. }, .. } => (total, unread),
        other => panic!("{other:?}"),
    }
}

fn request(mark: Mark, ids: &[&str]) -> MarkRequest {
    let ids = ids.iter().map(ToString::to_string).collect();
    MarkRequest { mark, ids, bulk: None, token: None, dry_run: false }
}

fn mark(project: &Project, agent: &str, request: MarkRequest) -> Result<Vec<Marked>> {
    match project.call(agent, Request::Mark(request))?.head {
        Response::Marked(marked) => Ok(marked),
        other => panic!("{other:?}"),
    }
}

fn mark_one(project: &Project, agent: &str, what: Mark, id: impl ToString) -> Result<bool> {
    let marked = mark(project, agent, request(what, &[&id.to_string()]))?.remove(0);
    marked.error.map_or(Ok(marked.already), Err)
}

#[test]
fn the_unread_set_is_equal_for_the_same_messages_only() {
    let project = Project::new();
    let set = || match project.call("bob", Request::Count).unwrap().head {
        Response::Counted { count, .. } => count.unread_set,
        other => panic!("{other:?}"),
    };
    assert_eq!(set(), None, "nothing is unread");
    let one = project.send("alice", "@bob", "one").message.id;
    let first = set();
    assert_eq!(first, MailCount::set_of([one]));
    let two = project.send("alice", "@bob", "two").message.id;
    assert_eq!(set(), MailCount::set_of([one, two]));
    // As many as before, and others.
    mark_one(&project, "bob", Mark::Read, one).unwrap();
    assert_eq!(set(), MailCount::set_of([two]));
    assert_ne!(set(), first);
    mark_one(&project, "bob", Mark::Archived, two).unwrap();
    mark_one(&project, "bob", Mark::Unread, one).unwrap();
    assert_eq!(set(), first);
}

#[test]
fn each_row_of_the_state_table_holds() {
    let project = Project::new();
    let ids: Vec<_> = ["unread", "read", "acked", "archived", "deleted"]
        .map(|body| project.send("alice", "@bob", body).message.id)
        .into();
    mark_one(&project, "bob", Mark::Read, ids[1]).unwrap();
    mark_one(&project, "bob", Mark::Acknowledged, ids[2]).unwrap();
    mark_one(&project, "bob", Mark::Archived, ids[3]).unwrap();
    mark_one(&project, "bob", Mark::Deleted, ids[4]).unwrap();
    assert_eq!(bodies(&project, "bob", Folder::Unread), ["unread"]);
    assert_eq!(bodies(&project, "bob", Folder::Open), ["unread", "read", "acked"]);
    assert_eq!(bodies(&project, "bob", Folder::Archived), ["archived"]);
    assert_eq!(count(&project, "bob"), (3, 1));
    let gone = mark_one(&project, "bob", Mark::Read, ids[4]).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    project.send("alice", "@bob", "later");
    assert_eq!((bodies(&project, "bob", Folder::Unread).len(), count(&project, "bob")), (2, (4, 2)));
}

#[test]
fn what_was_closed_can_be_opened_again() {
    let project = Project::new();
    let id = project.send("alice", "@bob", "one").message.id;
    mark_one(&project, "bob", Mark::Read, id).unwrap();
    assert_eq!(count(&project, "bob"), (1, 0));
    mark_one(&project, "bob", Mark::Unread, id).unwrap();
    assert_eq!((count(&project, "bob"), bodies(&project, "bob", Folder::Unread)), ((1, 1), vec!["one".into()]));
    mark_one(&project, "bob", Mark::Archived, id).unwrap();
    assert!(mark_one(&project, "bob", Mark::Archived, id).unwrap(), "archiving twice is no failure");
    assert_eq!(count(&project, "bob"), (0, 0));
    mark_one(&project, "bob", Mark::Unarchived, id).unwrap();
    assert_eq!(bodies(&project, "bob", Folder::Unread), ["one"]);
}

#[test]
fn an_expired_message_is_not_unread_mail() {
    let project = Project::new();
    let mut request = SendRequest::new("@bob".parse().unwrap(), "soon stale");
    request.expires = Some(project.now().after(Duration::from_secs(60)));
    project.try_send("alice", request).unwrap();
    assert_eq!(count(&project, "bob"), (1, 1));
    project.clock.advance(Duration::from_secs(61));
    assert_eq!((count(&project, "bob"), bodies(&project, "bob", Folder::Unread).len()), ((1, 0), 0));
    let open = inbox(&project, "bob", InboxRequest { folder: Folder::Open, peek: true, ..InboxRequest::default() });
    assert_eq!(open[0].standing, Some(Standing::Expired));
}

#[test]
fn a_claim_is_exclusive_until_it_ends() {
    let project = Project::new();
    for body in ["one", "two"] {
        project.send("alice", "@bob", body);
    }
    let claim = |limit| InboxRequest { claim_seconds: Some(60), limit: Some(limit), ..InboxRequest::default() };
    let first = inbox(&project, "bob", claim(1)).remove(0);
    let second = inbox(&project, "bob", claim(5));
    assert_eq!(second.len(), 1);
    assert_ne!(first.message.id, second[0].message.id);
    assert_eq!(bodies(&project, "bob", Folder::Unread).len(), 2, "claimed is not read");
    let refused = mark_one(&project, "bob", Mark::Acknowledged, first.message.id).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    project.clock.advance(Duration::from_secs(61));
    let again = inbox(&project, "bob", claim(1)).remove(0);
    assert_eq!((again.message.id, again.state.claim.as_ref().unwrap().attempts), (first.message.id, 2));
    let with = |mail: &Mail| {
        let token = mail.state.claim.as_ref().map(|claim| claim.token.clone());
        MarkRequest { token, ..request(Mark::Acknowledged, &[&mail.message.id.to_string()]) }
    };
    let stale = mark(&project, "bob", with(&first)).unwrap().remove(0).error.unwrap();
    assert_eq!(stale.kind(), ErrorKind::Conflict);
    assert!(mark(&project, "bob", with(&again)).unwrap()[0].error.is_none());
    assert_eq!(count(&project, "bob"), (2, 1));
}

#[test]
fn in_bulk_a_token_means_what_was_claimed_under_it() {
    let project = Project::new();
    for body in ["one", "two", "three"] {
        project.send("alice", "@bob", body);
    }
    let claim = InboxRequest { claim_seconds: Some(60), limit: Some(2), ..InboxRequest::default() };
    let mine = inbox(&project, "bob", claim);
    let token = mine[0].state.claim.as_ref().map(|claim| claim.token.clone());
    let bulk = Some(Bulk { all: true, ..Bulk::default() });
    let marked = mark(&project, "bob", MarkRequest { bulk, token, ..request(Mark::Acknowledged, &[]) }).unwrap();
    assert!(marked.len() == 2 && marked.iter().all(|marked| marked.error.is_none()), "{marked:?}");
    assert_eq!(bodies(&project, "bob", Folder::Unread), ["three"]);
}

#[test]
fn many_at_once_have_each_their_verdict_in_the_order_asked_for() {
    let project = Project::new();
    let one = project.send("alice", "@bob", "one").message.id.to_string();
    let two = project.send("alice", "task", "two").message.id.to_string();
    let asked = [two.as_str(), "20200101-000000-0000", one.as_str(), one.as_str()];
    let marked = mark(&project, "bob", request(Mark::Acknowledged, &asked)).unwrap();
    let told: Vec<_> = marked.iter().map(|one| (one.id.as_str(), one.already, one.error.is_some())).collect();
    let right = [(two.as_str(), false, false), (asked[1], false, true), (&one, false, false), (&one, true, false)];
    assert_eq!(told, right);
}

#[test]
fn a_look_changes_nothing_and_a_read_tells_the_sender() {
    let project = Project::new();
    project.send("bob", "task", "I am here");
    let id = project.send("alice", "@bob", "one").message.id;
    let read = |agent: &str, peek| {
        let ids = vec![id.to_string()];
        mail(&project, agent, Request::Read(ReadRequest { ids, peek, token: None }))
    };
    let receipt = || match project.call("alice", Request::Receipt(fmail_api::ReceiptRequest { id: id.to_string() })) {
        Ok(reply) => match reply.head {
            Response::Receipt(receipt) => receipt.recipients[0].clone(),
            other => panic!("{other:?}"),
        },
        Err(error) => panic!("{error}"),
    };
    bodies(&project, "bob", Folder::Unread);
    read("bob", true).unwrap();
    read("alice", false).unwrap();
    assert_eq!((receipt().standing, receipt().retrieved), (Standing::Unread, None));
    assert_eq!(read("eve", false).unwrap_err().kind(), ErrorKind::NotFound);
    inbox(&project, "bob", InboxRequest::default());
    assert!(receipt().retrieved.is_some() && receipt().read.is_none());
    read("bob", false).unwrap();
    assert_eq!(receipt().standing, Standing::Read);
    mark_one(&project, "bob", Mark::Acknowledged, id).unwrap();
    assert_eq!(receipt().standing, Standing::Acknowledged);
}

#[test]
fn bulk_marks_what_fits_and_tells_what_was_unread() {
    let project = Project::new();
    for (from, body) in [("alice", "one"), ("carol", "two"), ("alice", "three")] {
        project.send(from, "@bob", body);
    }
    let bulk = |mark, bulk, dry_run| MarkRequest { bulk: Some(bulk), dry_run, ..request(mark, &[]) };
    let from = Bulk { from: Some("alice".parse().unwrap()), ..Bulk::default() };
    assert_eq!(mark(&project, "bob", bulk(Mark::Archived, from.clone(), true)).unwrap().len(), 2);
    assert_eq!(count(&project, "bob"), (3, 3), "a dry run changes nothing");
    let marked = mark(&project, "bob", bulk(Mark::Archived, from, false)).unwrap();
    assert!(marked.len() == 2 && marked.iter().all(|marked| marked.was_unread));
    assert_eq!(bodies(&project, "bob", Folder::Unread), ["two"]);
    let error = mark(&project, "bob", bulk(Mark::Archived, Bulk::default(), false)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
}

#[test]
fn several_named_messages_are_answered_in_their_order_each_for_itself() {
    let project = Project::new();
    let topic = project.send("alice", "task", "to all").message.id.to_string();
    let ids: Vec<String> = ["one", "two"].map(|body| project.send("alice", "@bob", body).message.id.to_string()).into();
    let unknown = "20200101-000000-0000";
    let named = [&*ids[1], unknown, &*topic, &*ids[0], &*ids[1]];
    let marked = mark(&project, "bob", request(Mark::Read, &named)).unwrap();
    let told: Vec<(&str, bool, bool)> =
        marked.iter().map(|one| (one.id.as_str(), one.already, one.error.is_some())).collect();
    let (second, first) = (ids[1].as_str(), ids[0].as_str());
    assert_eq!(
        told,
        [
            (second, false, false),
            (unknown, false, true),
            (&*topic, false, false),
            (first, false, false),
            (second, true, false)
        ]
    );
    assert_eq!(count(&project, "bob"), (2, 0));
}

#[test]
fn a_message_to_several_goes_with_the_last_who_deletes_it() {
    let project = Project::new();
    let mut request = SendRequest::new("@bob".parse().unwrap(), "both");
    request.cc = vec!["@carol".parse().unwrap()];
    let id = project.try_send("alice", request).unwrap().message.id;
    mark_one(&project, "bob", Mark::Deleted, id).unwrap();
    assert_eq!(bodies(&project, "carol", Folder::Unread), ["both"]);
    mark_one(&project, "carol", Mark::Deleted, id).unwrap();
    let read = ReadRequest { ids: vec![id.to_string()], peek: true, token: None };
    assert_eq!(mail(&project, "alice", Request::Read(read)).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!((count(&project, "bob"), count(&project, "carol")), ((0, 0), (0, 0)));
}

#[test]
fn a_name_that_does_not_last_has_no_inbox() {
    let error = Project::new().call("anon-77", Request::Inbox(InboxRequest::default())).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidAgent);
}

#[test]
fn an_inbox_can_begin_with_the_newest_and_be_of_one_thread() {
    let project = Project::new();
    let mut threaded = SendRequest::new("@bob".parse().unwrap(), "two");
    threaded.thread = Some("t".into());
    let one = project.send("alice", "@bob", "one").message.id;
    project.clock.advance(Duration::from_secs(2));
    let two = project.try_send("alice", threaded).unwrap().message;
    project.send("alice", "@bob", "three");
    let listed = |request: InboxRequest| -> Vec<String> {
        let mail = inbox(&project, "bob", InboxRequest { folder: Folder::Open, peek: true, ..request });
        mail.iter().map(|mail| mail.message.body.as_str().unwrap().to_string()).collect()
    };
    let newest = InboxRequest { newest: true, ..InboxRequest::default() };
    assert_eq!(listed(newest.clone()), ["three", "two", "one"]);
    assert_eq!(listed(InboxRequest { limit: Some(2), ..newest.clone() }), ["three", "two"]);
    assert_eq!(listed(InboxRequest { thread: Some("t".into()), ..newest.clone() }), ["two"]);
    assert_eq!(listed(InboxRequest { thread: Some(one.to_string()), ..newest.clone() }), ["one"]);
    let since = Some(Since::Time(two.time));
    assert_eq!(listed(InboxRequest { since, ..newest }), ["three", "two"]);
}
