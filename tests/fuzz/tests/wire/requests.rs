//! What is read as a request is the request that was written.

use fmail_api::Context;
use fmail_fuzz::{fuzz, mutated, requests};
use fmail_transports::wire::{Call, outgoing, parse};

use crate::shown;

/// The line that our own client would write for this call.
fn written(call: &Call) -> String {
    let mut context = Context::local(call.agent.clone());
    (context.host, context.project) = (call.host.clone(), call.project.clone());
    outgoing::request(&context, &call.request, "again").expect("whatever is understood can be written")
}

#[test]
fn every_parsed_request_survives_being_written_and_read_again() {
    let (corpus, mut understood, mut all) = (requests(), 0_u64, 0_u64);
    fuzz(|dice| {
        let line = mutated(dice, &corpus);
        all += 1;
        let Ok(call) = parse(&line).call else { return };
        understood += 1;
        let again = written(&call);
        let incoming = parse(again.trim_end().as_bytes());
        assert_eq!(incoming.req_id.map(|id| id.to_string()).as_deref(), Some("\"again\""));
        let read = incoming.call.unwrap_or_else(|error| panic!("{}\nbecame {again}{error}", shown(&line)));
        let common = |call: &Call| (call.agent.clone(), call.host.clone(), call.project.clone());
        assert_eq!(common(&read), common(&call), "{}\nbecame {again}", shown(&line));
        assert_eq!(read.request, call.request, "{}\nbecame {again}", shown(&line));
    });
    // A generator whose lines are all refused would prove nothing.
    assert!(all < 1_000 || understood > all / 100, "{understood} of {all} lines were requests");
}

#[test]
fn the_order_of_the_fields_does_not_matter() {
    let corpus = requests();
    fuzz(|dice| {
        let line = dice.pick(&corpus).as_bytes();
        let mut shuffled = line.to_vec();
        fmail_fuzz::Kind::Shuffled.apply(dice, &mut shuffled);
        let (one, other) = (parse(line), parse(&shuffled));
        assert_eq!(one.req_id, other.req_id, "{}", shown(&shuffled));
        assert_eq!(one.call.unwrap().request, other.call.unwrap().request, "{}", shown(&shuffled));
    });
}
