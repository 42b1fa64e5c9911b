//! Records that travel: agents, reservations, receipts, deletions.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fmail_api::{
    AgentState, AgentView, Client, Fingerprint, GcRequest, Mark, MarkRequest, MessageId, NodeId, ReceiptRequest,
    RecipientReceipt, RecordKey, Records, RecordsRequest, Request, ReserveRequest, Reserved, Response, SharedRecord,
    Standing, StatusChange, StatusRequest, WhoRequest,
};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::{Value, json};

use super::{Host, exchange, host, operations};
use crate::testing::{Fails, context};

impl Host {
    fn records(&self, request: RecordsRequest) -> Records {
        match self.ask(Request::Records(request)) {
            Response::Records(records) => records,
            other => panic!("{other:?}"),
        }
    }

    fn buckets(&self) -> Vec<Fingerprint> {
        // Nobody holds what adds up to this.
        match self.records(RecordsRequest::Compare(Fingerprint::of(&[b"nothing"]))) {
            Records::Buckets(buckets) => buckets,
            other => panic!("{other:?}"),
        }
    }

    fn total(&self) -> Fingerprint {
        self.buckets().into_iter().fold(Fingerprint::default(), Fingerprint::and)
    }

    fn list(&self, buckets: &[u8]) -> BTreeMap<RecordKey, Fingerprint> {
        match self.records(RecordsRequest::List(buckets.to_vec())) {
            Records::Held(held) => held.into_iter().map(|one| (one.key, one.fingerprint)).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn get(&self, keys: Vec<RecordKey>) -> Vec<SharedRecord> {
        match self.records(RecordsRequest::Get(keys)) {
            Records::Content(content) => content,
            other => panic!("{other:?}"),
        }
    }

    fn merge(&self, records: Vec<SharedRecord>) -> (u64, u64) {
        match self.records(RecordsRequest::Merge(records)) {
            Records::Merged { changed, refused } => (changed, refused),
            other => panic!("{other:?}"),
        }
    }

    fn offer(&self, key: &str, value: Value) -> (u64, u64) {
        self.merge(vec![SharedRecord { key: key.parse().unwrap(), value }])
    }

    fn who(&self) -> Vec<AgentView> {
        match self.ask(Request::Who(WhoRequest::default())) {
            Response::Agents { agents, .. } => agents,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn mark(&self, agent: &str, mark: Mark, id: MessageId) {
        let request = MarkRequest { mark, ids: vec![id.to_string()], bulk: None, token: None, dry_run: false };
        match self.call(agent, Request::Mark(request)).unwrap().head {
            Response::Marked(marked) => assert!(marked.iter().all(|one| one.error.is_none()), "{marked:?}"),
            other => panic!("{other:?}"),
        }
    }

    fn receipt(&self, id: MessageId) -> Vec<RecipientReceipt> {
        match self.call("alice", Request::Receipt(ReceiptRequest { id: id.to_string() })).unwrap().head {
            Response::Receipt(receipt) => receipt.recipients,
            other => panic!("{other:?}"),
        }
    }

    fn reserve(&self, agent: &str, path: &str) -> Reserved {
        let request = ReserveRequest { paths: vec![path.into()], ttl_seconds: 600, exclusive: true, reason: None };
        match self.call(agent, Request::Reserve(request)).unwrap().head {
            Response::Reserved(reserved) => reserved,
            other => panic!("{other:?}"),
        }
    }
}

/// Both hold the same records afterwards, as far as each can. How many were carried, and how many refused.
fn trade(one: &Host, two: &Host) -> (u64, u64) {
    let (mut changed, mut refused) = (0, 0);
    let (ours, theirs) = (one.buckets(), two.buckets());
    let differ: Vec<u8> = (0..64).filter(|bucket| ours[usize::from(*bucket)] != theirs[usize::from(*bucket)]).collect();
    let (ours, theirs) = (one.list(&differ), two.list(&differ));
    for (from, to, held, known) in [(one, two, &ours, &theirs), (two, one, &theirs, &ours)] {
        let lacking = held.iter().filter(|(key, fingerprint)| known.get(key) != Some(fingerprint));
        let (new, turned_away) = to.merge(from.get(lacking.map(|(key, _)| key.clone()).collect()));
        changed += new;
        refused += turned_away;
    }
    (changed, refused)
}

fn settle(hosts: &[&Host]) {
    for _ in 0..3 {
        for pair in hosts.windows(2) {
            exchange(pair[0], pair[1]);
            trade(pair[0], pair[1]);
        }
    }
    for host in hosts {
        assert_eq!(host.total(), hosts[0].total());
    }
}

/// Another host's entry for an agent.
fn agent(host: &str, name: &str, stamp: &str, status: &str) -> Value {
    json!({"stamp": stamp, "host": host, "agent": {"name": name, "status": status, "first_seen": stamp, "last_seen": stamp}})
}

const STRANGER: &str = "000000000000000000000000000000ff";

#[test]
fn agents_of_other_hosts_are_shown_with_their_host() {
    let (one, two, three) = (host(1), host(2), host(3));
    one.send("alice", "task", "here");
    two.send("bob", "task", "there");
    settle(&[&one, &two, &three]);
    let shown: Vec<(String, Option<String>)> =
        three.who().into_iter().map(|agent| (agent.name.to_string(), agent.host)).collect();
    assert_eq!(shown, [("alice".into(), Some("host-1".into())), ("bob".into(), Some("host-2".into()))]);
    assert!(one.send("alice", "@bob", "hello").unknown.is_empty(), "who is known elsewhere is known");
    assert_eq!(one.send("alice", "@bobb", "hello").unknown[0].near[0].as_str(), "bob");
    // A change within the same second is a change.
    let set = |text: &str| Request::Status(StatusRequest { change: Some(StatusChange::Set(text.into())) });
    for text in ["zzz", "aaa", "mmm"] {
        two.call("bob", set(text)).unwrap();
        settle(&[&one, &two, &three]);
        let seen = three.who().into_iter().find(|agent| agent.name.as_str() == "bob").unwrap();
        assert_eq!(seen.status.as_deref(), Some(text));
    }
    assert_eq!(trade(&one, &three), (0, 0));
}

#[test]
fn an_agent_that_moved_is_shown_where_it_was_seen_last() {
    let (one, two) = (host(1), host(2));
    one.send("alice", "task", "first here");
    for host in [&one, &two] {
        host.clock.advance(Duration::from_secs(3_600));
    }
    two.send("alice", "task", "then there");
    settle(&[&one, &two]);
    for host in [&one, &two] {
        let who = host.who();
        assert_eq!((who.len(), who[0].state), (1, AgentState::Active));
        assert!(who[0].first_seen < who[0].last_seen);
    }
    assert_eq!(one.who()[0].host.as_deref(), Some("host-2"));
}

#[test]
fn a_clock_that_is_ahead_keeps_nobody_present() {
    let (one, two) = (host(1), host(2));
    two.clock.advance(Duration::from_secs(5 * 3_600));
    two.send("bob", "task", "from the future");
    settle(&[&one, &two]);
    assert_eq!(one.who()[0].state, AgentState::Active);
    one.clock.advance(Duration::from_secs(120));
    assert_eq!(one.who()[0].state, AgentState::Idle);
}

#[test]
fn a_host_that_starts_again_or_from_an_old_disk_is_believed_about_itself() {
    let (mut one, two) = (host(1), host(2));
    one.send("alice", "task", "x");
    let set = |text: &str| Request::Status(StatusRequest { change: Some(StatusChange::Set(text.into())) });
    for text in ["a", "b", "c"] {
        one.call("alice", set(text)).unwrap();
        settle(&[&one, &two]);
    }
    one.project.operations = operations(&one.project, 1);
    settle(&[&one, &two]);
    assert_eq!(two.who()[0].status.as_deref(), Some("c"));
    // The disk of before, with the same node: what the other has is later than anything on it.
    let old = host(1);
    old.send("alice", "task", "x");
    old.call("alice", set("old")).unwrap();
    settle(&[&old, &two]);
    assert_eq!(two.who()[0].status.as_deref(), Some("old"));
    assert_eq!(old.who()[0].status.as_deref(), Some("old"));
}

#[test]
fn reservations_of_other_hosts_are_shown_as_conflicts_and_prevent_nothing() {
    let (one, two) = (host(1), host(2));
    assert_eq!(two.reserve("bob", "src/**").conflicts.len(), 0);
    settle(&[&one, &two]);
    let reserved = one.reserve("alice", "src/main.rs");
    assert_eq!(reserved.granted.len(), 1);
    let holder = &reserved.conflicts[0].holders[0];
    assert_eq!((holder.agent.as_str(), holder.host.as_deref()), ("bob", Some("host-2")));
    assert_eq!(reservations(&one, fmail_api::ReservationsRequest::default()).len(), 2);
    let release = fmail_api::ReleaseRequest { which: fmail_api::LeaseSelection { all: true, ..Default::default() } };
    two.call("bob", Request::Release(release)).unwrap();
    settle(&[&one, &two]);
    let held = reservations(&one, fmail_api::ReservationsRequest::default());
    assert_eq!(held.len(), 1, "what was given back there is free here");
    assert_eq!(held[0].conflicts, []);
}

fn reservations(host: &Host, request: fmail_api::ReservationsRequest) -> Vec<fmail_api::HeldLease> {
    match host.ask(Request::Reservations(request)) {
        Response::Reservations(held) => held,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reservations_that_overlap_on_two_hosts_are_shown_as_conflicts_of_each_other_on_both() {
    let (one, two, three) = (host(1), host(2), host(3));
    one.reserve("alice", "src/main.rs");
    one.reserve("alice", "docs");
    one.reserve("carol", "free/**");
    two.reserve("bob", "src/**");
    // The same agent on two hosts is in nobody's way but its own.
    two.reserve("carol", "free/a.rs");
    settle(&[&one, &two, &three]);
    let shown = |host: &Host, request| {
        let named = |lease: &fmail_api::Lease| format!("{} of {}", lease.pattern, lease.agent);
        let told = |held: fmail_api::HeldLease| {
            let against = held.conflicts.iter().map(|other| format!("{} on {:?}", named(other), other.host.as_deref()));
            (named(&held.lease), against.collect::<Vec<_>>())
        };
        reservations(host, request).into_iter().map(told).collect::<BTreeMap<_, _>>()
    };
    let on = |host: Option<&str>, what: &str| vec![format!("{what} on {host:?}")];
    for (host, first, second) in
        [(&one, None, Some("host-2")), (&two, Some("host-1"), None), (&three, Some("host-1"), Some("host-2"))]
    {
        let all = shown(host, fmail_api::ReservationsRequest::default());
        assert_eq!(all.len(), 5, "{all:?}");
        assert_eq!(all["src/main.rs of alice"], on(second, "src/** of bob"));
        assert_eq!(all["src/** of bob"], on(first, "src/main.rs of alice"));
        for (free, conflicts) in all.iter().filter(|(named, _)| !named.starts_with("src")) {
            assert!(conflicts.is_empty(), "{free}: {conflicts:?}");
        }
    }
    // Who asks for some sees what stands against them all the same.
    let request = fmail_api::ReservationsRequest { agent: Some("alice".parse().unwrap()), path: Some("src".into()) };
    assert_eq!(shown(&one, request).into_values().next(), Some(on(Some("host-2"), "src/** of bob")));
}

#[test]
fn receipts_are_right_on_both_sides_also_where_ids_collided() {
    let (one, two) = (host(1), host(2));
    let asked = one.send("alice", "@bob", "from one").message;
    let other = two.send("alice", "@bob", "from two").message;
    let in_topic = one.send("alice", "task", "in a topic").message;
    assert_eq!(asked.id, other.id);
    settle(&[&one, &two]);
    let on_two = block_on(two.operations.exchange.local_id(&asked.identity())).unwrap().unwrap();
    assert_ne!(on_two, asked.id);
    two.mark("bob", Mark::Acknowledged, on_two);
    two.send("bob", "task", "I am known");
    two.mark("bob", Mark::Read, block_on(two.operations.exchange.local_id(&in_topic.identity())).unwrap().unwrap());
    settle(&[&one, &two]);
    assert_eq!(one.receipt(asked.id)[0].standing, Standing::Acknowledged);
    assert_eq!(two.receipt(on_two)[0].standing, Standing::Acknowledged);
    let on_one = block_on(one.operations.exchange.local_id(&other.identity())).unwrap().unwrap();
    assert_eq!(one.receipt(on_one)[0].standing, Standing::Unread, "the other one of that id is untouched");
    assert_eq!(two.receipt(other.id)[0].standing, Standing::Unread);
    assert_eq!(one.receipt(in_topic.id)[0].agent.as_str(), "bob");
    // What was done on both sides meets in the middle, whichever came first.
    one.clock.advance(Duration::from_secs(10));
    one.mark("bob", Mark::Archived, asked.id);
    two.clock.advance(Duration::from_secs(20));
    two.mark("bob", Mark::Unread, on_two);
    settle(&[&one, &two]);
    assert_eq!(one.receipt(asked.id)[0].standing, Standing::Archived);
    let Response::Counted { count, .. } = one.call("bob", Request::Count).unwrap().head else { panic!() };
    assert_eq!((count.total, count.unread), (1, 1), "the tally follows");
}

#[test]
fn receipts_that_are_asked_for_together_are_read_together() {
    let one = host(1);
    for number in 0..100 {
        let sent = one.send("alice", "@bob", number).message.id;
        one.mark("bob", Mark::Read, sent);
    }
    let all: Vec<u8> = (0..64).collect();
    let keys: Vec<RecordKey> = one.list(&all).into_keys().filter(|key| key.is_under("receipts")).collect();
    let asked = one.get(keys.clone());
    assert_eq!((asked.len(), keys.len()), (100, 100));
    assert!(asked.iter().all(|record| record.value["first_read"].is_string()), "{asked:?}");
    let (operations, answers) = one.failing(Fails::Never);
    let reply = block_on(operations.call(&context("peer"), Request::Records(RecordsRequest::Get(keys)))).unwrap();
    assert_eq!(reply.head, Response::Records(Records::Content(asked)));
    // Each message is read for the inventory and once more; their states stand in one record.
    assert!(answers.load(Ordering::SeqCst) < 250, "{answers:?} answers of the store");
}

#[test]
fn a_receipt_that_comes_before_its_message_is_noted_later() {
    let (one, two) = (host(1), host(2));
    let message = one.send("alice", "@bob", "x").message;
    one.mark("bob", Mark::Read, message.id);
    trade(&one, &two);
    exchange(&one, &two);
    assert_eq!(two.receipt(message.id)[0].standing, Standing::Unread);
    trade(&one, &two);
    assert_eq!(two.receipt(message.id)[0].standing, Standing::Read);
    assert_eq!(trade(&one, &two), (0, 0));
}

#[test]
fn what_was_deleted_on_one_host_goes_on_the_other() {
    let (one, two) = (host(1), host(2));
    let message = one.send("alice", "@bob", "secret").message;
    settle(&[&one, &two]);
    one.mark("bob", Mark::Deleted, message.id);
    assert_eq!(one.places().len(), 0);
    settle(&[&one, &two]);
    assert_eq!((one.places().len(), two.places().len()), (0, 0));
    let Response::Counted { count, .. } = two.call("bob", Request::Count).unwrap().head else { panic!() };
    assert_eq!((count.total, count.unread), (0, 0));
}

/// As a daemon leaves it that is killed behind the grave and before the removal; the topic's message has a grave that nobody dug.
#[test]
fn what_was_buried_and_not_removed_is_removed_by_the_next_look() {
    let one = host(1);
    let direct = one.send("alice", "@bob", "secret").message;
    let topic = one.send("alice", "task", "public").message;
    let name = |message: &fmail_api::Message| {
        let identity = message.identity();
        format!("{}/{}", identity.origin, identity.hash)
    };
    let graves = json!({name(&direct): {"deleted": direct.time}, name(&topic): {"deleted": topic.time}});
    let key = fmail_api::RecordKey::tombstones(&direct.id.day());
    block_on(fmail_api::Store::put(&*one.store, &key, fmail_api::Expect::Absent, graves, true)).unwrap();
    one.places();
    let log = one.call("bob", Request::Log(fmail_api::LogRequest::default())).unwrap();
    assert_eq!(crate::testing::bodies(&crate::testing::take(log, usize::MAX)), ["public"]);
}

#[test]
fn two_hosts_with_one_copied_id_do_not_outbid_each_other_for_ever_and_it_is_told() {
    // The same node, and two runs of it with stores of their own.
    let (one, mut two) = (host(1), host(1));
    two.run = NodeId::new(2);
    for (host, text) in [(&one, "one"), (&two, "two")] {
        host.send("alice", "task", "x");
        let change = Some(StatusChange::Set(text.into()));
        host.call("alice", Request::Status(StatusRequest { change })).unwrap();
    }
    assert!(one.operations.remarks().is_empty());
    let mut rounds = 0;
    loop {
        let before = (one.total(), two.total());
        trade(&one, &two);
        if (one.total(), two.total()) == before {
            break;
        }
        rounds += 1;
        assert!(rounds < 40, "they go on and on");
    }
    let remarks = [one.operations.remarks(), two.operations.remarks()].concat();
    assert!(remarks.iter().any(|text| text.contains("same node id")), "{remarks:?}");
    // Each of them still knows about itself.
    for (host, text) in [(&one, "one"), (&two, "two")] {
        assert_eq!(host.who()[0].status.as_deref(), Some(text));
    }
}

/// A message that got another id here and was deleted leaves that id, with what its recipient did, to nobody.
#[test]
fn an_id_that_a_deleted_message_was_given_here_is_not_given_to_a_message_that_was_born_with_it() {
    let (one, two, three) = (host(1), host(2), host(3));
    one.send("alice", "@bob", "ours");
    let theirs = two.send("alice", "@bob", "theirs").message;
    let fmail_api::Imported::Relocated(given) = one.import(&theirs, two.run) else { panic!("the ids collide") };
    one.mark("bob", Mark::Deleted, given);
    assert_eq!(one.places().len(), 1);
    // Somewhere else a message was born with the id that the deleted one had here.
    let newcomer = fmail_api::Message { id: given, body: "nobody deleted this".into(), ..theirs };
    one.import(&newcomer, three.run);
    assert_eq!(one.places().len(), 2);
    settle(&[&one, &three]);
    settle(&[&one, &three]);
    assert_eq!((one.places().len(), three.places().len()), (2, 2));
    let unread = take(one.call("bob", Request::Inbox(fmail_api::InboxRequest::default())).unwrap());
    assert_eq!(unread, ["ours", "nobody deleted this"]);
}

fn take(reply: fmail_api::Reply) -> Vec<String> {
    futures::executor::block_on_stream(reply.events.unwrap())
        .filter_map(|event| match event.unwrap() {
            fmail_api::Event::Mail(mail) => Some(mail.message.body.as_str().unwrap().to_string()),
            _ => None,
        })
        .collect()
}

#[test]
fn what_its_two_recipients_deleted_on_two_hosts_goes_on_both() {
    let (one, two) = (host(1), host(2));
    let mut request = fmail_api::SendRequest::new("@bob".parse().unwrap(), "x");
    request.cc = vec!["@carol".parse().unwrap()];
    let id = one.try_send("alice", request).unwrap().message.id;
    settle(&[&one, &two]);
    one.mark("bob", Mark::Deleted, id);
    two.mark("carol", Mark::Deleted, id);
    assert_eq!((one.places().len(), two.places().len()), (1, 1));
    settle(&[&one, &two]);
    assert_eq!((one.places().len(), two.places().len()), (0, 0));
}

#[test]
fn receipts_of_what_was_swept_away_are_not_offered_for_ever() {
    let (one, two) = (host(1), host(2));
    let message = one.send("alice", "@bob", "x").message;
    settle(&[&one, &two]);
    one.mark("bob", Mark::Read, message.id);
    for host in [&one, &two] {
        host.clock.advance(Duration::from_secs(10 * 86_400));
    }
    let sweep = Request::Gc(GcRequest { days: 7, dry_run: false });
    block_on(two.call("alice", sweep).unwrap().events.unwrap().count());
    trade(&one, &two);
    assert_eq!(one.total(), two.total());
}

#[test]
fn who_may_not_say_it_is_refused_and_counted() {
    let one = host(1);
    one.send("alice", "task", "x");
    let direct = one.send("alice", "@bob", "direct").message.identity();
    let topic = one.send("alice", "task", "topic").message.identity();
    let (now, key) = ("2026-01-10T15:30:00Z", format!("agents/{STRANGER}/eve"));
    assert_eq!(one.offer(&key, agent("elsewhere", "eve", now, "new")), (1, 0));
    assert_eq!(one.offer(&key, agent("elsewhere", "eve", now, "new")), (0, 0));
    assert_eq!(one.offer(&key, agent("elsewhere", "eve", "2026-01-09T00:00:00Z", "older")), (0, 0));
    let own = format!("agents/{}/alice", NodeId::new(1_001));
    let receipt =
        |agent: &str, identity: &fmail_api::Identity| format!("receipts/{agent}/{}/{}", identity.origin, identity.hash);
    let grave = |identity: &fmail_api::Identity| format!("tombstones/{}/{}", identity.origin, identity.hash);
    let lease = |pattern: &str| {
        json!({"stamp": now, "host": "h", "leases": [{"id": 1, "agent": "eve", "pattern": pattern,
        "exclusive": true, "since": now, "until": "2026-01-11T00:00:00Z"}]})
    };
    for (key, value) in [
        (own.as_str(), agent("host-1", "alice", now, "said by others")),
        (&key, agent("elsewhere", "eve", "2030-01-01T00:00:00Z", "from the future")),
        (&key, agent("elsewhere", "mallory", now, "another name")),
        (&key, agent("\u{1b}[2J", "eve", now, "x")),
        (&key, agent("elsewhere", "eve", now, &"x".repeat(100_000))),
        (&key, json!(7)),
        (&format!("leases/{STRANGER}"), lease("[")),
        ("project", json!({"id": "mine"})),
        ("horizon", json!({"before": "2030-01-01T00:00:00Z"})),
        (&receipt("eve", &direct), json!({"first_read": now})),
        (&receipt("bob", &direct), json!({"read": {"set": true, "at": "2030-01-01T00:00:00Z"}})),
        (&receipt("bob", &direct), json!({"claim": {"token": "t", "until": now, "attempts": 1}})),
        (&grave(&topic), json!({"deleted": now})),
        (&grave(&direct), json!({"deleted": "never"})),
    ] {
        assert_eq!(one.offer(key, value.clone()), (0, 1), "{key}: {value}");
    }
    assert_eq!(one.who().iter().find(|agent| agent.name.as_str() == "alice").unwrap().status, None);
    assert_eq!(one.places().len(), 3, "nothing was removed");
    assert_eq!(one.offer(&receipt("bob", &direct), json!({"first_read": now})), (1, 0));
    assert_eq!(one.offer(&format!("leases/{STRANGER}"), lease("src/**")), (1, 0));
}

#[test]
fn a_long_list_ends_with_a_bucket_and_what_is_left_comes_with_the_next_comparison() {
    let (one, two) = (host(1), host(2));
    let stamp = "2026-01-10T15:30:00Z";
    let many = (0..9_000).map(|number| {
        let name = format!("a{number}");
        let key = format!("agents/{STRANGER}/{name}").parse().unwrap();
        SharedRecord { key, value: agent("elsewhere", &name, stamp, "x") }
    });
    assert_eq!(one.merge(many.collect()), (9_000, 0));
    let all: Vec<u8> = (0..64).collect();
    let listed = one.list(&all).len();
    assert!((4_000..=6_000).contains(&listed), "{listed}");
    let mut rounds = 0;
    while one.total() != two.total() {
        rounds += 1;
        trade(&one, &two);
    }
    assert!(rounds <= 8 && two.list(&[63]) == one.list(&[63]), "{rounds}");
}

#[test]
fn records_that_agree_cost_one_comparison() {
    let (one, two) = (host(1), host(2));
    for number in 0..300 {
        let message = one.send("alice", "@bob", number).message.id;
        one.mark("bob", Mark::Read, message);
    }
    settle(&[&one, &two]);
    assert_eq!(one.records(RecordsRequest::Compare(two.total())), Records::Same);
    let filled = one.buckets().iter().filter(|bucket| **bucket != Fingerprint::default()).count();
    assert!(filled > 48, "the records are spread over the buckets");
}

#[test]
fn what_a_host_said_before_is_no_refusal_when_it_comes_back() {
    let one = host(1);
    one.send("alice", "task", "here");
    let key: RecordKey = format!("agents/{}/alice", NodeId::new(1_001)).parse().unwrap();
    let before = one.get(vec![key]);
    assert_eq!(before.len(), 1);
    one.clock.advance(Duration::from_secs(5));
    let set = Request::Status(StatusRequest { change: Some(StatusChange::Set("busy".into())) });
    one.call("alice", set).unwrap();
    one.total();
    assert_eq!(one.merge(before), (0, 0));
}

#[test]
fn a_host_that_was_renamed_is_shown_by_its_present_name_and_nothing_of_it_is_refused() {
    for renamed in ["aaa", "zzz"] {
        let (mut one, two) = (host(1), host(2));
        let here = fmail_api::Context { host: Some("host-1".into()), ..crate::testing::context("alice") };
        let send = fmail_api::SendRequest::new("task".parse().unwrap(), "here");
        block_on(fmail_api::Client::call(&one.operations, &here, Request::Send(Box::new(send)))).unwrap();
        let lease = ReserveRequest { paths: vec!["src".into()], ttl_seconds: 600, exclusive: true, reason: None };
        block_on(fmail_api::Client::call(&one.operations, &here, Request::Reserve(lease))).unwrap();
        settle(&[&one, &two]);
        assert_eq!(two.who()[0].host.as_deref(), Some("host-1"));
        // Its daemon starts again under another name, and the agent does nothing.
        for host in [&one, &two] {
            host.clock.advance(Duration::from_secs(60));
        }
        let node = fmail_api::Node { id: NodeId::new(1_001), run: NodeId::new(7), host: renamed.into() };
        one.project.operations = crate::Operations::new(one.store.clone(), one.clock.clone()).on(node);
        for _ in 0..3 {
            assert_eq!(trade(&one, &two).1, 0, "refused after it was renamed to {renamed}");
        }
        assert_eq!(one.total(), two.total());
        for host in [&one, &two] {
            assert_eq!(host.who()[0].host.as_deref(), Some(renamed));
        }
        let held = reservations(&two, fmail_api::ReservationsRequest::default());
        assert_eq!(held[0].lease.host.as_deref(), Some(renamed));
    }
}

#[test]
fn what_a_host_said_before_it_was_started_again_is_no_refusal() {
    let (mut one, two) = (host(1), host(2));
    one.reserve("alice", "src");
    settle(&[&one, &two]);
    for host in [&one, &two] {
        host.clock.advance(Duration::from_secs(60));
    }
    // Given back while no daemon ran.
    let release = fmail_api::ReleaseRequest { which: fmail_api::LeaseSelection { all: true, ..Default::default() } };
    one.call("alice", Request::Release(release)).unwrap();
    one.project.operations = operations(&one.project, 1);
    for _ in 0..3 {
        assert_eq!(trade(&one, &two).1, 0);
    }
    assert_eq!(reservations(&two, fmail_api::ReservationsRequest::default()), []);
}
