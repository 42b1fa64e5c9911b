//! The examples in docs/protocol.md are what the protocol says, in both directions.

use std::collections::BTreeSet;

use fmail_api::Operation;
use fmail_transports::response;
use fmail_transports::wire::{self, Call, Heard, Style, heard, parse};
use serde_json::Value;

use crate::exchanges::context;

const DOCUMENT: &str = include_str!("../../../docs/protocol.md");

/// The operations that the document shows in a table, or leaves to PROTOCOL.md.
const WITHOUT_EXAMPLE: [Operation; 10] = [
    Operation::Hello,
    Operation::Send,
    Operation::Watch,
    Operation::Relay,
    Operation::Log,
    Operation::Topics,
    Operation::Who,
    Operation::Status,
    Operation::Gc,
    Operation::RelayStatus,
];

/// The lines of each example; in the document one may take several, to be read by people.
fn examples() -> Vec<Vec<Value>> {
    // The lines that prove a token are not requests; forged's own tests play them through.
    let blocks = DOCUMENT.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let blocks = blocks.filter(|block| !block.contains("\"nonce\"") && !block.contains("\"cmd\":\"auth\""));
    let lines = |block| serde_json::Deserializer::from_str(block).into_iter::<Value>();
    blocks
        .map(|block| lines(block).map(|line| line.unwrap_or_else(|error| panic!("{error}: {block}"))).collect())
        .collect()
}

/// What we would write for a line that we have read.
fn written(line: &Value, asked: Option<&Call>) -> String {
    match heard(line.to_string().as_bytes()).unwrap() {
        Heard::Answer(answer) => {
            let asked = asked.expect("an answer follows its request");
            let response = response(&context(), &asked.request, answer).unwrap();
            wire::answer(&response, asked.form, None, Style::Full)
        }
        Heard::Refused(error) => wire::failure(&error, None),
        Heard::Event(event) => wire::event(&event, None, Style::Full).unwrap(),
        Heard::End => wire::end(None, Style::Full),
        Heard::Other => panic!("not understood: {line}"),
    }
}

#[test]
fn every_line_is_read_and_written_as_the_document_has_it() {
    for example in examples() {
        let mut asked = None;
        for line in example {
            if line.get("cmd").is_some() {
                asked = Some(parse(line.to_string().as_bytes()).call.unwrap_or_else(|error| panic!("{line}: {error}")));
                continue;
            }
            let ours: Value = serde_json::from_str(&written(&line, asked.as_ref())).unwrap();
            assert_eq!(ours, line);
        }
    }
}

#[test]
fn every_operation_of_mailboxes_and_reservations_has_an_example_with_its_answer() {
    let shown: BTreeSet<String> = examples()
        .iter()
        .filter(|example| example.get(1).is_some_and(|answer| answer.get("ok").is_some()))
        .filter_map(|example| Some(example[0].get("cmd")?.as_str()?.to_string()))
        .collect();
    for operation in Operation::ALL {
        assert!(shown.contains(operation.as_str()) || WITHOUT_EXAMPLE.contains(operation), "{operation:?}");
    }
}
