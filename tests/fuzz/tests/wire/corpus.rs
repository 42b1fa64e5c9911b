//! The lines to start from are good ones, and none is missing.

use std::collections::BTreeSet;

use fmail_transports::wire::{heard, parse};

#[test]
fn every_command_of_the_parser_is_in_the_corpus_and_valid() {
    let mut commands = BTreeSet::new();
    for line in fmail_fuzz::requests() {
        parse(line.as_bytes()).call.unwrap_or_else(|error| panic!("{line}: {error}"));
        let fields: serde_json::Value = serde_json::from_str(line).unwrap();
        commands.insert(fields["cmd"].as_str().unwrap().to_owned());
    }
    let understood = |command: &str| {
        let answer = parse(format!(r#"{{"cmd":"{command}","agent":"a"}}"#).as_bytes()).call;
        !answer.is_err_and(|error| error.message().starts_with("unknown command"))
    };
    let expected: BTreeSet<String> = fmail_api::Operation::ALL
        .iter()
        .map(|operation| operation.as_str().to_owned())
        .filter(|command| understood(command))
        .collect();
    assert!(expected.len() >= 10, "{expected:?}");
    assert_eq!(commands, expected);
}

#[test]
fn every_answer_of_the_corpus_is_understood() {
    for line in fmail_fuzz::answers() {
        heard(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}
