//! docs/plugins/abi.md says what the code does: every example is read by the types that the host uses.

use fmail_api::verbs::{
    self, AppendAnswer, CountVerb, DeleteVerb, FindRequest, GetAnswer, GetVerb, InboxVerb, ListItem, ListVerb,
    MailItem, MailVerb, MarkAnswer, MarkVerb, ProjectsAnswer, ProjectsRequest, PutAnswer, PutVerb, ScanHead,
    ThreadVerb, WatchVerb, method,
};
use fmail_api::{
    Draft, Error, Health, HostedProject, Imported, MailCount, Message, Query, RelayStatus, Removed, Selection, Summary,
};
use fmail_host::plugin::{Role, Surroundings};
use fmail_host::{Capability, Manifest};
use fmail_transports::wire;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const DOCUMENT: &str = include_str!("../../docs/plugins/abi.md");

/// The examples: what each is, and its text. Every block of JSON says what it is.
fn examples() -> Vec<(&'static str, &'static str)> {
    let blocks = DOCUMENT.split("\n```json").skip(1);
    let parts = blocks.map(|block| block.split("\n```").next().unwrap().split_once('\n').unwrap());
    parts.map(|(what, text)| (what.trim(), text)).collect()
}

/// What the host makes of an example, as JSON again; nothing for what it never reads.
fn read(what: &str, text: &str) -> Option<Value> {
    fn back<T: DeserializeOwned + Serialize>(text: &str) -> Option<Value> {
        let read: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"));
        Some(serde_json::to_value(read).unwrap())
    }
    match what {
        "append.request" => back::<Draft>(text),
        "append.answer" => back::<AppendAnswer>(text),
        "import.request" => back::<Message>(text),
        "import.answer" => back::<Imported>(text),
        "scan.request" => back::<Query>(text),
        "scan.head" => back::<ScanHead>(text),
        "watch.request" => back::<WatchVerb>(text),
        "summary.answer" => back::<Summary>(text),
        "remove.request" => back::<Selection>(text),
        "remove.item" => back::<Removed>(text),
        "get.request" => back::<GetVerb>(text),
        "get.answer" => back::<GetAnswer>(text),
        "put.request" => back::<PutVerb>(text),
        "put.answer" => back::<PutAnswer>(text),
        "list.request" => back::<ListVerb>(text),
        "list.item" => back::<ListItem>(text),
        "delete.request" => back::<DeleteVerb>(text),
        "health.answer" => back::<Health>(text),
        "mail_inbox.request" => back::<InboxVerb>(text),
        "mail" => back::<MailItem>(text),
        "mail_peek.request" => back::<MailVerb>(text),
        "mail_mark.request" => back::<MarkVerb>(text),
        "mail_mark.answer" => back::<MarkAnswer>(text),
        "mail_count.request" => back::<CountVerb>(text),
        "mail_count.answer" => back::<MailCount>(text),
        "mail_thread.request" => back::<ThreadVerb>(text),
        "run.item" => back::<RelayStatus>(text),
        "error" => back::<Error>(text),
        "event" => {
            let event = verbs::event_from_json(text.as_bytes()).unwrap_or_else(|error| panic!("{error} in {text}"));
            Some(serde_json::from_str(&verbs::event_json(&event).unwrap()).unwrap())
        }
        "manifest" => {
            let manifest = Manifest::parse(text, "abi.md").unwrap();
            assert_eq!(manifest.max_message_bytes, Some(1 << 20));
            None
        }
        "request.request" => {
            wire::parse(text.as_bytes()).call.unwrap();
            None
        }
        "envelope" => Some(envelope()),
        "projects.request" => back::<ProjectsRequest>(text),
        "projects.answer" => back::<ProjectsAnswer>(text),
        "find.request" => back::<FindRequest>(text),
        "find.answer" => back::<HostedProject>(text),
        "context" | "request.context" | "serve.head" => {
            serde_json::from_str::<Value>(text).unwrap();
            None
        }
        other => panic!("nobody knows what the example `{other}` is"),
    }
}

/// The envelope that the host makes in the case of the example.
fn envelope() -> Value {
    let surroundings = Surroundings {
        role: Role::Store,
        project: Some(("proj-abc123".into(), "/home/ann/app".into())),
        node: "laptop".into(),
        data_dir: "/home/ann/app/.fmail/plugins/archive".into(),
        max_message_bytes: Some(1 << 20),
    };
    let text = surroundings.envelope("archive", &json!({"path": "/var/lib/archive", "pool": 4}));
    serde_json::from_slice(&text).unwrap()
}

/// Whether everything that the example says was understood: a name that is misspelt is lost on the way.
fn is_within(example: &Value, read: &Value) -> bool {
    match (example, read) {
        (Value::Object(example), Value::Object(read)) => example.iter().all(|(key, value)| match read.get(key) {
            Some(other) => is_within(value, other),
            None => [json!(null), json!([]), json!(false)].contains(value),
        }),
        (Value::Array(example), Value::Array(read)) => {
            example.len() == read.len() && example.iter().zip(read).all(|(example, read)| is_within(example, read))
        }
        (example, read) => example == read,
    }
}

#[test]
fn every_example_is_what_it_says() {
    let examples = examples();
    assert!(examples.len() > 30, "only {} examples were found", examples.len());
    for (what, text) in examples {
        if let Some(read) = read(what, text) {
            let example: Value = serde_json::from_str(text).unwrap();
            assert!(is_within(&example, &read), "of the example `{what}`\n{example}\nthis was understood:\n{read}");
        }
    }
}

#[test]
fn a_misspelt_field_is_noticed() {
    let example = json!({"prefx": "agents"});
    assert!(!is_within(&example, &read("list.request", &example.to_string()).unwrap()));
}

#[test]
fn every_method_and_every_capability_is_told() {
    let methods = [
        method::APPEND,
        method::IMPORT,
        method::SCAN,
        method::WATCH,
        method::SUMMARY,
        method::REMOVE,
        method::GET,
        method::PUT,
        method::LIST,
        method::DELETE,
        method::HEALTH,
        method::MAIL_INBOX,
        method::MAIL_PEEK,
        method::MAIL_READ,
        method::MAIL_MARK,
        method::MAIL_COUNT,
        method::MAIL_THREAD,
        method::READ,
        method::DROP,
        method::SERVE,
        method::RUN,
        method::SHUTDOWN,
        method::REQUEST,
        method::PROJECTS,
    ];
    for method in methods {
        assert!(DOCUMENT.contains(&format!("| `{method}` |")), "no table has the method `{method}`");
    }
    for capability in Capability::ALL {
        let word = capability.word();
        let short = word.strip_prefix("filter").unwrap_or(word);
        let told = [word, short].iter().any(|word| DOCUMENT.contains(&format!("`{word}`")));
        assert!(told, "the capability `{word}` is not told");
    }
}
