//! What upstream answered, compared with what we answer to the same request, field by field.
//!
//! `samples.json` holds the requests and the shapes of the answers of a running upstream server. Every difference stands
//! with its reason in a table of docs/mcp-differences.md, and in no other place: the tests read it there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::client::{Client, PROJECT};
use crate::shape::{Difference, Shape};

const SAMPLES: &str = include_str!("samples.json");
const DOCUMENT: &str = include_str!("../../../../docs/mcp-differences.md");

const BODY: &str = "# Research Session\n\n- ACTION: BlueMountain to propose three hypotheses\n- TODO: RedForest design tests\n\
                    1. First key point\n2. Second key point\n";

/// The differences of each sample, as the document has them: `| sample, … | field | missing, added or type | reason |`.
fn documented() -> BTreeMap<String, BTreeSet<Difference>> {
    let mut documented: BTreeMap<String, BTreeSet<Difference>> = BTreeMap::new();
    let table = DOCUMENT.split_once("<!-- samples -->").and_then(|(_, rest)| rest.split_once("<!-- /samples -->"));
    let (table, _) = table.expect("the document has the table of the samples");
    for line in
        table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| sample") && !line.starts_with("|--"))
    {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [samples, fields, how, reason] = cells.as_slice() else { panic!("a row has four cells: {line}") };
        assert!(reason.len() > 10, "a difference has a reason: {line}");
        for sample in samples.split(',').map(str::trim) {
            for field in fields.split(',').map(|field| field.trim().trim_matches('`').to_string()) {
                let difference = match *how {
                    "missing" => Difference::Missing(field),
                    "added" => Difference::Added(field),
                    "type" => Difference::Type(field),
                    other => panic!("`{other}` is no kind of difference: {line}"),
                };
                assert!(documented.entry(sample.into()).or_default().insert(difference), "twice: {line}");
            }
        }
    }
    documented
}

/// A server in the state in which upstream was asked.
fn prepared() -> (Client, Value) {
    let client = Client::with_agents();
    let first = client.send(
        &["BlueMountain", "RedForest"],
        "KICKOFF: Cell fate investigation",
        BODY,
        json!({"thread_id": "RS-20251230-cell-fate", "ack_required": true}),
    );
    client.send(
        &["BlueMountain"],
        "INFO: high",
        "a hypothesis slate",
        json!({"importance": "high", "cc": ["RedForest"]}),
    );
    client.send(&["BlueMountain"], "", "no title", json!({"thread_id": "RS-20251230-cell-fate", "ack_required": true}));
    (client, first["id"].clone())
}

/// What stands in a result, once: the text of a tool's answer repeats its object.
fn told(mut answer: Value) -> Value {
    let answer = answer.as_object_mut().unwrap();
    answer.remove("jsonrpc");
    answer.remove("id");
    Value::Object(answer.clone())
}

#[test]
fn every_sample_is_answered_alike_but_for_what_the_document_lists() {
    let samples: Vec<Value> = serde_json::from_str(SAMPLES).unwrap();
    assert_eq!(samples.len(), 22);
    let (client, first) = prepared();
    let mut found: BTreeMap<String, BTreeSet<Difference>> = BTreeMap::new();
    for sample in &samples {
        let mut params = sample["params"].clone();
        if params["arguments"].get("message_id").is_some() {
            params["arguments"]["message_id"] = first.clone();
        }
        let answer = told(client.request(sample["method"].as_str().unwrap(), params));
        let upstream = Shape::spelled(&sample["answer"]);
        let differences = upstream.differences(&Shape::of(&answer));
        // A tool's text is its object once more; a difference is listed once.
        let differences: BTreeSet<Difference> = differences.into_iter().map(without_repetition).collect();
        if !differences.is_empty() {
            found.entry(sample["sample"].as_str().unwrap().into()).or_default().extend(differences);
        }
    }
    let documented = documented();
    for (sample, differences) in &found {
        let listed = documented.get(sample).cloned().unwrap_or_default();
        let unlisted: Vec<_> = differences.difference(&listed).collect();
        assert!(unlisted.is_empty(), "{sample}: not in docs/mcp-differences.md: {unlisted:#?}");
    }
    for (sample, listed) in &documented {
        let there = found.get(sample).cloned().unwrap_or_default();
        let gone: Vec<_> = listed.difference(&there).collect();
        assert!(gone.is_empty(), "{sample}: in docs/mcp-differences.md, but not so: {gone:#?}");
    }
}

fn without_repetition(difference: Difference) -> Difference {
    let short = |path: String| {
        let path = path.replace("result.content[].text", "").replace("result.structuredContent", "");
        let path = path.replace("result.contents[].text", "");
        let path = path.trim_start_matches('.');
        // A list is the text itself, and stands in `result` in the object.
        if let Some(row) = path.strip_prefix("[]") { format!("result[]{row}") } else { path.to_string() }
    };
    match difference {
        Difference::Missing(path) => Difference::Missing(short(path)),
        Difference::Added(path) if path == "result.structuredContent" => Difference::Added("structuredContent".into()),
        Difference::Added(path) => Difference::Added(short(path)),
        Difference::Type(path) => Difference::Type(short(path)),
    }
}

#[test]
fn what_upstream_says_of_the_same_messages_we_say_too() {
    let (client, _) = prepared();
    let summary =
        client.call("summarize_thread", json!({"project_key": PROJECT, "thread_id": "RS-20251230-cell-fate"}));
    assert_eq!(
        summary["summary"]["key_points"],
        json!([
            "ACTION: BlueMountain to propose three hypotheses",
            "TODO: RedForest design tests",
            "1. First key point",
            "2. Second key point"
        ])
    );
    let unknown = client.result("no_such_tool", json!({}));
    assert_eq!(unknown["content"], json!([{"type": "text", "text": "Unknown tool: no_such_tool"}]));
    let nowhere = client.unreadable("resource://nope/x");
    assert_eq!(nowhere["message"], "Unknown resource: 'resource://nope/x'");
}
