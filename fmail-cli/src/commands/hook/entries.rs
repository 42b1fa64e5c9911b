//! Our entries among the hooks of an agent: finding them, adding them, and taking exactly them away.

use std::collections::{BTreeMap, BTreeSet};

use fmail_api::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent_files::json::{Document, Kind, Node};
use crate::inject::HookAgent;

/// The key under which all three agents keep their hooks.
const HOOKS: &str = "hooks";

/// An entry: at which event, and the command.
pub(super) type Entry = (String, String);

/// What was made of a file to hold our entries, so that it can be undone to the byte.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Traces {
    /// The containers that were not there: `hooks`, or the name of an event in it.
    pub(super) created: BTreeSet<String>,
    /// What stood between the braces of those that were there and empty; the file's own object is ``.
    pub(super) empty: BTreeMap<String, String>,
}

/// The text of an agent's settings.
pub(super) struct Settings {
    pub(super) agent: HookAgent,
    document: Document,
}

impl Settings {
    /// Reads it. An error when it is not what the agent expects: it is nobody's business to guess then.
    pub(super) fn parse(agent: HookAgent, text: String) -> Result<Settings> {
        // Gemini CLI allows comments in its settings.
        let document = Document::parse(text, agent == HookAgent::Gemini).map_err(unusable)?;
        if !matches!(document.root.kind, Kind::Object(_)) {
            return Err(unusable(format!("it is {}, not an object", document.root.what())));
        }
        if document.root.times(HOOKS) > 1 {
            return Err(unusable("it has the key `hooks` more than once".into()));
        }
        if let Some(hooks) = document.root.get(HOOKS) {
            let Kind::Object(events) = &hooks.kind else {
                return Err(unusable(format!("`hooks` is {}, not an object", hooks.what())));
            };
            for event in events.iter().filter(|event| names(agent).contains(&event.key.as_str())) {
                if !matches!(event.value.kind, Kind::Array(_)) {
                    return Err(unusable(format!("`hooks.{}` is {}, not an array", event.key, event.value.what())));
                }
                if hooks.times(&event.key) > 1 {
                    return Err(unusable(format!("it has the key `hooks.{}` more than once", event.key)));
                }
            }
        }
        Ok(Settings { agent, document })
    }

    /// The text.
    pub(super) fn text(&self) -> &str {
        &self.document.text
    }

    fn hooks(&self) -> Option<&Node> {
        self.document.root.get(HOOKS)
    }

    /// Our entries, by the order of their events in an agent's life.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut found = Vec::new();
        for event in names(self.agent) {
            let groups = self.hooks().and_then(|hooks| hooks.get(event)).map(Node::elements).unwrap_or_default();
            let handlers = groups.iter().filter_map(|group| group.get(HOOKS)).flat_map(Node::elements);
            let ours = handlers.filter_map(our_command).map(|command| (event.to_string(), command.to_string()));
            found.extend(ours);
        }
        found
    }

    /// Whether the agent is told here to run no hooks at all, and by which key.
    pub(super) fn switched_off(&self) -> Option<&'static str> {
        let root = &self.document.root;
        let is = |node: Option<&Node>, wanted: bool| match node.map(|node| &node.kind) {
            Some(Kind::True) => wanted,
            Some(Kind::False) => !wanted,
            _ => false,
        };
        match self.agent {
            HookAgent::Claude => is(root.get("disableAllHooks"), true).then_some("disableAllHooks is true"),
            HookAgent::Gemini => is(root.get("hooksConfig").and_then(|config| config.get("enabled")), false)
                .then_some("hooksConfig.enabled is false"),
            HookAgent::Codex => None,
        }
    }

    /// The settings with these entries too, and what was made for them.
    pub(super) fn with(mut self, entries: &[Entry]) -> Result<(Settings, Traces)> {
        let mut traces = Traces::default();
        for (event, command) in entries {
            let root = &self.document.root;
            let group = group(self.agent, command);
            let text = match self.hooks() {
                None => {
                    note_empty(&mut traces, "", root, self.text());
                    traces.created.extend([HOOKS.to_string(), event.clone()]);
                    self.document.with(root, 0, Some(HOOKS), &json!({event: [group]}))
                }
                Some(hooks) => match hooks.get(event) {
                    None => {
                        note_empty(&mut traces, HOOKS, hooks, self.text());
                        traces.created.insert(event.clone());
                        self.document.with(hooks, 1, Some(event), &json!([group]))
                    }
                    Some(groups) => {
                        note_empty(&mut traces, event, groups, self.text());
                        self.document.with(groups, 2, None, &group)
                    }
                },
            };
            self = Settings::parse(self.agent, text)?;
        }
        Ok((self, traces))
    }

    /// The settings without our entries. What was made for them goes with them; where that is not known, what they leave
    /// empty goes.
    pub(super) fn without(mut self, traces: Option<&Traces>) -> Result<Settings> {
        while let Some(text) = self.one_less(traces) {
            self = Settings::parse(self.agent, text)?;
        }
        Ok(self)
    }

    /// The text without one of our entries.
    fn one_less(&self, traces: Option<&Traces>) -> Option<String> {
        let hooks = self.hooks()?;
        // From the last, as they were added.
        for event in names(self.agent).into_iter().rev() {
            let groups = hooks.get(event).map(Node::elements).unwrap_or_default();
            for (place, group) in groups.iter().enumerate().rev() {
                let handlers = group.get(HOOKS).map(Node::elements).unwrap_or_default();
                let ours = handlers.iter().filter(|handler| our_command(handler).is_some()).count();
                if ours == 0 {
                    continue;
                }
                if ours < handlers.len() {
                    let first = handlers.iter().position(|handler| our_command(handler).is_some())?;
                    return Some(self.document.without(group.get(HOOKS)?, first, None));
                }
                return self.without_group(traces, event, place);
            }
        }
        None
    }

    /// The text without a group, and without the containers around it that go with it.
    fn without_group(&self, traces: Option<&Traces>, event: &str, place: usize) -> Option<String> {
        let root = &self.document.root;
        let hooks = self.hooks()?;
        let groups = hooks.get(event)?;
        let goes = |name: &str| traces.is_none_or(|traces| traces.created.contains(name));
        let empty = |name: &str| traces.and_then(|traces| traces.empty.get(name)).map(String::as_str);
        let last = |node: &Node| match &node.kind {
            Kind::Object(members) => members.len() == 1,
            _ => node.elements().len() == 1,
        };
        Some(if !last(groups) || !goes(event) {
            self.document.without(groups, place, empty(event))
        } else if !last(hooks) || !goes(HOOKS) {
            self.document.without(hooks, hooks.place(event)?, empty(HOOKS))
        } else {
            self.document.without(root, root.place(HOOKS)?, empty(""))
        })
    }

    /// Whether nothing is set in it.
    pub(super) fn is_empty(&self) -> bool {
        self.document.root.is_empty()
    }
}

fn note_empty(traces: &mut Traces, name: &str, node: &Node, text: &str) {
    if node.is_empty() {
        traces.empty.insert(name.to_string(), text[node.inner()].to_string());
    }
}

/// The events of an agent at which we may have entries, in the order of its life.
pub(super) fn names(agent: HookAgent) -> [&'static str; 4] {
    let events = agent.events();
    [events.start, events.prompt, events.tool, events.stop]
}

fn group(agent: HookAgent, command: &str) -> Value {
    let handler = match agent {
        HookAgent::Claude | HookAgent::Codex => json!({"type": "command", "command": command, "timeout": 10}),
        // Its time is in milliseconds.
        HookAgent::Gemini => json!({"name": "fmail", "type": "command", "command": command, "timeout": 10_000}),
    };
    json!({"hooks": [handler]})
}

/// The command that an agent runs.
pub(super) fn command(agent: HookAgent, name: Option<&str>) -> String {
    let as_agent = name.map(|name| format!(" --agent {name}")).unwrap_or_default();
    format!("fmail check --inject --for {}{as_agent}", agent.name())
}

fn our_command(handler: &Node) -> Option<&str> {
    handler.get("command").and_then(Node::as_str).filter(|command| is_ours(command))
}

/// Whether a command is the one that we install, perhaps with options that somebody added. A script around it is not.
fn is_ours(command: &str) -> bool {
    if command.contains(['|', ';', '&', '<', '>', '$', '`', '\n', '(', '#']) {
        return false;
    }
    let mut words = command.split_whitespace().skip_while(|word| word.contains('='));
    let program = words.next().unwrap_or_default();
    let is_fmail = program == "fmail" || program.ends_with("/fmail");
    is_fmail && words.next() == Some("check") && words.any(|word| word == "--inject")
}

fn unusable(why: String) -> Error {
    Error::new(ErrorKind::InvalidConfig, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_told_from_everybody_elses() {
        for ours in [
            "fmail check --inject",
            "fmail check --inject --for claude --agent bob",
            "/usr/local/bin/fmail check --inject --deadline 2s",
            "FMAIL_AGENT=bob fmail check --inject",
        ] {
            assert!(is_ours(ours), "{ours}");
        }
        for theirs in [
            "fmail check",
            "fmail inbox --inject",
            "notfmail check --inject",
            "fmail check --inject | tee log",
            "my-script # fmail check --inject",
            "echo fmail check --inject",
            "",
        ] {
            assert!(!is_ours(theirs), "{theirs}");
        }
    }
}
