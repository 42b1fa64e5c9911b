//! Plugins that call the host.

use std::sync::Arc;

use fmail_abi::{Answer, Service, Spawner, Work};
use fmail_host::plugin::Upward;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::kit::{Hostile, call, close, good_goes_on, logged};

/// Answers with the method and the request.
struct Repeats;

impl Service for Repeats {
    fn call(&self, method: &str, _context: &[u8], request: &[u8]) -> Work {
        let text = format!("{method} {}", String::from_utf8_lossy(request));
        let later = text.contains("later");
        let answer = async move {
            if later {
                let (send, receive) = futures::channel::oneshot::channel();
                std::thread::spawn(move || send.send(()));
                receive.await.unwrap();
            }
            Answer::ok(text.into_bytes())
        };
        Work::Answer(answer.boxed())
    }
}

struct Threads;

impl Spawner for Threads {
    fn spawn(&self, future: BoxFuture<'static, ()>) {
        std::thread::spawn(move || futures::executor::block_on(future));
    }
}

pub fn upward() -> Option<Upward> {
    Some(Upward { service: Arc::new(Repeats), spawner: Arc::new(Threads) })
}

#[test]
fn what_a_plugin_asks_is_answered_also_what_it_asked_before_it_was_ready() {
    let hostile = Hostile::new("asks", "asking");
    let instance = hostile.start_with(upward()).unwrap();
    assert_eq!(call(&instance, "ask", "now").unwrap(), "0 to 7: projects now");
    assert_eq!(call(&instance, "ask", "later").unwrap(), "0 to 7: projects later");
    let bad = call(&instance, "ask badly", "x").unwrap();
    assert!(bad.starts_with("-1 to 8: ") && bad.contains("expected the method as UTF-8"), "{bad}");
    close(&instance).unwrap();
    let log = logged("asking").join("\n");
    assert!(log.contains("0 to 1: projects early"), "{log}");
    assert!(log.contains("-7 to 9: "), "what it asks while it ends is cancelled: {log}");
    good_goes_on();
}

#[test]
fn a_plugin_that_nobody_serves_is_told_so() {
    let instance = Hostile::new("asks", "unserved").start().unwrap();
    let answer = call(&instance, "ask", "x").unwrap();
    assert_eq!(answer, "-5 to 7: the host serves no calls of this plugin");
    close(&instance).unwrap();
    let log = logged("unserved").join("\n");
    assert!(log.contains("-5 to 1: ") && log.contains("-7 to 9: the plugin's instance is closed"), "{log}");
    good_goes_on();
}
