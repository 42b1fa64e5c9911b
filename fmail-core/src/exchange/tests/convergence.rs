//! Hosts come to hold the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fmail_api::{
    Compared, DigestRequest, ErrorKind, FetchRequest, GcRequest, Imported, Mark, MarkRequest, RefusedReason, Request,
    Selection, Store, Stretch,
};
use futures::StreamExt;
use futures::executor::block_on;

use super::{Host, Took, exchange, host, operations, zero};
use crate::testing::Project;

fn same(hosts: &[&Host]) {
    let first = hosts[0].places();
    for host in hosts {
        assert_eq!(host.places(), first);
        assert_eq!(host.stored(), hosts[0].stored());
    }
}

fn days(host: &Project, days: u64) {
    host.clock.advance(Duration::from_secs(days * 86_400));
}

fn gc(host: &Host, days: u32) {
    let sweep = Request::Gc(GcRequest { days, dry_run: false });
    block_on(host.call("alice", sweep).unwrap().events.unwrap().for_each(|event| {
        event.unwrap();
        async {}
    }));
}

#[test]
fn two_hosts_take_exactly_what_they_lack() {
    let (one, two) = (host(1), host(2));
    for number in 0..1_500 {
        one.send("alice", "task", format!("one {number}"));
    }
    for number in 0..700 {
        two.send("bob", if number % 2 == 0 { "task" } else { "@alice" }, format!("two {number}"));
    }
    let took = exchange(&one, &two);
    assert_eq!((took.fetched, took.refused), (2_200, 0));
    same(&[&one, &two]);
    assert_eq!(exchange(&one, &two), Took { digests: 1, ..Took::default() });
    two.send("bob", "task", "one more");
    let took = exchange(&one, &two);
    assert!(took.fetched == 1 && took.digests <= 5, "{took:?}");
    same(&[&one, &two]);
}

#[test]
fn what_came_late_with_an_old_id_goes_on_to_the_others() {
    let (one, two, three) = (host(1), host(2), host(3));
    let old = one.send("alice", "task", "old").message;
    for other in [&one, &two, &three] {
        days(other, 1);
    }
    for number in 0..200 {
        two.send("bob", "task", number);
    }
    exchange(&two, &three);
    same(&[&two, &three]);
    exchange(&one, &two);
    assert_eq!(exchange(&two, &three), Took { digests: 2, fetched: 1, refused: 0 }, "only the old one");
    exchange(&one, &three);
    same(&[&one, &two, &three]);
    assert!(three.places().first().unwrap().origin == old.id);
}

#[test]
fn clocks_that_are_hours_apart_keep_nothing_back() {
    let (one, two) = (host(1), host(2));
    one.clock.advance(Duration::from_secs(5 * 3_600));
    for number in 0..100 {
        one.send("alice", "task", format!("one {number}"));
        two.send("bob", "task", format!("two {number}"));
    }
    exchange(&one, &two);
    same(&[&one, &two]);
    let next = two.send("bob", "task", "after").message;
    assert!(next.time < one.send("alice", "task", "after too").message.time, "no clock was dragged along");
    exchange(&two, &one);
    same(&[&one, &two]);
}

#[test]
fn what_gc_removed_is_not_brought_back_and_nothing_is_tried() {
    let (one, two) = (host(1), host(2));
    for number in 0..100 {
        one.send("alice", "task", number);
    }
    exchange(&one, &two);
    days(&one, 10);
    days(&two, 10);
    two.send("bob", "task", "new");
    gc(&one, 7);
    let took = exchange(&one, &two);
    assert_eq!((took.fetched, took.refused), (1, 0));
    assert_eq!(one.places().len(), 1);
    assert_eq!(two.places().len(), 101, "what the other sweeps is its own decision");
    assert_eq!(exchange(&two, &one).fetched, 0);
    let horizon = one.digest(None, Vec::new()).horizon;
    assert!(horizon.is_some() && two.digest(None, Vec::new()).horizon.is_none());
    let request = FetchRequest { stretches: vec![Stretch::default()], horizon, ..FetchRequest::default() };
    assert_eq!(two.fetch(request).len(), 1);
}

#[test]
fn what_was_deleted_for_good_is_refused_and_not_told_to_be_held() {
    let (one, two) = (host(1), host(2));
    let message = one.send("alice", "@bob", "secret").message;
    let other = one.send("alice", "@bob", "kept").message;
    exchange(&one, &two);
    assert_eq!(one.places().len(), 2);
    let delete =
        MarkRequest { mark: Mark::Deleted, ids: vec![message.id.to_string()], bulk: None, token: None, dry_run: false };
    // By another process, of which the inventory knows nothing.
    let elsewhere = operations(&one, 9);
    block_on(fmail_api::Client::call(&elsewhere, &crate::testing::context("bob"), Request::Mark(delete))).unwrap();
    assert_eq!(one.places().len(), 1);
    assert_eq!(one.import(&message, two.run), Imported::Refused(RefusedReason::Deleted));
    assert_eq!(one.import(&other, two.run), Imported::Duplicate);
}

#[test]
fn what_is_gone_is_left_out_of_a_fetch_and_is_not_claimed_again() {
    let one = host(1);
    let ids: Vec<_> = (0..300).map(|number| one.send("alice", "task", number).message.id).collect();
    assert_eq!(one.places().len(), 300);
    let gone = Selection { ids: ids.iter().copied().step_by(3).collect(), ..Selection::default() };
    block_on(block_on(one.store.remove(gone)).unwrap().count());
    assert_eq!(one.places().len(), 300, "nobody has said so");
    let all = FetchRequest { stretches: vec![Stretch::default()], ..FetchRequest::default() };
    let fetched = one.fetch(all);
    assert_eq!(fetched.len(), 200);
    assert!(fetched.is_sorted_by_key(|message| fmail_api::Place::of(message)), "the oldest place first");
    assert_eq!(one.places().len(), 200);
}

#[test]
fn a_host_that_starts_again_holds_what_it_held() {
    let (mut one, two) = (host(1), host(2));
    for number in 0..300 {
        two.send("bob", "task", format!("two {number}"));
        one.send("alice", "task", format!("one {number}"));
    }
    exchange(&one, &two);
    let before = one.places();
    one.project.operations = operations(&one.project, 7);
    assert_eq!(one.places(), before);
    assert_eq!(exchange(&one, &two), Took { digests: 1, ..Took::default() });
}

#[test]
fn places_and_stretches_that_overlap_are_delivered_once_in_order() {
    let one = host(1);
    for number in 0..200 {
        one.send("alice", "task", number);
    }
    let places: Vec<_> = one.places().into_iter().collect();
    let stretch = |from: usize, to: usize| Stretch { from: Some(places[from]), to: Some(places[to]) };
    let request = FetchRequest {
        places: vec![places[199], places[15], places[0], places[100], places[0]],
        stretches: vec![stretch(90, 110), stretch(10, 20), stretch(100, 120)],
        horizon: None,
    };
    let fetched: Vec<u64> = one.fetch(request).iter().map(|message| message.body.as_u64().unwrap()).collect();
    let expected: Vec<u64> = [0].into_iter().chain(10..20).chain(90..120).chain([199]).collect();
    assert_eq!(fetched, expected);
}

#[test]
fn large_answers_and_requests_are_bounded() {
    let one = host(1);
    for number in 0..3_000 {
        one.send("alice", "task", number);
    }
    let held = vec![zero(Stretch::default()); DigestRequest::MOST];
    let digest = one.digest(None, held.clone());
    assert_eq!(digest.answers.len(), DigestRequest::MOST);
    assert!(serde_json::to_string(&digest).unwrap().len() < 700_000);
    assert!(matches!(&digest.answers[0], Compared::Parts(parts) if parts.len() == 16));
    assert!(
        matches!(digest.answers.last(), Some(Compared::Parts(parts)) if parts.len() == 1 && parts[0].count == 3_000)
    );
    let held = [held, vec![zero(Stretch::default())]].concat();
    let refused = one.call("peer", Request::Digest(DigestRequest { horizon: None, held })).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::InvalidRequest);
}

#[test]
fn many_may_ask_at_once_while_messages_come() {
    let one = host(1);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let held = one.held(None, Stretch::default());
                    let fetched = one.fetch(FetchRequest { stretches: vec![held.stretch], ..FetchRequest::default() });
                    assert!(fetched.len() as u64 >= held.count);
                }
            });
        }
        for number in 0..500 {
            one.send("alice", "task", number);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(one.places().len(), 500);
}
