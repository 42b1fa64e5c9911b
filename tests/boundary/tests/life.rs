//! What a library leaves behind: nothing. One test in its process, because it looks at all threads.
#![allow(missing_docs)]

use std::sync::Mutex;

use async_trait::async_trait;
use fmail_boundary::{LittleHost, Logged};
use fmail_plugin::futures::executor::block_on;
use fmail_plugin::{Health, Log, LogEntry, LogFacts, Result, tokio, tracing};
use serde_json::json;

fmail_plugin::log_store! { name: "life-test", open: |_| async { Ok(Example::default()) }, capabilities: &["shared"] }

static TABLE: fmail_plugin::__macro::FmPlugin = fmail_plugin::__macro::table::<FmailPlugin>();

#[derive(Default)]
struct Example(Mutex<Vec<LogEntry>>);

#[async_trait]
impl Log for Example {
    fn facts(&self) -> LogFacts {
        LogFacts { name: "life-test".into(), shared: true, durable: false, max_message_bytes: 1 << 20 }
    }
    async fn append(&self, at: u64, text: String) -> Result<()> {
        tracing::warn!(at, size = text.len(), "appending {text:?}");
        // Outlives the call, and must not outlive the instance.
        tokio::spawn(std::future::pending::<()>());
        self.0.lock().unwrap().push(LogEntry { position: at, text });
        Ok(())
    }
    async fn read(&self, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        Ok(self.0.lock().unwrap().iter().filter(|entry| entry.position > after).take(limit).cloned().collect())
    }
    async fn discard(&self, positions: &[u64]) -> Result<()> {
        assert!(positions.len() < 3, "too many");
        Ok(())
    }
    async fn health(&self) -> Result<Health> {
        Ok(Health { writable: true, detail: String::new() })
    }
}

/// The threads of the plugin's runtime.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "fmail-plugin").count()
}

/// Waits for threads to have their names: each sets its own when it begins.
fn expect_threads(count: usize) {
    let start = std::time::Instant::now();
    while threads() != count {
        assert!(start.elapsed().as_secs() < 10, "{} threads, {count} are expected", threads());
        std::thread::yield_now();
    }
}

#[test]
fn a_log_works_says_what_it_does_and_leaves_no_thread_behind() {
    let envelope =
        |threads: u32| json!({ "role": "store", "instance": "a", "config": { "runtime": { "threads": threads } } });
    assert_eq!(threads(), 0);
    let first = block_on(LittleHost::start(&TABLE, &envelope(2), None)).unwrap();
    let second = block_on(LittleHost::start(&TABLE, &envelope(1), None)).unwrap();
    // The instances of a library share its runtime, as the first one asked for it.
    expect_threads(2);

    let call = |host: &LittleHost, method: &str, request: &str| {
        let answer = block_on(host.call(method, request.as_bytes()));
        (answer.status, String::from_utf8(answer.body).unwrap())
    };
    assert_eq!(call(&first, "append", "1 a b"), (0, String::new()));
    assert_eq!(call(&first, "append", "2 "), (0, String::new()));
    assert_eq!(call(&first, "read", "0 10 1000"), (0, "1 a b\n2 \n".into()));
    assert_eq!(call(&first, "read", "1 10 1000"), (0, "2 \n".into()));
    assert_eq!(call(&first, "read", "2 10 1000"), (0, String::new()));
    assert_eq!(call(&first, "drop", "1 2"), (0, String::new()));
    let (status, body) = call(&first, "drop", "1 2 3");
    assert_eq!((status, &*body), (fmail_abi::status::PANIC, "panicked: too many"));
    for (method, request) in [("append", "x y"), ("read", "1 2"), ("drop", "-1"), ("append", "")] {
        let (status, body) = call(&first, method, request);
        assert_eq!(status, fmail_abi::status::INVALID, "{method} {request:?}: {body}");
    }
    assert_eq!(call(&second, "read", "0 10 1000"), (0, String::new()), "each instance is its own");

    // What the code of an instance says goes to the log of that instance.
    assert!(second.logged().is_empty());
    let logged = first.logged();
    let said = |message: &str| logged.iter().find(|logged| logged.message.starts_with(message)).cloned();
    let appending = said("appending \"a b\"").unwrap();
    let fields = r#"{"at":1,"size":3}"#.to_owned();
    assert_eq!(appending, Logged { level: 2, target: "life".into(), message: "appending \"a b\"".into(), fields });
    let panic = said("panicked at ").unwrap();
    assert!(panic.level == 1 && panic.message.contains("life.rs:") && panic.message.ends_with("too many"), "{panic:?}");

    block_on(first.end()).into_result().unwrap();
    assert_eq!(threads(), 2);
    assert_eq!(call(&second, "append", "1 c"), (0, String::new()), "the other instance goes on");
    assert_eq!(second.logged()[0].message, "appending \"c\"");
    block_on(second.end()).into_result().unwrap();
    assert_eq!(threads(), 0);
    let third = block_on(LittleHost::start(&TABLE, &envelope(1), None)).unwrap();
    expect_threads(1);
    block_on(third.end()).into_result().unwrap();
}
