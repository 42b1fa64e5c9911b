//! Changes of generated settings, undone.

use proptest::prelude::*;

use super::entries::{Entry, Settings, command, names};
use crate::inject::HookAgent;

const AGENTS: [HookAgent; 3] = [HookAgent::Claude, HookAgent::Codex, HookAgent::Gemini];

fn wanted(agent: HookAgent, stop: bool) -> Vec<Entry> {
    let events = names(agent).into_iter().take(if stop { 4 } else { 3 });
    events.map(|event| (event.to_string(), command(agent, None))).collect()
}

/// Blanks between the parts of a file, with a comment where the agent allows one.
fn trivia() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        2 => Just(" ".to_string()),
        3 => Just("\n  ".to_string()),
        1 => Just("\r\n\t".to_string()),
        1 => Just("\n\n".to_string()),
        1 => Just(" /* a, comment } */ ".to_string()),
        1 => Just(" // to the end \" of the line\n".to_string()),
    ]
}

fn leaf() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("true".to_string()),
        Just("-1.5e3".to_string()),
        Just("null".to_string()),
        Just(r#""a \"quoted\", [text] // no comment""#.to_string()),
        Just(r#""\\""#.to_string()),
        Just("\"ünï\\u00e9\"".to_string()),
        Just("[]".to_string()),
        Just("{ }".to_string()),
        Just(r#"{"hooks":[1,{"x":[]}]}"#.to_string()),
    ]
}

fn joined(open: char, parts: Vec<(String, String, String)>, inner: String, close: char) -> String {
    let parts: Vec<String> = parts.into_iter().map(|(before, part, after)| format!("{before}{part}{after}")).collect();
    if parts.is_empty() { format!("{open}{inner}{close}") } else { format!("{open}{}{close}", parts.join(",")) }
}

/// A group of somebody's hooks.
fn group() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(r#"{"hooks": [{"type": "command", "command": "say done"}]}"#.to_string()),
        Just(r#"{"matcher":"Bash","hooks":[{"type":"command","command":"fmail check | tee x"}]}"#.to_string()),
        Just("{\n      \"hooks\": []\n    }".to_string()),
        Just("{}".to_string()),
    ]
}

fn array_of_groups() -> impl Strategy<Value = String> {
    (prop::collection::vec((trivia(), group(), trivia()), 0..3), trivia())
        .prop_map(|(groups, inner)| joined('[', groups, inner, ']'))
}

/// The settings of an agent, written by somebody with any habits.
fn settings(agent: HookAgent) -> impl Strategy<Value = String> {
    let names = names(agent);
    let events = prop::sample::subsequence(vec![names[0], names[1], names[2], names[3], "PreCompact"], 0..=5);
    let hooks = (events, prop::collection::vec((trivia(), array_of_groups(), trivia(), trivia()), 5), trivia())
        .prop_map(|(events, values, inner)| {
            let members = events
                .into_iter()
                .zip(values)
                .map(|(event, (before, value, after, colon))| (before, format!("\"{event}\"{colon}:{value}"), after));
            joined('{', members.collect(), inner, '}')
        });
    let others = prop::collection::vec((trivia(), leaf(), trivia()), 0..4);
    (others, prop::option::of(hooks), 0usize..4, trivia(), trivia(), trivia()).prop_map(
        |(others, hooks, place, inner, before, after)| {
            let mut members: Vec<(String, String, String)> = others
                .into_iter()
                .enumerate()
                .map(|(number, (before, value, after))| (before, format!("\"key{number}\": {value}"), after))
                .collect();
            if let Some(hooks) = hooks {
                let place = place.min(members.len());
                members.insert(place, ("\n  ".into(), format!("\"hooks\":{hooks}"), String::new()));
            }
            format!("{before}{}{after}", joined('{', members, inner, '}'))
        },
    )
}

fn cases() -> impl Strategy<Value = (HookAgent, String, bool)> {
    (0usize..3, any::<bool>()).prop_flat_map(|(agent, stop)| {
        let agent = AGENTS[agent];
        (Just(agent), settings(agent), Just(stop))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_installed_is_undone_to_the_byte((agent, text, stop) in cases()) {
        let Ok(before) = Settings::parse(agent, text.clone()) else {
            // Comments, where the agent has none.
            prop_assert!(agent != HookAgent::Gemini && (text.contains("/*") || text.contains("//")), "{text}");
            return Ok(());
        };
        let wanted = wanted(agent, stop);
        let (installed, traces) = before.with(&wanted).unwrap();
        prop_assert_eq!(installed.entries(), wanted);
        let new = installed.text().to_string();
        // Everything that was there is there in the same order: what is new has only come in between.
        let mut rest = new.chars();
        prop_assert!(text.trim_end().chars().filter(|c| !c.is_whitespace()).all(|c| rest.any(|other| other == c)));
        let removed = installed.without(Some(&traces)).unwrap();
        prop_assert_eq!(removed.text(), &text);
        // Without the record, what was empty may go; nothing else does.
        let removed = Settings::parse(agent, new).unwrap().without(None).unwrap();
        prop_assert!(removed.entries().is_empty());
        let visible = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
        prop_assert!(visible(removed.text()) <= visible(&text), "{}", removed.text());
        prop_assert_eq!(removed.text().matches("say done").count(), text.matches("say done").count());
        prop_assert_eq!(removed.text().matches("key").count(), text.matches("key").count());
    }
}
