//! Commands by the name of an agent, as `mail.nudge` has them: lists of texts, the program first. No shell is between.

use std::collections::BTreeMap;

use figment::value::Value;
use fmail_api::AgentName;

use super::document::{Found, Node, shown};
use super::keys::{Author, Wrong};

/// What is allowed, as an error says it.
pub const ALLOWED: &str = "a section with a list of texts for each agent, the program first";

/// What stands for something else in the arguments of a command.
const PLACEHOLDERS: [&str; 3] = ["{agent}", "{from}", "{text}"];

/// Reads the text of a variable or a flag: a JSON object. What is none stays text, and is refused as such.
pub fn read(text: &str) -> Found {
    if text.trim().is_empty() {
        return Found::Map(Vec::new());
    }
    let node = |value| Node { line: 0, value };
    match serde_json::from_str::<BTreeMap<String, Vec<String>>>(text) {
        Ok(commands) => Found::Map(
            commands
                .into_iter()
                .map(|(name, words)| {
                    let words = words.into_iter().map(|word| node(Found::Text(word))).collect();
                    (name, node(Found::List(words)))
                })
                .collect(),
        ),
        Err(_) => Found::Text(text.to_string()),
    }
}

/// The commands to merge, or why they cannot be used.
pub fn check(found: &Found, author: Author) -> Result<Value, Wrong> {
    let entries = match found {
        Found::Nothing => &[][..],
        Found::Map(entries) => entries,
        other => return Err(Wrong { what: format!("is {other}; allowed is {ALLOWED}"), help: example(), line: None }),
    };
    if author.is_stranger() && !entries.is_empty() {
        return Err(strange(author));
    }
    let mut commands = BTreeMap::new();
    for (name, node) in entries {
        let wrong =
            |what: String, help: Option<String>| Wrong { what, help, line: (node.line > 0).then_some(node.line) };
        let agent: AgentName = name.parse().map_err(|error: fmail_api::Error| {
            wrong(format!("has a command for {}; {}", shown(name), error.message()), None)
        })?;
        let words = words(&node.value).map_err(|why| wrong(format!("has for {} {why}", shown(name)), example()))?;
        if commands.insert(agent.to_string(), words).is_some() {
            return Err(wrong(format!("has two commands for `{agent}`"), Some("keep one of the two".into())));
        }
    }
    Ok(commands.into())
}

fn strange(author: Author) -> Wrong {
    Wrong {
        what: "names a command to run; a project file may not, since it may have come with a clone".into(),
        help: Some(author.trust().into()),
        line: None,
    }
}

/// Reads one command from the text of a variable or a flag: a JSON list. No shell is between, so nothing else is split.
pub fn read_one(text: &str) -> Found {
    match serde_json::from_str::<Vec<String>>(text) {
        Ok(words) => Found::List(words.into_iter().map(|word| Node { line: 0, value: Found::Text(word) }).collect()),
        Err(_) if text.trim().is_empty() => Found::List(Vec::new()),
        Err(_) => Found::Text(text.to_string()),
    }
}

/// The words of one command to merge, or why they cannot be used. The program is named by its whole path or found in PATH;
/// a path below the current directory would mean another program in every directory.
pub fn check_one(found: &Found, author: Author) -> Result<Value, Wrong> {
    let help = Some("write for example command = [\"python3\", \"/home/ann/store.py\"]; no shell reads it".to_string());
    let wrong = |why: String| Wrong { what: format!("is {why}"), help: help.clone(), line: None };
    // Also an empty one: it would turn off what the user has set.
    if author.is_stranger() {
        return Err(strange(author));
    }
    let words = words(found).map_err(wrong)?;
    match words.first() {
        Some(program) if program.contains('/') && !program.starts_with('/') => Err(wrong(format!(
            "a list whose program is {}; allowed is a name in PATH or an absolute path",
            shown(program)
        ))),
        _ => Ok(words.into()),
    }
}

fn example() -> Option<String> {
    Some("write for example bob = [\"notify-send\", \"{from}\", \"{text}\"]; no shell reads it".into())
}

/// The words of a command; none at all means that nothing is to be run.
fn words(found: &Found) -> Result<Vec<String>, String> {
    let Found::List(items) = found else { return Err(format!("{found}; allowed is a list of texts")) };
    let word = |item: &Node| match &item.value {
        Found::Text(text) if text.contains('\0') => Err("a text with a NUL, which no argument can have".to_string()),
        Found::Text(text) => Ok(text.clone()),
        other => Err(format!("a list with {other}; allowed is a list of texts")),
    };
    let words = items.iter().map(word).collect::<Result<Vec<String>, String>>()?;
    match words.first() {
        Some(program) if program.trim().is_empty() => Err("a list whose first text is empty; it is the program".into()),
        // Whoever nudges chooses the text, and must not choose the program.
        Some(program) if PLACEHOLDERS.iter().any(|placeholder| program.contains(placeholder)) => {
            Err(format!("the program {}; only its arguments have placeholders", shown(program)))
        }
        _ => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, author: Author, expect: &str) {
        let wrong = check(&read(text), author).unwrap_err();
        assert!(wrong.what.contains(expect), "{wrong:?}");
    }

    #[test]
    fn wrong_commands_say_what_was_found_and_what_is_allowed() {
        refused("notify-send", Author::Owner, "is the text \"notify-send\"; allowed is a section with a list");
        refused(r#"{"no good": ["x"]}"#, Author::Owner, "has a command for \"no good\"");
        refused(r#"{"bob": ["x"], "Bob": ["y"]}"#, Author::Owner, "two commands for `bob`");
        refused(r#"{"bob": [" "]}"#, Author::Owner, "first text is empty");
        refused(r#"{"bob": ["/bin/{text}"]}"#, Author::Owner, "only its arguments");
        refused(r#"{"bob": ["x", "\u0000"]}"#, Author::Owner, "NUL");
        let numbers = Found::Map(vec![("bob".into(), Node { line: 7, value: Found::Integer(1) })]);
        let wrong = check(&numbers, Author::Owner).unwrap_err();
        assert!(wrong.what.contains("the number 1") && wrong.line == Some(7), "{wrong:?}");
    }

    #[test]
    fn a_project_file_names_no_command() {
        refused(r#"{"bob": ["x"]}"#, Author::Project, "a project file may not");
        assert!(check(&Found::Map(Vec::new()), Author::Project).is_ok());
        assert!(check(&read(r#"{"bob": ["x", "{text}"], "default": []}"#), Author::Owner).is_ok());
    }
}
