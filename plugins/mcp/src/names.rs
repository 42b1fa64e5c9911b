//! Names of agents: what clients write, and which agent of fmail that is.
//!
//! `GreenDog` is the agent `greendog`, shown as `GreenDog` because its profile says so; capitals tell no two agents apart.
//! A name with other signs (`test_agent_1`) has an agent of its own by the rule for all foreign names. An agent that was
//! never registered here, such as one that only used the command line, is shown by its own name.

use std::collections::BTreeMap;

use fmail_api::{AgentName, AgentView, Target};

use crate::errors::{Failure, Kind, Result, shown};
use crate::near::{near, quoted};
use crate::visit::Project;

/// So many agents are named when somebody asks for one that is not there.
const NAMED: usize = 5;

/// The name alone: without blanks around it, and without the sign that stands before names on the command line.
pub(crate) fn bare(text: &str) -> &str {
    let name = text.trim();
    name.strip_prefix('@').unwrap_or(name)
}

/// The agent that a client calls by this name.
pub(crate) fn agent(argument: &str, text: &str) -> Result<AgentName> {
    let name = bare(text);
    let wrong = |why: &str| {
        Failure::argument(format!("{argument} '{}' cannot be the name of an agent: {why}", shown(text)))
            .with("argument", argument)
    };
    if name.is_empty() {
        return Err(wrong("it is empty."));
    }
    if name.chars().any(char::is_control) {
        return Err(wrong("it contains a control character."));
    }
    let made_up =
        name.to_lowercase().strip_prefix("anon-").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
    if made_up {
        return Err(wrong("names like anon-123 belong to callers without a name."));
    }
    AgentName::from_display(name).map_err(|error| {
        let help = error.help_text().map(|help| format!("; {help}")).unwrap_or_default();
        wrong(&format!("{}{help}.", error.message()))
    })
}

/// The name that an agent is shown by.
pub(crate) fn display(view: &AgentView) -> String {
    view.profile.display.clone().unwrap_or_else(|| view.name.foreign())
}

/// The names that agents are shown by.
#[derive(Debug, Default)]
pub(crate) struct Directory(BTreeMap<AgentName, String>);

impl Directory {
    /// Those of these agents.
    pub(crate) fn new(agents: &[AgentView]) -> Self {
        Directory(agents.iter().map(|view| (view.name.clone(), display(view))).collect())
    }

    /// Looks these agents up.
    pub(crate) async fn of<'a>(project: &Project, names: impl IntoIterator<Item = &'a AgentName>) -> Result<Self> {
        let mut names: Vec<&AgentName> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            return Ok(Directory::default());
        }
        Ok(Directory::new(&project.known(&names).await?))
    }

    /// Whether the agent is known.
    pub(crate) fn knows(&self, name: &AgentName) -> bool {
        self.0.contains_key(name)
    }

    /// The name to show.
    pub(crate) fn shown(&self, name: &AgentName) -> String {
        self.0.get(name).cloned().unwrap_or_else(|| name.foreign())
    }

    /// What to show of where a message went.
    pub(crate) fn target(&self, target: &Target) -> String {
        target.agent().map_or_else(|| target.to_string(), |name| self.shown(name))
    }
}

/// An agent that has to be known.
pub(crate) async fn known(project: &Project, argument: &str, text: &str) -> Result<AgentView> {
    let name = agent(argument, text)?;
    match project.known(&[&name]).await?.pop() {
        Some(view) => Ok(view),
        None => Err(not_found(project, text).await),
    }
}

/// That there is no such agent, with those who may have been meant.
pub(crate) async fn not_found(project: &Project, text: &str) -> Failure {
    let everybody = match project.known(&[]).await {
        Ok(everybody) => everybody,
        Err(failure) => return failure,
    };
    let names: Vec<String> = everybody.iter().map(display).collect();
    let alike = near(text.trim(), names.iter().map(String::as_str));
    let (shown, key) = (shown(text), &project.hosted.key);
    let sentence = if names.is_empty() {
        format!(
            "Agent '{shown}' not found. Project '{key}' has no registered agents yet. Use register_agent to create an agent \
             identity first."
        )
    } else if !alike.is_empty() {
        format!(
            "Agent '{shown}' not found in project '{key}'. Did you mean: {}? Agent names are case-insensitive but must \
             match otherwise; use register_agent to create a new one.",
            quoted(alike.iter().copied())
        )
    } else {
        let more = match names.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(
            "Agent '{shown}' not found in project '{key}'. Available agents: {}{more}. Use register_agent to create a new \
             agent identity.",
            quoted(names.iter().take(NAMED).map(String::as_str))
        )
    };
    Failure::new(Kind::AgentNotFound, sentence).with("agent_name", text).with("suggestions", serde_json::json!(alike))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capitals_tell_no_two_agents_apart_and_other_signs_do() {
        let name = |text: &str| agent("name", text).unwrap().to_string();
        assert_eq!(name("GreenDog"), "greendog");
        assert_eq!(name(" @greendog "), "greendog");
        assert_ne!(name("green_dog"), name("greendog"));
        assert_ne!(name("green_dog"), name("green dog"));
        assert_eq!(agent("name", "test_agent_1").unwrap().foreign(), "test_agent_1");
    }

    #[test]
    fn what_can_be_no_name_is_told() {
        for (text, why) in [("", "empty"), ("  ", "empty"), ("@", "empty"), ("a\u{7}b", "control"), ("anon-17", "anon")]
        {
            assert!(agent("name", text).unwrap_err().message().contains(why), "{text:?}");
        }
        let long = agent("name", &"a".repeat(101)).unwrap_err();
        assert!(long.message().contains("too long") && long.message().contains("100 characters"), "{}", long.message());
    }
}
