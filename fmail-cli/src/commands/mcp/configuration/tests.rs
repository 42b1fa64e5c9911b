//! Changes of generated configurations, undone.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::servers::Servers;
use crate::inject::HookAgent;

const AGENTS: [HookAgent; 3] = [HookAgent::Claude, HookAgent::Codex, HookAgent::Gemini];

fn entry() -> Map<String, Value> {
    json!({"command": "fmail", "args": ["mcp", "serve", "--stdio"]}).as_object().unwrap().clone()
}

/// Blanks between the parts of a JSON file, with a comment where the agent allows one.
fn trivia() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(""),
        2 => Just(" "),
        3 => Just("\n  "),
        1 => Just("\r\n\t"),
        1 => Just(" /* a, comment } */ "),
        1 => Just(" // to the end \" of the line\n"),
    ]
    .prop_map(String::from)
}

fn object(members: Vec<(String, String, String)>, inner: String) -> String {
    let members: Vec<String> =
        members.into_iter().map(|(before, member, after)| format!("{before}{member}{after}")).collect();
    if members.is_empty() { format!("{{{inner}}}") } else { format!("{{{}}}", members.join(",")) }
}

fn json_settings() -> impl Strategy<Value = String> {
    let server = prop_oneof![
        Just(r#""other": {"command": "x", "args": ["}"]}"#),
        Just("\"a/b\":{ \"url\" : \"http://x\"\n}"),
        Just(r#""fmail2": {}"#)
    ];
    let servers = (
        prop::sample::subsequence(vec![0usize, 1, 2], 0..=3),
        prop::collection::vec((trivia(), server, trivia()), 3),
        trivia(),
    );
    let servers = servers.prop_map(|(chosen, parts, inner)| {
        let mut names = std::collections::BTreeSet::new();
        let parts = chosen.into_iter().map(|place| parts[place].clone());
        let parts = parts.map(|(before, part, after)| (before, part.to_string(), after));
        object(parts.filter(|(_, part, _)| names.insert(part.clone())).collect(), inner)
    });
    let others = prop::collection::vec(
        (trivia(), prop_oneof![Just("true"), Just("[1.50, {}]"), Just("\"mcpServers\"")], trivia()),
        0..3,
    );
    (others, prop::option::of(servers), any::<prop::sample::Index>(), trivia(), trivia()).prop_map(
        |(others, servers, place, inner, end)| {
            let mut members: Vec<(String, String, String)> = others
                .into_iter()
                .enumerate()
                .map(|(number, (before, value, after))| (before, format!("\"key{number}\" : {value}"), after))
                .collect();
            if let Some(servers) = servers {
                members.insert(
                    place.index(members.len() + 1),
                    ("\n".into(), format!("\"mcpServers\": {servers}"), String::new()),
                );
            }
            format!("{}{end}", object(members, inner))
        },
    )
}

fn toml_settings() -> impl Strategy<Value = String> {
    let line = prop_oneof![Just("# a comment [with] brackets\n"), Just("\n"), Just("  \n"), Just("\r\n"),];
    let table = prop_oneof![
        Just("[profiles.a]\nmodel = \"x\" # [y]\n"),
        Just("[mcp_servers.other]\ncommand = \"x\"\nargs = [\n  \"[mcp_servers.fmail]\", # one\n]\n"),
        Just("[[hooks]]\nevent = '''\n[mcp_servers.fmail]\n'''\n"),
        Just("[projects.\"/a.b\"]\ntrust_level = \"trusted\"\r\n"),
        Just("[mcp_servers.\"fmail.x\"]\nurl = \"\"\"\\\"\"\"\"\n"),
    ];
    let tables = prop::sample::subsequence(vec![0usize, 1, 2, 3, 4], 0..=5);
    (any::<bool>(), tables, prop::collection::vec((line, table), 5), prop_oneof![Just(""), Just("\n"), Just("# end")])
        .prop_map(|(begins, chosen, parts, end)| {
            let mut text =
                if begins { "model = \"o\"\nmulti = \"\"\"a\n[b]\n\"\"\"\n".to_string() } else { String::new() };
            let mut seen = std::collections::BTreeSet::new();
            for place in chosen {
                let (line, table) = parts[place];
                if seen.insert(table) {
                    text.push_str(line);
                    text.push_str(table);
                }
            }
            text + end
        })
}

fn cases() -> impl Strategy<Value = (HookAgent, String)> {
    (0usize..3, json_settings(), toml_settings()).prop_map(|(agent, json, toml)| {
        let agent = AGENTS[agent];
        (agent, if agent == HookAgent::Codex { toml } else { json })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_installed_is_undone_to_the_byte((agent, text) in cases()) {
        let Ok(before) = Servers::parse(agent, text.clone()) else {
            // Comments, where the agent has none.
            prop_assert!(agent == HookAgent::Claude && (text.contains("/*") || text.contains("//")), "{text}");
            return Ok(());
        };
        let (new, traces) = before.with("fmail", &entry()).unwrap();
        let installed = Servers::parse(agent, new).unwrap();
        prop_assert_eq!(installed.get("fmail"), Some(Value::Object(entry())));
        for other in ["other", "a/b", "fmail2", "fmail.x"] {
            prop_assert_eq!(installed.get(other), before.get(other));
        }
        prop_assert_eq!(&installed.without("fmail", Some(&traces)).unwrap(), &text);
        // Without the record, what was empty may go; nothing else does.
        let left = Servers::parse(agent, installed.without("fmail", None).unwrap()).unwrap();
        prop_assert_eq!(left.get("fmail"), None);
        for other in ["other", "a/b", "fmail2", "fmail.x"] {
            prop_assert_eq!(left.get(other), before.get(other));
        }
    }
}
