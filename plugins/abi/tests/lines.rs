//! Lines, with bodies that nobody thought of.
#![allow(missing_docs)]

use std::borrow::Cow;

use fmail_abi::Verb;
use proptest::prelude::*;
use serde_json::Value;

/// Any JSON of a few levels.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC*".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("\\PC*", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn there_and_back(body: &[u8]) -> Vec<u8> {
    let line = Verb::Done { id: 7, status: -3, body: Cow::Borrowed(body) }.to_line().unwrap();
    assert!(!line.contains(['\n', '\r']), "{line:?}");
    match Verb::parse(&line).unwrap() {
        Verb::Done { id: 7, status: -3, body } => body.into_owned(),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn any_json_comes_through_on_one_line(value in json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let back: Value = serde_json::from_slice(&there_and_back(text.as_bytes())).unwrap();
        prop_assert_eq!(back, value);
    }

    #[test]
    fn any_text_comes_through_byte_for_byte(text in "[^{\\[]\\PC*|[0-9]+ [\\s\\S]*") {
        prop_assume!(!text.trim_ascii_start().starts_with(['{', '[']));
        prop_assert_eq!(there_and_back(text.as_bytes()), text.into_bytes());
    }

    #[test]
    fn no_line_makes_the_reader_fail_otherwise_than_with_a_reason(line in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = Verb::from_bytes(&line) {
            prop_assert!(!error.message().is_empty());
        }
    }

    #[test]
    fn broken_lines_are_no_danger(at in 0_usize..90, byte in any::<u8>()) {
        let mut line = br#"{"call":7,"method":"append","context":{"deadline_ms":5},"request":"1 text","n":4,"x":[{}]}"#.to_vec();
        let at = at % line.len();
        line[at] = byte;
        let _ = Verb::from_bytes(&line);
    }
}
