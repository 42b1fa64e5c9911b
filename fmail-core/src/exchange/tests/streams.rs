//! The stream to a peer: nothing goes back to where it came from.

use fmail_api::{FetchRequest, RelayRequest, Request, SendRequest};

use super::{Host, host};
use crate::testing::{bodies, take};

fn relay(host: &Host, to: Option<&Host>) -> fmail_api::Reply {
    let to = to.map(|to| to.run);
    host.call("peer", Request::Relay(RelayRequest { since: None, to })).unwrap()
}

fn pass(from: &Host, to: &Host) {
    let all = FetchRequest { places: from.places().into_iter().collect(), ..FetchRequest::default() };
    for message in from.fetch(all) {
        to.import(&message, from.run);
    }
}

#[test]
fn a_hub_sends_each_message_to_all_but_the_host_that_it_came_from() {
    let (hub, spokes) = (host(1), [host(2), host(3), host(4)]);
    let streams = [0, 1, 2].map(|number| relay(&hub, Some(&spokes[number])));
    for (number, spoke) in spokes.iter().enumerate() {
        spoke.clock.advance(std::time::Duration::from_secs(number as u64));
        spoke.send("alice", "task", format!("spoke {number}"));
        pass(spoke, &hub);
    }
    hub.send("bob", "task", "hub");
    for (number, stream) in streams.into_iter().enumerate() {
        let expected = ["spoke 0", "spoke 1", "spoke 2", "hub"];
        let others: Vec<&str> = expected.into_iter().filter(|body| *body != format!("spoke {number}")).collect();
        assert_eq!(bodies(&take(stream, 3)), others);
    }
}

#[test]
fn a_message_that_came_from_two_hosts_goes_back_to_neither() {
    let (hub, one, two) = (host(1), host(2), host(3));
    one.send("alice", "task", "known");
    pass(&one, &two);
    let (to_one, to_two, to_other) = (relay(&hub, Some(&one)), relay(&hub, Some(&two)), relay(&hub, None));
    pass(&one, &hub);
    // It reaches the hub twice, which is no reason to send it once more.
    pass(&two, &hub);
    hub.clock.advance(std::time::Duration::from_secs(1));
    hub.send("bob", "task", "new");
    assert_eq!(bodies(&take(to_one, 1)), ["new"]);
    assert_eq!(bodies(&take(to_two, 1)), ["new"]);
    assert_eq!(bodies(&take(to_other, 2)), ["known", "new"]);
}

#[test]
fn a_plain_peer_gets_no_field_that_it_does_not_know() {
    let one = host(1);
    let (plain, ours) = (relay(&one, None), relay(&one, Some(&host(2))));
    let first = one.send("alice", "task", "first").message.id;
    let mut answer = SendRequest::new("task".parse().unwrap(), "second");
    answer.reply_to = Some(first.to_string());
    one.try_send("bob", answer).unwrap();
    let (plain, ours) = (take(plain, 2), take(ours, 2));
    assert_eq!((plain[1].reply_to, plain[1].extra.len()), (Some(first), 0));
    assert_eq!((ours[1].reply_to, ours[1].extra.len()), (Some(first), 1));
    assert!(plain.iter().chain(&ours).all(|message| message.host.as_deref() == Some("host-1")));
}
