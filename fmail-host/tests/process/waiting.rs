//! Programs that do not read, or do not answer.

use std::time::{Duration, Instant};

use fmail_api::ErrorKind;
use futures::FutureExt;
use futures::executor::block_on;
use futures::future::join_all;

use crate::kit::{LONG, Rig, expect, start, wicked};

#[test]
fn one_that_hangs_costs_its_calls_their_deadline_and_is_then_started_again() {
    let rig = start(wicked(&[]), Duration::from_secs(2)).unwrap();
    let other = Rig::wicked();
    let error = expect(rig.tell("deaf"), &["no answer within 2s", "mail.plugin.wicked.timeout"]);
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(other.tell("echo on").unwrap(), "on");
    // That the call was given up is a line too, and it is not read.
    rig.heard.wait_for("has not read what it was sent for 2s, and was killed");
    assert_eq!(rig.tell("echo on").unwrap(), "on");
    other.close();
    rig.close();
}

#[test]
fn one_that_does_not_read_is_refused_further_calls_without_anyone_waiting() {
    let rig = Rig::wicked();
    let request = format!("echo {}", "x".repeat(1 << 20));
    let mut asked: Vec<_> = vec![rig.instance.call("read", b"", b"deaf").boxed_local()];
    asked.extend((0..64).map(|_| rig.instance.call("read", b"", request.as_bytes()).boxed_local()));
    let begun = Instant::now();
    // Polled once, each has been sent or refused.
    let polled: Vec<_> = asked.iter_mut().map(|call| call.now_or_never()).collect();
    assert!(begun.elapsed() < Duration::from_secs(20), "nobody waits: {:?}", begun.elapsed());
    let refused: Vec<_> = polled.into_iter().flatten().map(Result::unwrap_err).collect();
    assert!((40..60).contains(&refused.len()), "{} of 64 MiB were refused", refused.len());
    let text = "its program `";
    for error in &refused {
        assert!(error.kind() == ErrorKind::Backpressure && error.retryable(), "{error}");
        assert!(
            error.to_string().contains(text) && error.to_string().contains("does not read as fast as it is called")
        );
    }
}

#[test]
fn one_that_does_not_read_for_the_deadline_is_killed_and_started_again() {
    let rig = start(wicked(&[]), Duration::from_secs(2)).unwrap();
    let request = format!("echo {}", "x".repeat(1 << 20));
    let first = rig.instance.call("read", b"", b"deaf");
    let rest = (0..4).map(|_| rig.instance.call("read", b"", request.as_bytes()));
    let (first, rest) = block_on(futures::future::join(first, join_all(rest)));
    assert!(first.is_err());
    assert!(rest.iter().any(Result::is_err));
    rig.heard.wait_for("has not read what it was sent for 2s, and was killed");
    assert_eq!(rig.tell("echo on").unwrap(), "on");
    rig.close();
}

#[test]
fn one_that_closes_its_input_is_started_again() {
    let rig = Rig::wicked();
    let asked = rig.instance.call("read", b"", b"close-input");
    let more = async {
        loop {
            match rig.instance.call("read", b"", b"echo on").await {
                Ok(body) => return body,
                Err(error) => {
                    assert!(error.to_string().contains("closed its standard input, and was killed"), "{error}")
                }
            }
        }
    };
    // The first is not read before the input is closed, or is lost with it.
    let (asked, more) = block_on(futures::future::join(asked, more));
    expect(asked, &["closed its standard input, and was killed"]);
    assert_eq!(&*more, b"on");
    rig.close();
}

#[test]
fn a_call_that_was_given_up_before_it_was_sent_never_is() {
    let rig = Rig::wicked();
    expect(rig.tell("exit 1"), &["exit status: 1"]);
    // The program is down; these wait for the next one and are given up at once.
    for _ in 0..10 {
        assert!(rig.instance.call("append", b"", b"exit 1").now_or_never().is_none());
    }
    assert_eq!(rig.tell("count").unwrap(), "1");
    rig.close();
}

#[test]
fn one_that_asks_and_never_reads_the_answers_is_killed() {
    let rig = Rig::wicked();
    expect(rig.tell("ask-all 20000"), &["does not read what it has asked for and what its calls need, and was killed"]);
    assert_eq!(rig.tell("count").unwrap(), "1");
    rig.close();
}

#[test]
fn a_child_that_only_takes_its_time_is_not_stuck() {
    let rig = start(wicked(&[]), Duration::from_secs(4)).unwrap();
    let (pid, begun) = (rig.pid(), Instant::now());
    while begun.elapsed() < Duration::from_secs(6) {
        assert_eq!(rig.tell("echo on").unwrap(), "on");
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(rig.pid(), pid);
    assert!(begun.elapsed() < LONG);
    rig.close();
}
