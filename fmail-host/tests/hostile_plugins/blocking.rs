//! Plugins that block where they must not.

use std::time::{Duration, Instant};

use fmail_api::ErrorKind;
use futures::executor::block_on;

use crate::kit::{GRACE, Hostile, call, close, echo, good_goes_on, logged, says};

/// The one call that found out waits for the plugin. From then on nobody is held up: calls are entered on threads of the
/// host's own, end at their deadlines, and those that the plugin answers are answered.
#[test]
fn blocking_in_a_call() {
    let hostile = Hostile::with("blocks", "blocking", "timeout = \"2s\"\n");
    let (first, second) = (hostile.place.path("first"), hostile.place.path("second"));
    let instance = hostile.start().unwrap();
    std::thread::scope(|scope| {
        let stuck = scope.spawn(|| call(&instance, "block", first.to_str().unwrap()));
        while logged("blocking").is_empty() {
            // Each entry looks whether someone is stuck inside.
            assert_eq!(echo(&instance, "x").unwrap(), "x");
        }
        let started = Instant::now();
        let error = call(&instance, "block", second.to_str().unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        says(
            &error,
            &["`block`: no answer within 2s: has not returned from `call` for", "mail.plugin.blocking.timeout"],
        );
        assert!(started.elapsed() < GRACE, "the deadline reached the caller while the plugin still blocks");
        assert_eq!(echo(&instance, "y").unwrap(), "y", "another call overtakes those that are stuck");
        good_goes_on();
        std::fs::write(&first, "").unwrap();
        // The first one was given up by nobody, so it has the plugin's own answer.
        assert_eq!(stuck.join().unwrap().unwrap(), "unblocked");
        std::fs::write(&second, "").unwrap();
    });
    close(&instance).unwrap();
    let warnings = logged("blocking");
    assert_eq!(warnings.len(), 1, "said once: {warnings:?}");
    let parts = ["WARN", "`call` has not returned within 100 ms", "rule 5 of fmail_plugin.h"];
    assert!(parts.iter().all(|part| warnings[0].contains(part)), "{warnings:?}");
    good_goes_on();
}

/// While someone is inside, the instance cannot be destroyed: the function would find its instance gone.
#[test]
fn an_instance_is_not_destroyed_while_a_call_is_stuck_inside() {
    let hostile = Hostile::new("blocks", "stuck");
    let gate = hostile.place.path("gate");
    let instance = hostile.start().unwrap();
    std::thread::scope(|scope| {
        let stuck = scope.spawn(|| call(&instance, "block", gate.to_str().unwrap()));
        while logged("stuck").is_empty() {
            assert_eq!(echo(&instance, "x").unwrap(), "x");
        }
        let error = block_on(instance.close(Duration::from_millis(200))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        let inside = "has not ended within 200ms; has not returned from `call` for";
        says(
            &error,
            &["the plugin `stuck`, `destroy`", inside, "unanswered until it was closed: `block` for", "given up"],
        );
        says(&echo(&instance, "x").unwrap_err(), &["`echo`: the instance is closed"]);
        std::fs::write(&gate, "").unwrap();
        says(&stuck.join().unwrap().unwrap_err(), &["closed"]);
    });
    good_goes_on();
}

/// A runtime with one worker goes on while a plugin blocks, if it calls plugins as the daemon does.
#[test]
fn a_runtime_goes_on_while_a_plugin_blocks() {
    let hostile = Hostile::with("blocks", "runtime", "timeout = \"2s\"\n");
    let gate = hostile.place.path("gate");
    let instance = std::sync::Arc::new(hostile.start().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let path = gate.to_str().unwrap().to_string();
    runtime.block_on(async {
        let inside = instance.clone();
        let stuck = tokio::task::spawn_blocking(move || call(&inside, "block", &path));
        while logged("runtime").is_empty() {
            let other = instance.clone();
            let answer = tokio::task::spawn_blocking(move || echo(&other, "x")).await.unwrap();
            assert_eq!(answer.unwrap(), "x");
        }
        // It is known to block, so it can be called on a worker too.
        let path = gate.to_str().unwrap().to_string();
        let error = instance.call("block", b"", path.as_bytes()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert_eq!(&*instance.call("echo", b"", b"y").await.unwrap(), b"y");
        std::fs::write(&gate, "").unwrap();
        assert_eq!(stuck.await.unwrap().unwrap(), "unblocked");
        instance.close(GRACE).await.unwrap();
    });
    good_goes_on();
}
