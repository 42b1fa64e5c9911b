//! Instances that are never ready.

use std::time::{Duration, Instant};

use fmail_api::ErrorKind;
use futures::executor::block_on;

use crate::kit::{Hostile, close, echo, good_goes_on};

#[test]
fn config_refused_by_the_schema() {
    let hostile = Hostile::with("good", "hostile", "[mail.plugin.hostile.config]\ndepth = 12\ncolour = \"red\"\n");
    let Err(error) = hostile.start() else { panic!("a depth of 12 was accepted") };
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    for part in ["config.toml:5", "mail.plugin.hostile.config.depth", "9", "config.toml:6", "colour"] {
        assert!(format!("{error:?}").contains(part), "`{part}` is not in: {error:?}");
    }
    good_goes_on();
}

#[test]
fn config_refused_by_the_plugin() {
    let hostile = Hostile::with("create_refuses", "hostile", "config.depth = 4\n");
    let error = hostile.refused(hostile.start(), &["`create`", "depth is not prime", "help: take 2, 3, 5 or 7"]);
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

/// The pointer that it returned is dead: neither `destroy` nor anything else is called with it.
#[test]
fn create_fails() {
    let hostile = Hostile::new("create_fails", "hostile");
    let error = hostile.refused(hostile.start(), &["the plugin `hostile`, `create`", "the disk is full"]);
    assert!(error.kind() == ErrorKind::Unavailable && error.retryable());
}

#[test]
fn create_panics() {
    let hostile = Hostile::new("create_panics", "hostile");
    let error = hostile.refused(hostile.start(), &["`create`", "no reason was given", "its log says where"]);
    assert_eq!(error.kind(), ErrorKind::Internal);
}

#[test]
fn create_answers_with_a_status_that_does_not_exist() {
    let hostile = Hostile::new("create_odd_status", "hostile");
    hostile
        .refused(hostile.start(), &["`create`", "expected the status 0 or one of -1 to -9, got 42", "tell its author"]);
}

#[test]
fn create_never_answers() {
    let hostile = Hostile::with("create_silent", "hostile", "timeout = \"300ms\"\n");
    let started = Instant::now();
    let error =
        hostile.refused(hostile.start(), &["`create`", "no answer within 300ms", "mail.plugin.hostile.timeout"]);
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(started.elapsed() >= Duration::from_millis(300));
}

#[test]
fn create_answers_and_never_returns() {
    let hostile = Hostile::with("create_blocks", "hostile", "timeout = \"300ms\"\n");
    hostile.refused(hostile.start(), &["no answer within 300ms: has not returned from `create` for 0."]);
}

#[test]
fn what_an_instance_says_that_was_given_up_has_no_effect() {
    let hostile = Hostile::with("create_late", "hostile", "timeout = \"2s\"\n");
    hostile.refused(hostile.start(), &["no answer within 2s"]);
    // Makes the first instance answer its creation, and call the host.
    let second = hostile.start().unwrap();
    assert_eq!(echo(&second, "x").unwrap(), "x");
    close(&second).unwrap();
    good_goes_on();
}

#[test]
fn create_answers_twice() {
    let hostile = Hostile::new("create_twice", "hostile");
    let instance = hostile.start().unwrap();
    // Counted by the thread that makes the instance, which may still be about to.
    while instance.counters().late < 1 {
        std::thread::yield_now();
    }
    assert_eq!(echo(&instance, "x").unwrap(), "x");
    assert_eq!(close(&instance).unwrap().late, 2);
    good_goes_on();
}

/// Whoever waits for an instance may lose patience before it does.
#[test]
fn an_instance_that_is_no_longer_wanted_while_it_is_made_is_given_up() {
    let hostile = Hostile::new("create_late", "unwanted");
    let (plugin, surroundings) = (hostile.open().unwrap(), hostile.surroundings());
    let mut starting = Box::pin(plugin.instance(&surroundings, None));
    block_on(async { assert!(futures::poll!(&mut starting).is_pending()) });
    drop(starting);
    // Makes the first one answer after all.
    let second = hostile.start().unwrap();
    assert_eq!(echo(&second, "x").unwrap(), "x");
    close(&second).unwrap();
    good_goes_on();
}
