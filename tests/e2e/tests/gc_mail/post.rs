//! The mail of a project, as a caller of the script sees it.

use std::collections::BTreeSet;

use fmail_e2e::{Daemon, Fmail, Output, Sandbox, gc_mail_binary};
use serde_json::{Value, json};

/// A store, and whether a daemon runs.
pub struct Setup {
    pub name: &'static str,
    pub served: bool,
    store: Option<&'static str>,
}

pub const SETUPS: &[Setup] = &[
    Setup { name: "files", served: false, store: None },
    Setup { name: "sqlite", served: false, store: Some("sqlite") },
    Setup { name: "files_through_forged", served: true, store: None },
    Setup { name: "sqlite_through_forged", served: true, store: Some("sqlite") },
    Setup { name: "memory_in_forged", served: true, store: Some("memory") },
];

/// No message has this id, which is well formed.
pub const UNKNOWN: &str = "20200101-000000-0000";

/// What callers tell an unknown message by.
pub const NOT_FOUND: &str = "gc-mail-error:not-found";

/// An empty project; its daemon, if it has one, ends with it.
pub struct Post {
    pub sandbox: Sandbox,
    pub daemon: Option<Daemon>,
    setup: &'static Setup,
}

impl Post {
    pub fn open(setup: &'static Setup) -> Post {
        let sandbox = Sandbox::new();
        if let Some(store) = setup.store {
            sandbox.configure(&format!("store = {store:?}"), "");
        }
        let daemon = setup.served.then(|| Daemon::start(&sandbox));
        Post { sandbox, daemon, setup }
    }

    /// The set-up of this name.
    pub fn named(name: &str) -> Post {
        Post::open(SETUPS.iter().find(|setup| setup.name == name).expect("a set-up of this name"))
    }

    /// Whether the store lives in the daemon's process.
    pub fn is_in_forged(&self) -> bool {
        self.setup.store == Some("memory")
    }

    /// A call of the script, not started yet.
    pub fn script<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Fmail {
        self.sandbox.command(gc_mail_binary()).args(args)
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.script(args).run()
    }

    /// The JSON that a caller makes of a success. No output is nothing, and only that: `[]` would be taken for something else.
    #[track_caller]
    fn json(&self, args: &[&str], output: &Output) -> Option<Value> {
        assert_eq!(output.code, 0, "{args:?}\n{output}");
        let text = output.stdout.trim_end_matches('\n');
        if text.is_empty() {
            return None;
        }
        Some(serde_json::from_str(text).unwrap_or_else(|error| panic!("{args:?}: {error}\n{output}")))
    }

    #[track_caller]
    fn written(&self, args: &[&str], from: &str, subject: &str, body: &str) -> Value {
        let input = json!({"from": from, "subject": subject, "body": body}).to_string();
        let output = self.script(args).stdin(input).run();
        well_formed(self.json(args, &output).unwrap_or_else(|| panic!("{args:?} printed nothing\n{output}")))
    }

    #[track_caller]
    pub fn send(&self, from: &str, to: &str, subject: &str, body: &str) -> Value {
        self.written(&["send", to], from, subject, body)
    }

    /// Sends `hello` from alice to bob; the id.
    #[track_caller]
    pub fn hello(&self) -> String {
        id(&self.send("alice", "bob", "greeting", "hello"))
    }

    #[track_caller]
    pub fn reply(&self, above: &str, from: &str, subject: &str, body: &str) -> Value {
        self.written(&["reply", above], from, subject, body)
    }

    /// What prints one message.
    #[track_caller]
    pub fn one(&self, operation: &str, argument: &str) -> Value {
        let args = [operation, argument];
        let output = self.run(&args);
        well_formed(self.json(&args, &output).unwrap_or_else(|| panic!("{args:?} printed nothing\n{output}")))
    }

    /// What prints a list.
    #[track_caller]
    pub fn list(&self, operation: &str, argument: &str) -> Vec<Value> {
        let args = [operation, argument];
        let output = self.run(&args);
        match self.json(&args, &output) {
            None => Vec::new(),
            Some(Value::Array(list)) if !list.is_empty() => list.into_iter().map(well_formed).collect(),
            Some(other) => panic!("{args:?} printed {other}"),
        }
    }

    /// The ids of what is printed.
    #[track_caller]
    pub fn ids(&self, operation: &str, argument: &str) -> Vec<String> {
        self.list(operation, argument).iter().map(id).collect()
    }

    /// `(total, unread)`.
    #[track_caller]
    pub fn count(&self, recipient: &str) -> (u64, u64) {
        let args = ["count", recipient];
        let count = self.json(&args, &self.run(&args)).expect("a count");
        (count["total"].as_u64().expect("a number"), count["unread"].as_u64().expect("a number"))
    }

    /// What changes something and prints nothing.
    #[track_caller]
    pub fn done(&self, operation: &str, argument: &str) {
        let output = self.run(&[operation, argument]);
        assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{operation} {argument}\n{output}");
    }

    /// What fails: with 1, a reason, and no data.
    #[track_caller]
    pub fn fails(&self, args: &[&str]) -> Output {
        refused(args, self.script(args).stdin(r#"{"from":"alice","subject":"s","body":"b"}"#).run())
    }

    /// What fails because there is no such message.
    #[track_caller]
    pub fn has_no_message(&self, operation: &str, id: &str) {
        let output = self.fails(&[operation, id]);
        assert!(output.stderr.lines().any(|line| line == NOT_FOUND), "{operation} {id}\n{output}");
        assert!(!output.stderr.contains("already archived"), "{operation} {id}\n{output}");
    }

    /// What fails because it was done before.
    #[track_caller]
    pub fn is_archived_already(&self, operation: &str, id: &str) {
        let output = self.fails(&[operation, id]);
        assert!(output.stderr.contains("already archived"), "{operation} {id}\n{output}");
        assert!(!output.stderr.contains(NOT_FOUND), "{operation} {id}\n{output}");
    }

    /// A command of fmail's own.
    #[track_caller]
    pub fn fmail(&self, agent: &str, args: &[&str]) -> Output {
        self.sandbox.agent(agent).args(args).ok()
    }
}

/// A call that failed as it should: callers take 2 for a success, and standard output for data.
#[track_caller]
pub fn refused(args: &[&str], output: Output) -> Output {
    assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{args:?}\n{output}");
    assert!(output.stderr.starts_with("fmail: "), "{args:?}\n{output}");
    output
}

/// The id of a message.
pub fn id(message: &Value) -> String {
    message["id"].as_str().expect("a message has an id").to_string()
}

/// A message has the seven fields that are always there, and beside them none that says nothing.
#[track_caller]
fn well_formed(message: Value) -> Value {
    let fields = message.as_object().unwrap_or_else(|| panic!("{message} is not a message"));
    let texts = ["id", "from", "to", "subject", "body", "created_at"];
    for name in texts {
        assert!(fields.get(name).is_some_and(Value::is_string), "`{name}` in {message}");
    }
    assert!(fields.get("read").is_some_and(Value::is_boolean), "`read` in {message}");
    assert!(!fields["id"].as_str().unwrap_or_default().is_empty(), "{message}");
    let always: BTreeSet<&str> = texts.into_iter().chain(["read"]).collect();
    for (name, value) in fields.iter().filter(|(name, _)| !always.contains(name.as_str())) {
        let says = match name.as_str() {
            "thread_id" | "reply_to" => value.as_str().is_some_and(|text| !text.is_empty()),
            "priority" => value.as_i64().is_some_and(|number| number != 0),
            "cc" => value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_string)),
            _ => false,
        };
        assert!(says, "`{name}` in {message}");
    }
    message
}
