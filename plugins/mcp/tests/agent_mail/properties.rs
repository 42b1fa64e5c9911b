//! Whatever is said, the answer is one of JSON-RPC and nothing panics.

use std::collections::BTreeMap;

use fmail_mcp::Outcome;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::client::{Client, PROJECT};

/// Values that arguments may have, and should not have.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number)),
        ".{0,40}".prop_map(Value::from),
        proptest::sample::select(vec![
            PROJECT,
            "GreenDog",
            "bluemountain",
            "@RedForest",
            "all",
            "/",
            "..",
            "20260110-153000-0042",
            "0",
            "-1",
            "\0",
            "2026-01-10T15:30:00Z",
            "src/**",
            "[",
            "\"open",
            "resource://inbox/GreenDog",
            "data-projects-brenner-bot",
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(".{0,10}", inner, 0..4)
                .prop_map(|fields: BTreeMap<String, Value>| fields.into_iter().collect()),
        ]
    })
}

/// A call of a tool with arguments that have its names, and some that have not.
fn calls() -> impl Strategy<Value = (String, Value)> {
    let tools = Client::in_memory().request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    proptest::sample::select(tools).prop_flat_map(|tool| {
        let names: Vec<String> = tool["inputSchema"]["properties"].as_object().unwrap().keys().cloned().collect();
        let good = |name: &str| match name {
            "project_key" | "human_key" => Some(json!(PROJECT)),
            "agent_name" | "sender_name" => Some(json!("GreenDog")),
            "timeout_seconds" => Some(json!(0)),
            _ => None,
        };
        let arguments: Vec<_> = names
            .iter()
            .map(|name| match good(name) {
                // Most calls should get past the first check; none should wait.
                Some(good) if name == "timeout_seconds" => Just(Some(good)).boxed(),
                Some(good) => prop_oneof![9 => Just(Some(good)), 1 => values().prop_map(Some)].boxed(),
                None => proptest::option::of(values()).boxed(),
            })
            .collect();
        let name = tool["name"].as_str().unwrap().to_string();
        (arguments, proptest::option::weighted(0.1, (".{1,12}", values()))).prop_map(move |(given, more)| {
            let fields = names.iter().cloned().zip(given).filter_map(|(name, value)| Some((name, value?)));
            (name.clone(), fields.chain(more).collect::<serde_json::Map<_, _>>().into())
        })
    })
}

fn check(answer: &Value, id: &Value) -> Result<(), TestCaseError> {
    prop_assert_eq!(&answer["jsonrpc"], "2.0");
    prop_assert_eq!(&answer["id"], id);
    let fields = answer.as_object().unwrap();
    prop_assert!(fields.contains_key("result") != fields.contains_key("error"), "{}", answer);
    if let Some(error) = fields.get("error") {
        prop_assert!(error["code"].is_i64() && error["message"].is_string(), "{}", answer);
    }
    prop_assert!(answer.to_string().len() < 200_000, "an answer stays small");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_arguments_break_a_tool(calls in proptest::collection::vec(calls(), 1..6)) {
        let client = Client::with_agents();
        for (tool, arguments) in calls {
            let answer = client.request("tools/call", json!({"name": tool, "arguments": arguments}));
            check(&answer, &json!("1f0e-uuid"))?;
            let result = &answer["result"];
            prop_assert!(result["isError"].is_boolean() && result["structuredContent"].is_object(), "{}", answer);
            prop_assert!(result["content"][0]["text"].as_str().is_some_and(|text| !text.is_empty()), "{}", answer);
        }
    }

    #[test]
    fn no_address_breaks_a_resource(uri in prop_oneof![
        ".{0,60}",
        "resource://(inbox|thread|agents|x)(/[%A-Za-z0-9/@+é]{0,20})?(\\?(project|limit|since_ts|include_bodies)=[%A-Za-z0-9/+-]{0,20}(&.{0,10})?)?",
    ]) {
        let client = Client::with_agents();
        check(&client.request("resources/read", json!({"uri": uri})), &json!("1f0e-uuid"))?;
    }

    #[test]
    fn no_message_breaks_the_server(
        id in values(), method in prop_oneof!["[a-z/]{0,20}", Just("tools/call".to_string()), Just("resources/subscribe".to_string())],
        params in values(), more in values(),
    ) {
        let client = Client::in_memory();
        for message in [json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}), more] {
            match client.handle(message.clone()) {
                Outcome::Accepted | Outcome::Stream(_) => {}
                Outcome::Answer(answer) => {
                    let asked = message.get("id").filter(|id| id.is_string() || id.is_number()).unwrap_or(&Value::Null);
                    check(&answer, asked)?;
                }
            }
        }
    }
}
