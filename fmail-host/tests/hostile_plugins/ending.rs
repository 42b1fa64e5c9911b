//! Instances that end badly, or not at all.

use std::time::Duration;

use fmail_abi::Counters;
use fmail_api::ErrorKind;
use futures::executor::block_on;

use crate::kit::{GRACE, Hostile, call, close, echo, good_goes_on, logged, says};

#[test]
fn answers_after_destroy() {
    let instance = Hostile::new("after_destroy", "late").start().unwrap();
    assert_eq!(echo(&instance, "x").unwrap(), "x");
    let hanging = instance.call("hang", b"", b"");
    let mut hanging = Box::pin(hanging);
    block_on(async { assert!(futures::poll!(&mut hanging).is_pending()) });
    block_on(instance.close(Duration::from_millis(100))).unwrap();
    let error = block_on(hanging).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    says(&error, &["the plugin `late`, `hang`: the plugin's instance was closed"]);
    // The plugin says all this after it has answered `destroy`, on the thread that called it.
    while instance.counters().late < 3 {
        std::thread::yield_now();
    }
    assert_eq!(instance.counters(), Counters { late: 3, ..Counters::default() });
    says(&echo(&instance, "x").unwrap_err(), &["the plugin `late`, `echo`: the instance is closed"]);
    good_goes_on();
}

#[test]
fn blocking_in_destroy() {
    let instance = Hostile::new("destroy_blocks", "endless").start().unwrap();
    let mut hanging = Box::pin(instance.call("hang", b"", b""));
    block_on(async { assert!(futures::poll!(&mut hanging).is_pending()) });
    let error = block_on(instance.close(Duration::from_millis(200))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let parts = [
        "the plugin `endless`, `destroy`: has not ended within 200ms",
        "has not returned from `destroy` for",
        "unanswered until it was closed: `hang` for",
        "stays in memory until the program ends",
    ];
    says(&error, &parts);
    assert_eq!(block_on(hanging).unwrap_err().kind(), ErrorKind::Cancelled);
    good_goes_on();
}

#[test]
fn destroy_that_is_never_answered() {
    let instance = Hostile::new("destroy_silent", "silent").start().unwrap();
    let error = block_on(instance.close(Duration::from_millis(200))).unwrap_err();
    says(&error, &["the plugin `silent`, `destroy`: has not ended within 200ms", "given up"]);
    // A second close does nothing, and waits for nothing.
    block_on(instance.close(GRACE)).unwrap();
    good_goes_on();
}

#[test]
fn a_call_under_way_may_end_before_the_instance_does() {
    let hostile = Hostile::new("blocks", "draining");
    let instance = hostile.start().unwrap();
    let gate = hostile.place.path("gate");
    std::thread::scope(|scope| {
        let under_way = scope.spawn(|| call(&instance, "block", gate.to_str().unwrap()));
        while logged("draining").is_empty() {
            assert_eq!(echo(&instance, "x").unwrap(), "x");
        }
        let closing = scope.spawn(|| close(&instance));
        while echo(&instance, "x").is_ok() {}
        std::fs::write(&gate, "").unwrap();
        assert_eq!(under_way.join().unwrap().unwrap(), "unblocked");
        closing.join().unwrap().unwrap();
    });
    good_goes_on();
}

#[test]
fn an_instance_that_nobody_closes_is_destroyed_when_it_is_dropped() {
    let hostile = Hostile::new("asks", "dropped");
    drop(hostile.start().unwrap());
    // Its `destroy` asks something, and logs the answer.
    while !logged("dropped").iter().any(|line| line.contains("-7 to 9")) {
        std::thread::yield_now();
    }
    good_goes_on();
}

/// Threads enter, also from inside, until the moment when the instance is destroyed and its memory is given back. A
/// function that began after that would use memory that is gone.
#[test]
fn nothing_enters_after_destroy() {
    let hostile = Hostile::new("good", "hostile");
    for _ in 0..50 {
        let instance = hostile.start().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while let Ok(answer) = echo(&instance, "x") {
                        assert_eq!(answer, "x");
                        let _ = crate::kit::count(&instance);
                    }
                });
            }
            std::thread::yield_now();
            close(&instance).unwrap();
        });
    }
    good_goes_on();
}
