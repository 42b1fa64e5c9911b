//! Programs that print what is no line of the protocol: the conversation is over, with the reason, and begins anew.

use fmail_abi::Counters;
use fmail_api::ErrorKind;
use futures::StreamExt;
use futures::executor::block_on;

use crate::kit::{Rig, expect};

/// The call ends with this, and the next one finds the program started again.
#[track_caller]
fn check(printed: &str, reason: &str) {
    let rig = Rig::wicked();
    let error = expect(rig.tell(&format!("raw {printed}\\n")), &[reason, ", and was killed"]);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(rig.tell("count").unwrap(), "1");
    rig.close();
}

#[test]
fn text_between_the_lines() {
    check("DEBUG: got a call", "printed what is no line of the plugin protocol: DEBUG: got a call: ");
}

#[test]
fn an_empty_line() {
    check("", "the line is empty");
}

#[test]
fn bytes_that_are_not_utf_8() {
    check("{\"done\":1,\"body\":\"\\xff\\xfe\"}", "the line is not UTF-8");
}

#[test]
fn an_unknown_verb() {
    check("{\"send\":1}", "no verb in the line");
}

#[test]
fn a_verb_that_is_the_hosts() {
    check("{\"destroy\":1}", "said `destroy`, which is the host's to say");
    check("{\"hello\":{}}", "said hello a second time");
}

#[test]
fn a_gigabyte_without_a_line_break() {
    let rig = Rig::wicked();
    expect(rig.tell("flood"), &["printed a line of more than 16 MiB, and was killed"]);
    assert_eq!(rig.tell("count").unwrap(), "1");
    rig.close();
}

#[test]
fn second_answers_and_invented_numbers_are_counted_and_have_no_effect() {
    let rig = Rig::wicked();
    assert_eq!(rig.tell("twice").unwrap(), "first");
    assert_eq!(rig.tell("echo on").unwrap(), "on");
    assert_eq!(rig.heard.calls.counters(), Counters { late: 1, forged: 2, excess: 0 });
    rig.close();
}

#[test]
fn streams_keep_to_their_credit() {
    let rig = Rig::wicked();
    let (head, items) = block_on(rig.instance.stream("scan", b"", b"stream 1000")).unwrap();
    assert_eq!(&*head, b"{\"n\": 0}");
    let items: Vec<_> = block_on(items.collect());
    assert_eq!(items.len(), 999);
    assert_eq!(&**items[998].as_ref().unwrap(), b"{\"n\": 999}");
    assert_eq!(rig.heard.calls.counters().excess, 0);
    rig.close();
}
