//! Messages, times and agents as people read them.

use std::time::Duration;

use fmail_api::{AgentState, AgentView, Message, Nudge, Priority, Timestamp};
use serde_json::{Value, json};

use crate::names;

/// How a message is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    /// One JSON object a line.
    Json,
    /// The plain line, for pipes and files.
    Plain,
    /// For eyes: control characters harmless, how long ago it was, and colours where they are wanted.
    Terminal {
        /// Use colours.
        colour: bool,
    },
}

impl Style {
    /// The style for an output, by what was asked for and what it is connected to.
    pub(crate) fn choose(json: bool, terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        if json {
            return Style::Json;
        }
        if !terminal {
            return Style::Plain;
        }
        let unwanted = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
        Style::Terminal { colour: !unwanted && variable("TERM").is_none_or(|term| term != "dumb") }
    }
}

/// A message in this style, without the end of its last line.
pub(crate) fn message(message: &Message, style: Style, now: Timestamp) -> String {
    message_with(message, style, now, "")
}

/// The same with `marks` behind the recipients.
pub(crate) fn message_with(message: &Message, style: Style, now: Timestamp, marks: &str) -> String {
    let subject = message.subject.as_deref().filter(|subject| !subject.is_empty());
    let subject = subject.map(|subject| format!(" [{}]", on_one_line(subject))).unwrap_or_default();
    let marks = format!("{subject}{marks}");
    let to: Vec<String> = message.targets().iter().map(names::shown_target).collect();
    let (id, from, to, body) = (message.id, names::shown(&message.from), to.join(", "), body(&message.body));
    match style {
        Style::Json => message.to_line(),
        Style::Plain => format!("{id} {from} -> {to}{marks}: {}", indented(&body)),
        Style::Terminal { colour } => {
            let paint = |code: &str, text: &str| match colour {
                true => format!("\x1b[{code}m{text}\x1b[0m"),
                false => text.to_string(),
            };
            let head = paint("2", &format!("{id} ({})", ago(now.since(message.time))));
            let urgent = match message.priority {
                Priority::High => paint("1;31", " [high]"),
                Priority::Low => paint("2", " [low]"),
                Priority::Normal => String::new(),
            };
            let body = indented(&visible(&body));
            format!("{head} {} -> {}{urgent}{marks}: {body}", paint("1;36", &from), paint("33", &to))
        }
    }
}

/// A nudge on one line. It has no id and no recipients, so that it looks like no message; nothing in it acts on a
/// terminal, wherever the line goes.
pub(crate) fn nudge(nudge: &Nudge, style: Style) -> String {
    let Nudge { from, text, time } = nudge;
    match style {
        Style::Json => json!({"event": "nudge", "from": from, "text": text, "time": time}).to_string(),
        Style::Plain | Style::Terminal { .. } => {
            format!("! nudge from @{}: {}", names::shown(from), on_one_line(text))
        }
    }
}

/// A text as it is, anything else as compact JSON.
fn body(body: &Value) -> String {
    match body {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Further lines stand under the first, so that a line that starts at the margin is always another message.
fn indented(text: &str) -> String {
    text.replace('\n', "\n    ")
}

/// The text with every character made visible that would act on a terminal instead of appearing: an escape sequence in
/// a message must not move the cursor, and a change of direction must not hide what was written.
pub(crate) fn visible(text: &str) -> String {
    let acts = |c: char| {
        (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(acts) {
        return text.to_string();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// The text on one line.
pub(crate) fn on_one_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', " ")
}

/// How long ago, in the largest unit that fits.
pub(crate) fn ago(quiet: Duration) -> String {
    match quiet.as_secs() {
        seconds @ 0..=59 => format!("{seconds}s ago"),
        seconds @ 60..=3_599 => format!("{}m ago", seconds / 60),
        seconds @ 3_600..=86_399 => format!("{}h ago", seconds / 3_600),
        seconds => format!("{}d ago", seconds / 86_400),
    }
}

/// How long ago something was, within a sentence.
pub(crate) fn ago_in_words(quiet: Duration) -> String {
    let short = ago(quiet);
    let digits = short.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = short.split_at(digits);
    format!("{number} {rest}")
}

/// The row of an agent in `fmail who`.
pub(crate) fn agent_row(agent: &AgentView, now: Timestamp) -> [String; 3] {
    let last_seen = match agent.state {
        AgentState::Active => AgentState::Active.as_str().to_string(),
        _ => ago(now.since(agent.last_seen)),
    };
    let status = match (&agent.status, agent.state) {
        (None, state) => state.as_str().to_string(),
        (Some(text), AgentState::Active) => on_one_line(text),
        (Some(text), state) => format!("{}: {}", state.as_str(), on_one_line(text)),
    };
    [names::shown_as(&agent.name, agent.profile.display.as_deref()), last_seen, status]
}

#[cfg(test)]
mod tests {
    use super::*;
    use fmail_api::{Draft, Profile};

    fn sample(body: Value) -> Message {
        Draft::new("architect".parse().unwrap(), "task".parse().unwrap(), body)
            .into_message("20260110-153000-0001".parse().unwrap(), "2026-01-10T15:30:00Z".parse().unwrap())
    }

    fn shown(body: Value, style: Style) -> String {
        message(&sample(body), style, "2026-01-10T15:32:00Z".parse().unwrap())
    }

    const EYES: Style = Style::Terminal { colour: false };

    #[test]
    fn the_plain_line_is_the_references() {
        let line = shown("implement auth".into(), Style::Plain);
        assert_eq!(line, "20260110-153000-0001 architect -> task: implement auth");
        let line = shown(json!({"b": 1, "a": [null]}), Style::Plain);
        assert_eq!(line, r#"20260110-153000-0001 architect -> task: {"b":1,"a":[null]}"#);
    }

    #[test]
    fn further_lines_stand_under_the_first() {
        let line = shown("one\ntwo\n\nthree".into(), Style::Plain);
        assert_eq!(line, "20260110-153000-0001 architect -> task: one\n    two\n    \n    three");
    }

    #[test]
    fn a_terminal_gets_the_age_and_no_control_characters() {
        let line = shown("\x1b[2Jgone\u{202e}\u{9b}31m\x07".into(), EYES);
        let expected = "20260110-153000-0001 (2m ago) architect -> task: \\u{1b}[2Jgone\\u{202e}\\u{9b}31m\\u{7}";
        assert_eq!(line, expected);
        assert!(shown("\x1b[2J".into(), Style::Plain).contains('\x1b'), "a pipe gets the bytes as they are");
        assert!(shown("x".into(), Style::Terminal { colour: true }).contains("\x1b[1;36marchitect\x1b[0m"));
    }

    #[test]
    fn a_nudge_is_one_line_that_does_nothing_to_a_terminal() {
        let sent = Nudge {
            from: "alice".parse().unwrap(),
            text: "wake\nup\x1b[2J".into(),
            time: "2026-01-10T15:30:00Z".parse().unwrap(),
        };
        for style in [Style::Plain, EYES, Style::Terminal { colour: true }] {
            assert_eq!(nudge(&sent, style), "! nudge from @alice: wake\\nup\\u{1b}[2J");
        }
        let parsed: Value = serde_json::from_str(&nudge(&sent, Style::Json)).unwrap();
        let expected = json!({
            "event": "nudge", "from": "alice", "text": "wake\nup\u{1b}[2J", "time": "2026-01-10T15:30:00Z"
        });
        assert_eq!(parsed, expected);
    }

    #[test]
    fn every_recipient_and_the_urgency_are_shown() {
        let mut sent = sample("x".into());
        sent.more.cc = vec!["@bob".parse().unwrap()];
        sent.priority = Priority::High;
        let now = sent.time;
        assert_eq!(message(&sent, Style::Plain, now), "20260110-153000-0001 architect -> task, @bob: x");
        assert!(message(&sent, EYES, now).contains("-> task, @bob [high]: x"));
    }

    #[test]
    fn names_of_another_system_are_shown_beside_the_own_ones() {
        let mut sent = sample("x".into());
        sent.from = fmail_api::AgentName::from_foreign("gastown/crew-1").unwrap();
        sent.to = fmail_api::Target::Agent(fmail_api::AgentName::from_foreign("GreenDog").unwrap());
        let expected = "gastown-crew-1--x7s (gastown/crew-1) -> @greendog--x0u-5u (GreenDog): x";
        assert_eq!(message(&sent, Style::Plain, sent.time), format!("20260110-153000-0001 {expected}"));
        assert!(message(&sent, EYES, sent.time).ends_with(expected));
        assert!(!message(&sent, Style::Json, sent.time).contains("GreenDog"), "the message is as it is stored");
    }

    #[test]
    fn the_style_follows_the_output() {
        let none = |_: &str| None;
        assert!(matches!(Style::choose(true, true, none), Style::Json));
        assert!(matches!(Style::choose(false, false, none), Style::Plain));
        assert!(matches!(Style::choose(false, true, none), Style::Terminal { colour: true }));
        let no_colour = |name: &str| (name == "NO_COLOR").then(|| "1".to_string());
        assert!(matches!(Style::choose(false, true, no_colour), Style::Terminal { colour: false }));
        let dumb = |name: &str| (name == "TERM").then(|| "dumb".to_string());
        assert!(matches!(Style::choose(false, true, dumb), Style::Terminal { colour: false }));
    }

    #[test]
    fn ages() {
        let check = |seconds: u64, expect: &str| assert_eq!(ago(Duration::from_secs(seconds)), expect);
        check(0, "0s ago");
        check(59, "59s ago");
        check(125, "2m ago");
        check(3_600, "1h ago");
        check(200_000, "2d ago");
    }

    #[test]
    fn agents_are_shown_as_the_specification_does() {
        let now: Timestamp = "2026-01-10T15:30:00Z".parse().unwrap();
        let row = |quiet: u64, status: Option<&str>| {
            let seen = now.before(Duration::from_secs(quiet));
            let agent = AgentView {
                name: "a".parse().unwrap(),
                host: None,
                node: None,
                status: status.map(String::from),
                state: AgentState::after(Duration::from_secs(quiet)),
                first_seen: seen,
                last_seen: seen,
                profile: Profile::default(),
            };
            agent_row(&agent, now)[1..].join(" | ")
        };
        assert_eq!(row(120, None), "2m ago | idle");
        assert_eq!(row(5, Some("working on auth")), "active | working on auth");
        assert_eq!(row(3_600, None), "1h ago | offline");
        assert_eq!(row(3_600, Some("a\nb\x1b")), "1h ago | offline: a\\nb\\u{1b}");
    }
}
