//! What a thread is about, by simple rules: no model is asked.
//!
//! | line of a message | becomes |
//! |---|---|
//! | `- …`, `* …`, `+ …`, `1. …` | a key point |
//! | one with TODO, ACTION, FIXME, NEXT or BLOCKED in capitals, or `todo:` and the like | an action item |
//! | `- [ ] …`, `- [x] …` | an action item, counted as open or done |
//! | `@Name` anywhere | a mention |
//! | `` `path/or.file` `` anywhere | a code reference |

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::rows::text;
use crate::visit::Letter;

/// So many points, items and references are shown. How many there are besides is told.
const SHOWN: usize = 10;

/// Words that ask somebody to do something.
const ACTIONS: [&str; 5] = ["TODO", "ACTION", "FIXME", "NEXT", "BLOCKED"];

/// What was found in one or more threads.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    participants: BTreeSet<String>,
    key_points: Distinct,
    action_items: Distinct,
    code_references: Distinct,
    mentions: BTreeMap<String, u64>,
    messages: u64,
    open: u64,
    done: u64,
}

/// Texts in the order in which they came, each once.
#[derive(Debug, Default)]
struct Distinct(Vec<String>);

impl Distinct {
    fn add(&mut self, text: &str) {
        if !self.0.iter().any(|known| known == text) {
            self.0.push(text.into());
        }
    }

    fn shown(&self) -> Value {
        self.0.iter().take(SHOWN).cloned().collect::<Vec<_>>().into()
    }

    fn left_out(&self) -> usize {
        self.0.len().saturating_sub(SHOWN)
    }
}

impl Summary {
    /// Takes a message in; `from` is its sender as it is shown.
    pub(crate) fn add(&mut self, from: String, letter: &Letter) {
        self.participants.insert(from);
        self.messages += 1;
        for line in text(&letter.message.body).lines() {
            self.line(line.trim());
        }
    }

    /// Takes in what another summary has found.
    pub(crate) fn join(&mut self, other: &Summary) {
        self.participants.extend(other.participants.iter().cloned());
        other.key_points.0.iter().for_each(|text| self.key_points.add(text));
        other.action_items.0.iter().for_each(|text| self.action_items.add(text));
        other.code_references.0.iter().for_each(|text| self.code_references.add(text));
        for (name, count) in &other.mentions {
            *self.mentions.entry(name.clone()).or_default() += count;
        }
        self.messages += other.messages;
        self.open += other.open;
        self.done += other.done;
    }

    fn line(&mut self, line: &str) {
        let point = bullet(line);
        let checkbox = point.and_then(|point| Some((point.get(..3)?, point.get(3..)?.trim())));
        match checkbox {
            Some(("[ ]", _)) => self.open += 1,
            Some(("[x]" | "[X]", _)) => self.done += 1,
            _ => {}
        }
        let is_box = matches!(checkbox, Some(("[ ]" | "[x]" | "[X]", _)));
        match (point, checkbox) {
            (Some(_), Some((_, rest))) if is_box && !rest.is_empty() => self.key_points.add(rest),
            (Some(point), _) if !is_box && !point.is_empty() => self.key_points.add(point),
            _ if is_numbered(line) => self.key_points.add(line),
            _ => {}
        }
        if is_box || asks(line) {
            self.action_items.add(line);
        }
        for name in mentions(line) {
            *self.mentions.entry(name.into()).or_default() += 1;
        }
        for code in line.split('`').skip(1).step_by(2).filter(|code| is_reference(code)) {
            self.code_references.add(code);
        }
    }

    /// How many messages were taken in.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    /// The summary of one thread.
    pub(crate) fn fields(&self) -> Map<String, Value> {
        let mut fields = rmcp::model::object(json!({
            "participants": self.participants,
            "key_points": self.key_points.shown(),
            "action_items": self.action_items.shown(),
            "total_messages": self.messages,
            "open_actions": self.open,
            "done_actions": self.done,
            "mentions": self.top_mentions(),
        }));
        if !self.code_references.0.is_empty() {
            fields.insert("code_references".into(), self.code_references.shown());
        }
        self.tell_left_out(&mut fields);
        fields
    }

    /// What several threads have in common.
    pub(crate) fn aggregate(&self) -> Map<String, Value> {
        let mut fields = rmcp::model::object(json!({
            "top_mentions": self.top_mentions(),
            "action_items": self.action_items.shown(),
            "key_points": self.key_points.shown(),
        }));
        self.tell_left_out(&mut fields);
        fields
    }

    fn tell_left_out(&self, fields: &mut Map<String, Value>) {
        let left_out = [
            ("key_points", self.key_points.left_out()),
            ("action_items", self.action_items.left_out()),
            ("code_references", self.code_references.left_out()),
            ("mentions", self.mentions.len().saturating_sub(SHOWN)),
        ];
        let told: Map<String, Value> = left_out
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.into(), count.into()))
            .collect();
        if !told.is_empty() {
            fields.insert("left_out".into(), told.into());
        }
    }

    fn top_mentions(&self) -> Value {
        let mut mentions: Vec<(&String, &u64)> = self.mentions.iter().collect();
        mentions.sort_by(|one, two| two.1.cmp(one.1).then(one.0.cmp(two.0)));
        mentions
            .into_iter()
            .take(SHOWN)
            .map(|(name, count)| json!({"name": name, "count": count}))
            .collect::<Vec<_>>()
            .into()
    }
}

/// What stands behind the sign of a list.
fn bullet(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(['-', '*', '+'])?;
    rest.starts_with(char::is_whitespace).then(|| rest.trim())
}

fn is_numbered(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = line.len() - rest.len();
    (1..=3).contains(&digits) && rest.starts_with(". ")
}

/// In capitals, or with a colon: a sentence that just has the word `next` in it asks nobody.
fn asks(line: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric()).any(|word| ACTIONS.contains(&word))
        || line
            .split(':')
            .next()
            .and_then(|start| start.split_whitespace().last())
            .is_some_and(|word| line.contains(':') && ACTIONS.contains(&&*word.to_uppercase()))
}

fn mentions(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices('@').filter_map(move |(at, _)| {
        // An address of mail is no mention.
        if line[..at].chars().next_back().is_some_and(char::is_alphanumeric) {
            return None;
        }
        let rest = &line[at + 1..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'))).unwrap_or(rest.len());
        Some(&rest[..end]).filter(|name| !name.is_empty())
    })
}

/// A path or a file, perhaps with a line: what stands in backquotes is often something else.
fn is_reference(code: &str) -> bool {
    let words = code.split_whitespace().count();
    let file = code.rsplit_once('.').is_some_and(|(stem, end)| {
        !stem.is_empty() && end.chars().next().is_some_and(char::is_alphabetic) && end.len() <= 12
    });
    words == 1 && (file || code.trim_matches('/').contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(body: &str) -> Map<String, Value> {
        let mut summary = Summary::default();
        body.lines().for_each(|line| summary.line(line.trim()));
        summary.fields()
    }

    #[test]
    fn points_and_items_are_what_upstream_finds() {
        let found = summary(
            "# Research Session\n\n- ACTION: BlueMountain to propose three hypotheses\n- TODO: RedForest design tests\n\
             1. First key point\n2. Second key point\n",
        );
        assert_eq!(
            found["key_points"],
            json!([
                "ACTION: BlueMountain to propose three hypotheses",
                "TODO: RedForest design tests",
                "1. First key point",
                "2. Second key point"
            ])
        );
        assert_eq!(
            found["action_items"],
            json!(["- ACTION: BlueMountain to propose three hypotheses", "- TODO: RedForest design tests"])
        );
        assert_eq!((&found["open_actions"], &found["mentions"]), (&json!(0), &json!([])));
        assert!(!found.contains_key("code_references") && !found.contains_key("left_out"));
    }

    #[test]
    fn boxes_mentions_and_references_are_counted() {
        let found = summary(
            "- [ ] write it, @GreenDog\n* [x] done @GreenDog @BlueMountain\nsee `src/lib.rs` and `Cargo.toml:7`, not `let x`\n\
             the next step is mine\nnext: merge\nmail a@b.example",
        );
        assert_eq!((&found["open_actions"], &found["done_actions"]), (&json!(1), &json!(1)));
        assert_eq!(found["action_items"].as_array().unwrap().len(), 3, "{found:?}");
        assert_eq!(found["mentions"], json!([{"name": "GreenDog", "count": 2}, {"name": "BlueMountain", "count": 1}]));
        assert_eq!(found["code_references"], json!(["src/lib.rs", "Cargo.toml:7"]));
        assert_eq!(found["key_points"][0], "write it, @GreenDog");
    }

    #[test]
    fn what_is_not_shown_is_told() {
        let many: String = (0..15).map(|number| format!("- point {number}\n- point {number}\n")).collect();
        let found = summary(&many);
        assert_eq!(found["key_points"].as_array().unwrap().len(), 10);
        assert_eq!(found["left_out"]["key_points"], 5);
    }
}
