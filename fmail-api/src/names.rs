//! Names that cannot be wrong: topics, agents, targets, tags, priorities.
//!
//! All of fmail's own names are `[a-z0-9-]`. Text is trimmed and lower-cased first, as the reference implementation
//! does, so that `Reviewer` and `reviewer` are one agent.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, de};

use crate::{Error, ErrorKind, Result};

/// The longest topic or agent name. A file system allows 255 bytes in a name; this leaves room for `.json`.
const MAX_NAME: usize = 100;
const MAX_TAG: usize = 50;
const MAX_TAGS: usize = 10;

/// Trims, lower-cases and checks a name; the error shows the first character that breaks the rule.
fn canonical(text: &str, what: &str, kind: ErrorKind, max: usize, example: &str) -> Result<String> {
    let name = text.trim().to_lowercase();
    let problem = if name.is_empty() {
        Some("it is empty".to_string())
    } else if let Some(found) = name.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-')) {
        Some(format!("it contains {found:?}"))
    } else if name.len() > max {
        Some(format!("it has {} characters, at most {max} are allowed", name.len()))
    } else {
        None
    };
    match problem {
        None => Ok(name),
        Some(problem) => Err(Error::new(kind, format!("`{}` is not {what}: {problem}", shown(text))).help(format!(
            "{what} consists of lowercase letters, digits and hyphens [a-z0-9-], for example {example}{}",
            elsewhere(text.trim(), kind)
        ))),
    }
}

/// What to write instead of a name that looks like an agent's of another system.
fn elsewhere(text: &str, kind: ErrorKind) -> String {
    let sign = |c: char| matches!(c, '/' | '_' | '.' | ':');
    let word = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || sign(c));
    let named = kind == ErrorKind::InvalidAgent && word && text.contains(sign);
    match named.then(|| AgentName::from_foreign(text)) {
        Some(Ok(agent)) => format!("; the agent that another system calls `{text}` is `{agent}` here"),
        _ => String::new(),
    }
}

/// What an error repeats of a wrong name: enough to recognise it, without control characters.
fn shown(text: &str) -> String {
    let mut start: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        start.push('…');
    }
    start
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $kind:expr, $max:expr, $example:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                canonical(text, $what, $kind, $max, $example).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

name_type! {
    /// A named channel that anyone may send to and read.
    Topic, "a topic name", ErrorKind::InvalidTopic, MAX_NAME, "code-review"
}
name_type! {
    /// The name of an agent.
    AgentName, "an agent name", ErrorKind::InvalidAgent, MAX_NAME, "coder-1"
}
name_type! {
    /// A label on a message.
    Tag, "a tag", ErrorKind::InvalidRequest, MAX_TAG, "urgent"
}

/// Checks a list of tags: each a [`Tag`], repeated ones once, at most ten.
pub fn canonical_tags<'a>(tags: impl IntoIterator<Item = &'a str>) -> Result<Vec<Tag>> {
    let mut list: Vec<Tag> = Vec::new();
    for tag in tags {
        let tag: Tag = tag.parse()?;
        if !list.contains(&tag) {
            list.push(tag);
        }
    }
    if list.len() > MAX_TAGS {
        return Err(Error::invalid(format!("{} tags are given, at most {MAX_TAGS} are allowed", list.len())));
    }
    Ok(list)
}

/// Where a message goes: a topic, or an agent's mailbox (`@name`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A topic.
    Topic(Topic),
    /// An agent's direct messages.
    Agent(AgentName),
}

impl Target {
    /// The agent, when this is a mailbox.
    pub fn agent(&self) -> Option<&AgentName> {
        match self {
            Target::Agent(agent) => Some(agent),
            Target::Topic(_) => None,
        }
    }

    /// Whether this is an agent's mailbox.
    pub fn is_direct(&self) -> bool {
        self.agent().is_some()
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().strip_prefix('@') {
            Some(agent) => agent.parse().map(Target::Agent),
            None => text.parse().map(Target::Topic),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Topic(topic) => topic.fmt(f),
            Target::Agent(agent) => write!(f, "@{agent}"),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Target {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// How urgent a message is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Can wait.
    Low,
    /// The default; left out of the stored message.
    #[default]
    Normal,
    /// Should be looked at first.
    High,
}

impl Priority {
    /// The word that stands in a message.
    pub const fn as_str(self) -> &'static str {
        match self {
            Priority::Low => "low",
            Priority::Normal => "normal",
            Priority::High => "high",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Priority {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().to_lowercase().as_str() {
            "low" => Ok(Priority::Low),
            "normal" => Ok(Priority::Normal),
            "high" => Ok(Priority::High),
            _ => Err(Error::invalid(format!("`{}` is not a priority", shown(text))).help("use low, normal or high")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_of_another_system_is_pointed_to() {
        let help = |text: &str| text.parse::<Target>().unwrap_err().help_text().unwrap_or_default().to_string();
        assert!(help("@gastown/crew-1").ends_with("calls `gastown/crew-1` is `gastown-crew-1--x7s` here"));
        for wrong in ["gastown/crew-1", "@a b", "@", "@@bob", "@é", &format!("@{}", "a_".repeat(60))] {
            assert!(!help(wrong).contains("another system"), "{wrong}");
        }
    }

    #[test]
    fn names_are_trimmed_and_lower_cased() {
        assert_eq!(" Code-Review ".parse::<Topic>().unwrap().as_str(), "code-review");
        assert_eq!("@Bob".parse::<Target>().unwrap().to_string(), "@bob");
    }

    #[test]
    fn the_error_shows_the_offending_character_and_the_rule() {
        let error = "my topic".parse::<Topic>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidTopic);
        assert!(error.to_string().contains("' '"), "{error}");
        assert!(error.help_text().unwrap().contains("[a-z0-9-]"));
    }

    #[test]
    fn names_that_could_leave_the_directory_are_refused() {
        for text in ["..", ".", "a/b", "../x", ".hidden", "", "  ", "a\0b", "ü", "İ"] {
            assert!(text.parse::<Topic>().is_err(), "{text:?}");
            assert!(format!("@{text}").parse::<Target>().is_err(), "{text:?}");
        }
        assert!("x".repeat(101).parse::<Topic>().is_err());
    }

    #[test]
    fn tags_are_deduplicated_and_limited() {
        assert_eq!(canonical_tags(["A", "a", "b"]).unwrap().len(), 2);
        let many: Vec<String> = (0..11).map(|n| format!("t{n}")).collect();
        assert!(canonical_tags(many.iter().map(String::as_str)).is_err());
        assert!(canonical_tags(["x".repeat(51).as_str()]).is_err());
    }
}
