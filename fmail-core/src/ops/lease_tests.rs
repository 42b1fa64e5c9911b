//! What reservations promise, on a store in memory.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use fmail_api::{
    Client, Error, ErrorKind, Expect, Lease, LeaseSelection, LeasesChanged, LeasesRecord, RecordKey, ReleaseRequest,
    RenewRequest, Request, ReservationsRequest, ReserveRequest, Reserved, Response, Result, Store,
};
use futures::executor::block_on;
use proptest::prelude::*;

use crate::PathPattern;
use crate::testing::{Project, context};

const HOUR: u64 = 3600;

fn asked(paths: &[&str], exclusive: bool) -> ReserveRequest {
    let paths = paths.iter().map(ToString::to_string).collect();
    ReserveRequest { paths, ttl_seconds: HOUR, exclusive, reason: None }
}

fn try_reserve(project: &Project, agent: &str, request: ReserveRequest) -> Result<Reserved> {
    match project.call(agent, Request::Reserve(request))?.head {
        Response::Reserved(reserved) => Ok(reserved),
        other => panic!("{other:?}"),
    }
}

fn reserve(project: &Project, agent: &str, paths: &[&str], exclusive: bool) -> Reserved {
    try_reserve(project, agent, asked(paths, exclusive)).unwrap()
}

fn which(paths: &[&str], ids: &[u64]) -> LeaseSelection {
    LeaseSelection { paths: paths.iter().map(ToString::to_string).collect(), ids: ids.to_vec(), all: false }
}

fn all() -> LeaseSelection {
    LeaseSelection { all: true, ..LeaseSelection::default() }
}

fn changed(project: &Project, agent: &str, request: Request) -> Result<LeasesChanged> {
    match project.call(agent, request)?.head {
        Response::LeasesChanged(changed) => Ok(changed),
        other => panic!("{other:?}"),
    }
}

fn release(project: &Project, agent: &str, which: LeaseSelection) -> LeasesChanged {
    changed(project, agent, Request::Release(ReleaseRequest { which })).unwrap()
}

fn renew(project: &Project, agent: &str, which: LeaseSelection, ttl_seconds: u64) -> LeasesChanged {
    changed(project, agent, Request::Renew(RenewRequest { which, ttl_seconds, at_least: false })).unwrap()
}

fn listed(project: &Project, agent: Option<&str>, path: Option<&str>) -> Vec<Lease> {
    let request = ReservationsRequest { agent: agent.map(|name| name.parse().unwrap()), path: path.map(String::from) };
    match project.call("anon-1", Request::Reservations(request)).unwrap().head {
        Response::Reservations(held) => held.into_iter().map(|held| held.lease).collect(),
        other => panic!("{other:?}"),
    }
}

fn patterns(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.pattern.as_str()).collect()
}

fn record(project: &Project) -> LeasesRecord {
    block_on(project.store.get(&RecordKey::leases()))
        .unwrap()
        .map(|record| record.decode().unwrap())
        .unwrap_or_default()
}

#[test]
fn a_conflict_needs_an_overlap_another_agent_and_an_exclusive_one() {
    for (first, second, exclusive, agent, conflicts) in [
        ("src/a.rs", "src/a.rs", (true, true), "bob", true),
        ("src/a.rs", "src/a.rs", (true, false), "bob", true),
        ("src/a.rs", "src/a.rs", (false, true), "bob", true),
        ("src/a.rs", "src/a.rs", (false, false), "bob", false),
        ("src/a.rs", "src/a.rs", (true, true), "alice", false),
        ("src/*", "src/a*", (true, true), "bob", true),
        ("src", "src/deep/down.rs", (true, true), "bob", true),
        ("**", "docs/x.md", (false, true), "bob", true),
        ("src/{a,b}.rs", "src/c.rs", (true, true), "bob", false),
        ("src/api", "src/api2", (true, true), "bob", false),
        ("./src//a.rs", "src/a.rs", (true, true), "bob", true),
    ] {
        let project = Project::new();
        assert_eq!(reserve(&project, "alice", &[first], exclusive.0).granted.len(), 1);
        let answer = reserve(&project, agent, &[second], exclusive.1);
        assert_eq!(!answer.conflicts.is_empty(), conflicts, "{first} and {second} {exclusive:?} {agent}");
        assert_eq!(answer.granted.is_empty(), conflicts);
    }
}

#[test]
fn what_is_free_is_granted_beside_what_is_not_and_both_are_told() {
    let project = Project::new();
    let request = ReserveRequest { reason: Some(" auth ".into()), ..asked(&["src/auth/**"], true) };
    let held = try_reserve(&project, "alice", request).unwrap().granted.remove(0);
    assert_eq!((held.reason.as_deref(), held.since), (Some("auth"), project.now()));
    assert_eq!(held.until, project.now().after(Duration::from_secs(HOUR)));

    let answer = reserve(&project, "bob", &["docs/*.md", "src/auth/*.rs", "docs/*.md", "src/main.rs"], false);
    assert_eq!(patterns(&answer.granted), ["docs/*.md", "src/main.rs"]);
    let [conflict] = &answer.conflicts[..] else { panic!("{answer:?}") };
    assert_eq!((conflict.path.as_str(), &conflict.holders), ("src/auth/*.rs", &vec![held]));
    let example = conflict.example.as_deref().unwrap();
    for pattern in ["src/auth/**", "src/auth/*.rs"] {
        assert!(pattern.parse::<PathPattern>().unwrap().matches(example), "{example} is not of {pattern}");
    }
    assert_eq!(patterns(&listed(&project, None, None)), ["docs/*.md", "src/auth/**", "src/main.rs"]);
}

#[test]
fn nothing_but_conflicts_writes_nothing() {
    let project = Project::new();
    reserve(&project, "alice", &["src"], true);
    let before = block_on(project.store.get(&RecordKey::leases())).unwrap();
    assert_eq!(reserve(&project, "bob", &["src/a.rs"], true).conflicts.len(), 1);
    assert_eq!(block_on(project.store.get(&RecordKey::leases())).unwrap(), before);
}

#[test]
fn reserving_again_renews_the_own_lease_and_keeps_its_number() {
    let project = Project::new();
    let request = ReserveRequest { reason: Some("first".into()), ..asked(&["src/a.rs"], true) };
    let first = try_reserve(&project, "alice", request).unwrap().granted.remove(0);
    project.clock.advance(Duration::from_secs(60));
    let again = reserve(&project, "alice", &["./src/a.rs"], false).granted.remove(0);
    assert_eq!((again.id, again.since, again.exclusive), (first.id, first.since, false));
    assert_eq!(again.until, project.now().after(Duration::from_secs(HOUR)));
    assert_eq!(again.reason.as_deref(), Some("first"), "more time needs no new reason");
    let request = ReserveRequest { reason: Some("second".into()), ttl_seconds: 5, ..asked(&["src/a.rs"], false) };
    let third = try_reserve(&project, "alice", request).unwrap().granted.remove(0);
    assert_eq!((third.reason.as_deref(), third.until), (Some("second"), project.now().after(Duration::from_secs(5))));
    assert_eq!(listed(&project, None, None), [third]);
}

#[test]
fn a_shared_lease_becomes_exclusive_only_when_nobody_shares_it() {
    let project = Project::new();
    reserve(&project, "alice", &["src"], false);
    let bobs = reserve(&project, "bob", &["src/a.rs"], false).granted.remove(0);
    let before = listed(&project, Some("alice"), None);
    assert_eq!(reserve(&project, "alice", &["src"], true).conflicts[0].holders, [bobs]);
    assert_eq!(listed(&project, Some("alice"), None), before, "the shared one stays as it was");
    release(&project, "bob", all());
    assert!(reserve(&project, "alice", &["src"], true).granted[0].exclusive);
}

#[test]
fn an_ended_lease_is_not_shown_not_in_the_way_and_gone_with_the_next_change() {
    let project = Project::new();
    reserve(&project, "alice", &["src"], true);
    project.clock.advance(Duration::from_secs(HOUR) - Duration::from_millis(1));
    assert_eq!(reserve(&project, "bob", &["src"], true).conflicts.len(), 1, "until its last moment");
    assert_eq!(listed(&project, None, None).len(), 1);
    project.clock.advance(Duration::from_millis(1));
    assert_eq!(listed(&project, None, None), []);
    assert_eq!(listed(&project, None, Some("src")), []);
    assert_eq!(record(&project).leases.len(), 1, "looking changes nothing");
    let granted = reserve(&project, "bob", &["src"], true).granted.remove(0);
    assert_eq!(granted.id, 2);
    assert_eq!(record(&project).leases, [granted]);
}

#[test]
fn numbers_ascend_and_are_never_used_again() {
    let project = Project::new();
    let mut last = 0;
    for round in 0..5 {
        let granted = reserve(&project, "alice", &["a", "b"], true).granted;
        for lease in &granted {
            assert!(lease.id > last, "{} after {last} in round {round}", lease.id);
            last = lease.id;
        }
        match round % 2 {
            0 => drop(release(&project, "alice", all())),
            _ => project.clock.advance(Duration::from_secs(2 * HOUR)),
        }
    }
}

#[test]
fn releasing_gives_back_what_was_named_by_any_name() {
    let project = Project::new();
    let ids: Vec<u64> =
        reserve(&project, "alice", &["a", "b", "c", "conf.d/"], true).granted.iter().map(|lease| lease.id).collect();
    let released = release(&project, "alice", which(&["./a", "conf.d"], &[ids[1]]));
    assert_eq!(patterns(&released.changed), ["a", "b", "conf.d/"]);
    assert_eq!(released.skipped, []);
    assert_eq!(patterns(&listed(&project, None, None)), ["c"]);
    assert_eq!(patterns(&release(&project, "alice", all()).changed), ["c"]);
    assert_eq!(release(&project, "alice", all()), LeasesChanged::default());
    assert!(reserve(&project, "bob", &["**"], true).conflicts.is_empty());
}

#[test]
fn what_is_named_and_not_held_is_told_with_the_reason_and_left_alone() {
    let project = Project::new();
    let short = ReserveRequest { ttl_seconds: 10, ..asked(&["ended"], true) };
    let ended = try_reserve(&project, "alice", short).unwrap().granted.remove(0);
    let given_back = reserve(&project, "alice", &["given-back"], true).granted.remove(0);
    release(&project, "alice", which(&[], &[given_back.id]));
    reserve(&project, "alice", &["wide/**"], true);
    let bobs = reserve(&project, "bob", &["bobs"], true).granted.remove(0);
    // The clock moves before the next change, so that the ended one still stands in the record.
    project.clock.advance(Duration::from_secs(20));

    let named = which(&["never", "ended", "bobs", "wide/a.rs"], &[bobs.id, ended.id, given_back.id, 99, 0]);
    let until = bobs.until.whole_seconds();
    for answer in [release(&project, "alice", named.clone()), renew(&project, "alice", named, HOUR)] {
        assert_eq!(answer.changed, []);
        let reasons: Vec<(&str, &str)> =
            answer.skipped.iter().map(|skipped| (skipped.named.as_str(), skipped.reason.as_str())).collect();
        let expected = [
            ("never", "you do not hold it"),
            ("ended", &format!("it ended at {}", ended.until)),
            ("bobs", &format!("held by @bob until {until}")),
            ("wide/a.rs", "you do not hold it, but you hold `wide/**` (--id 3)"),
            (&bobs.id.to_string(), &format!("held by @bob until {until}")),
            (&ended.id.to_string(), &format!("it ended at {}", ended.until)),
            (&given_back.id.to_string(), "it has ended or was given back"),
            ("99", "there has never been a reservation of this number"),
            ("0", "there has never been a reservation of this number"),
        ];
        assert_eq!(reasons, expected);
    }
    assert_eq!(patterns(&listed(&project, None, None)), ["bobs", "wide/**"]);
}

#[test]
fn a_renewal_counts_from_now_and_brings_nothing_back() {
    let project = Project::new();
    reserve(&project, "alice", &["a"], true);
    let short = ReserveRequest { ttl_seconds: 10, ..asked(&["b"], true) };
    try_reserve(&project, "alice", short).unwrap();
    reserve(&project, "bob", &["c"], true);
    project.clock.advance(Duration::from_secs(60));
    let renewed = renew(&project, "alice", all(), 120);
    assert_eq!(patterns(&renewed.changed), ["a"]);
    assert_eq!(renewed.changed[0].until, project.now().after(Duration::from_secs(120)), "sooner than before");
    assert_eq!(renewed.skipped.iter().map(|skipped| skipped.named.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(patterns(&listed(&project, None, None)), ["a", "c"]);
}

#[test]
fn who_asks_for_at_least_so_long_never_ends_up_with_less() {
    let project = Project::new();
    reserve(&project, "alice", &["long"], true);
    let short = ReserveRequest { ttl_seconds: 10, ..asked(&["short"], true) };
    try_reserve(&project, "alice", short).unwrap();
    let before = listed(&project, None, Some("long"))[0].until;
    let request = RenewRequest { which: all(), ttl_seconds: 120, at_least: true };
    let renewed = changed(&project, "alice", Request::Renew(request)).unwrap().changed;
    assert_eq!(patterns(&renewed), ["long", "short"]);
    assert_eq!([renewed[0].until, renewed[1].until], [before, project.now().after(Duration::from_secs(120))]);
}

#[test]
fn the_list_is_filtered_by_agent_and_by_overlap() {
    let project = Project::new();
    reserve(&project, "alice", &["src/a.rs", "docs"], true);
    reserve(&project, "bob", &["src/b.rs"], false);
    assert_eq!(patterns(&listed(&project, None, None)), ["docs", "src/a.rs", "src/b.rs"]);
    assert_eq!(patterns(&listed(&project, Some("bob"), None)), ["src/b.rs"]);
    assert_eq!(patterns(&listed(&project, None, Some("src/*"))), ["src/a.rs", "src/b.rs"]);
    assert_eq!(patterns(&listed(&project, Some("alice"), Some("src"))), ["src/a.rs"]);
    assert_eq!(listed(&project, Some("carol"), None), []);
}

fn refused(project: &Project, agent: &str, request: Request) -> Error {
    let error = project.call(agent, request).err().expect("refused");
    assert!(error.help_text().is_some(), "{error}");
    error
}

#[test]
fn bad_requests_say_what_is_allowed_and_write_nothing() {
    let project = Project::new();
    let many: Vec<String> = (0..51).map(|number| format!("f{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (request, says) in [
        (asked(&[], true), "no path"),
        (asked(&many, true), "51 patterns"),
        (asked(&["/etc/passwd"], true), "/etc/passwd"),
        (asked(&["ok", "../up"], true), "../up"),
        (asked(&[""], true), "empty"),
        (ReserveRequest { ttl_seconds: 0, ..asked(&["a"], true) }, "1 s to 7 days"),
        (ReserveRequest { ttl_seconds: 7 * 86_400 + 1, ..asked(&["a"], true) }, "604801 s"),
        (ReserveRequest { reason: Some("x".repeat(1001)), ..asked(&["a"], true) }, "1001 bytes"),
    ] {
        let error = refused(&project, "alice", Request::Reserve(request));
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.to_string().contains(says), "{error}");
    }
    for selection in [LeaseSelection::default(), LeaseSelection { all: true, ..which(&["a"], &[]) }] {
        let request = ReleaseRequest { which: selection.clone() };
        assert_eq!(refused(&project, "alice", Request::Release(request)).kind(), ErrorKind::InvalidRequest);
        let request = RenewRequest { which: selection, ttl_seconds: HOUR, at_least: false };
        assert_eq!(refused(&project, "alice", Request::Renew(request)).kind(), ErrorKind::InvalidRequest);
    }
    let renewal = RenewRequest { which: all(), ttl_seconds: 0, at_least: false };
    assert_eq!(refused(&project, "alice", Request::Renew(renewal)).kind(), ErrorKind::InvalidRequest);
    let anonymous = refused(&project, "anon-77", Request::Reserve(asked(&["a"], true)));
    assert_eq!(anonymous.kind(), ErrorKind::InvalidAgent);
    assert_eq!(block_on(project.store.get(&RecordKey::leases())).unwrap(), None);
    let longest = ReserveRequest { ttl_seconds: 7 * 86_400, reason: Some("x".repeat(1000)), ..asked(&["a"], true) };
    assert_eq!(try_reserve(&project, "alice", longest).unwrap().granted.len(), 1, "the limits themselves are allowed");
}

#[test]
fn a_project_has_at_most_a_thousand_leases_and_renewing_is_still_possible() {
    let project = Project::new();
    for batch in 0..20 {
        let paths: Vec<String> = (0..50).map(|number| format!("d{batch}/f{number}")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        assert_eq!(reserve(&project, "alice", &paths, false).granted.len(), 50);
    }
    let error = refused(&project, "bob", Request::Reserve(asked(&["one-more"], false)));
    assert_eq!(error.kind(), ErrorKind::Backpressure);
    assert!(error.to_string().contains("1000"), "{error}");
    assert_eq!(reserve(&project, "alice", &["d0/f0"], false).granted.len(), 1);
    assert_eq!(listed(&project, None, None).len(), 1000);
    project.clock.advance(Duration::from_secs(HOUR));
    assert_eq!(reserve(&project, "bob", &["one-more"], false).granted.len(), 1, "ended ones do not count");
}

#[test]
fn a_stored_pattern_that_cannot_be_understood_is_an_error_and_not_a_free_path() {
    let project = Project::new();
    let mut broken = reserve(&project, "alice", &["src"], true).granted.remove(0);
    broken.pattern = "src/[".into();
    let value = serde_json::to_value(LeasesRecord { next: 2, leases: vec![broken] }).unwrap();
    block_on(project.store.put(&RecordKey::leases(), Expect::Anything, value, false)).unwrap();
    let error = refused(&project, "bob", Request::Reserve(asked(&["docs"], false)));
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("@alice") && error.help_text().unwrap().contains("--id 1"), "{error:?}");
    assert_eq!(listed(&project, None, None).len(), 1);
    assert_eq!(release(&project, "alice", which(&[], &[1])).changed.len(), 1);
}

#[test]
fn unknown_fields_of_a_lease_survive_a_change() {
    let project = Project::new();
    let mut lease = reserve(&project, "alice", &["src"], true).granted.remove(0);
    lease.extra.insert("colour".into(), "red".into());
    let value = serde_json::to_value(LeasesRecord { next: 2, leases: vec![lease] }).unwrap();
    block_on(project.store.put(&RecordKey::leases(), Expect::Anything, value, false)).unwrap();
    assert_eq!(renew(&project, "alice", all(), HOUR).changed[0].extra["colour"], "red");
    assert_eq!(record(&project).leases[0].extra["colour"], "red");
}

#[test]
fn of_many_who_race_for_overlapping_patterns_one_wins() {
    let patterns = ["src/*", "src/a*", "**/a.rs", "src/a.rs"];
    for _ in 0..100 {
        let project = Project::new();
        let operations = Arc::new(project.operations);
        let start = Arc::new(Barrier::new(8));
        let racers: Vec<_> = (0..8)
            .map(|number| {
                let (operations, start) = (operations.clone(), start.clone());
                std::thread::spawn(move || {
                    start.wait();
                    let request = asked(&[patterns[number % patterns.len()]], true);
                    let racer = context(&format!("racer-{number}"));
                    match block_on(operations.call(&racer, Request::Reserve(request))).unwrap().head {
                        Response::Reserved(reserved) => !reserved.granted.is_empty(),
                        other => panic!("{other:?}"),
                    }
                })
            })
            .collect();
        assert_eq!(racers.into_iter().map(|racer| racer.join().unwrap()).filter(|won| *won).count(), 1);
    }
}

/// Patterns of a few names, so that they often meet.
fn pattern() -> impl Strategy<Value = String> {
    let segment = proptest::sample::select(&["a", "b", "*", "?", "[ab]", "{a,b.rs}", "**", "a.rs", "*.rs"][..]);
    proptest::collection::vec(segment, 1..4).prop_map(|segments| segments.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whether_two_conflict_does_not_depend_on_who_was_first(
        one in pattern(), other in pattern(), exclusive: bool, exclusive_other: bool,
    ) {
        let conflicts = |first: (&str, bool), second: (&str, bool)| {
            let project = Project::new();
            reserve(&project, "alice", &[first.0], first.1);
            !reserve(&project, "bob", &[second.0], second.1).conflicts.is_empty()
        };
        let forwards = conflicts((&one, exclusive), (&other, exclusive_other));
        prop_assert_eq!(forwards, conflicts((&other, exclusive_other), (&one, exclusive)));
        let meet = one.parse::<PathPattern>().unwrap().intersects(&other.parse().unwrap());
        prop_assert_eq!(forwards, meet && (exclusive || exclusive_other));
    }

    #[test]
    fn no_two_leases_that_hold_are_ever_in_conflict(
        steps in proptest::collection::vec((0..3_usize, 0..4_u8, pattern(), any::<bool>(), 1..30_u64), 1..30),
    ) {
        let project = Project::new();
        for (agent, step, path, exclusive, seconds) in steps {
            let agent = ["alice", "bob", "carol"][agent];
            match step {
                0 | 1 => {
                    let request = ReserveRequest { ttl_seconds: seconds, ..asked(&[&path], exclusive) };
                    drop(try_reserve(&project, agent, request).unwrap());
                }
                2 => drop(release(&project, agent, which(&[&path], &[]))),
                _ => project.clock.advance(Duration::from_secs(seconds)),
            }
            let held = listed(&project, None, None);
            for (at, one) in held.iter().enumerate() {
                for other in &held[at + 1..] {
                    let meet = one.pattern.parse::<PathPattern>().unwrap().intersects(&other.pattern.parse().unwrap());
                    let conflict = meet && one.agent != other.agent && (one.exclusive || other.exclusive);
                    prop_assert!(!conflict, "{:?} and {:?}", one, other);
                }
            }
        }
    }
}
