//! Names as people and scripts write them on a command line.

use fmail_api::{AgentName, Error, ErrorKind, Result, Target};

use crate::render::on_one_line;
use crate::session::host;

/// A topic, or `@` and an agent. `@` alone is what a shell makes of `@$FMAIL_AGENT` when the variable is not set.
pub(crate) fn target(text: &str) -> Result<Target> {
    if text.trim() == "@" {
        return Err(Error::new(ErrorKind::InvalidAgent, "the name behind the `@` is empty").help(
            "if you wrote @$FMAIL_AGENT, FMAIL_AGENT is not set in this shell: export FMAIL_AGENT=name; otherwise \
             write @name",
        ));
    }
    text.parse()
}

/// An agent, with or without the `@` that people are used to.
pub(crate) fn agent(text: &str) -> Result<AgentName> {
    let text = text.trim();
    text.strip_prefix('@').unwrap_or(text).parse()
}

/// What another system calls the agent, where that is another name.
pub(crate) fn foreign(agent: &AgentName) -> Option<String> {
    let name = agent.foreign();
    (name != agent.as_str()).then_some(name)
}

/// An agent as people read it: its name, and behind it what another system calls it.
///
/// The own name comes first, since that is what commands take. The other one can hold anything, so that it is quoted unless
/// it is a plain word: nobody's name may look like the rest of a line.
pub(crate) fn shown(agent: &AgentName) -> String {
    shown_as(agent, None)
}

/// The same; `display` is how the agent itself wants to be called, if it has said so: `greendog (GreenDog)`.
pub(crate) fn shown_as(agent: &AgentName, display: Option<&str>) -> String {
    let plain = |name: &str| name.chars().all(|c| c.is_alphanumeric() || "-_/.:@".contains(c));
    let display = display.filter(|name| *name != agent.as_str()).map(String::from);
    match display.or_else(|| foreign(agent)) {
        None => agent.to_string(),
        Some(name) if plain(&name) => format!("{agent} ({name})"),
        Some(name) => format!("{agent} ({name:?})"),
    }
}

/// The same for where a message goes.
pub(crate) fn shown_target(target: &Target) -> String {
    match target {
        Target::Agent(agent) => format!("@{}", shown(agent)),
        Target::Topic(topic) => topic.to_string(),
    }
}

/// The host, where it is another one than this.
pub(crate) fn elsewhere(named: Option<&str>) -> Option<String> {
    let named = named?;
    (Some(named) != host().as_deref()).then(|| on_one_line(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_host_is_named() {
        assert_eq!(elsewhere(None), None);
        assert_eq!(elsewhere(host().as_deref()), None);
        assert_eq!(elsewhere(Some("no\u{1b}where.invalid")).unwrap(), "no\\u{1b}where.invalid");
    }

    #[test]
    fn an_at_sign_alone_points_to_the_variable() {
        for text in ["@", " @ "] {
            let error = target(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidAgent);
            assert!(error.help_text().unwrap().contains("FMAIL_AGENT"));
        }
        assert_eq!(target("@Bob").unwrap().to_string(), "@bob");
        assert_eq!(target("task").unwrap().to_string(), "task");
        assert!(target("").is_err());
    }

    #[test]
    fn an_agent_needs_no_at_sign_but_may_have_one() {
        for text in ["bob", "@bob", " @Bob "] {
            assert_eq!(agent(text).unwrap().as_str(), "bob");
        }
        assert!(agent("@@bob").is_err() && agent("@").is_err());
    }

    #[test]
    fn the_name_of_another_system_stands_behind_the_own_one_and_acts_on_nothing() {
        let check = |name: &str, expect: &str| assert_eq!(shown(&AgentName::from_foreign(name).unwrap()), expect);
        check("coder-1", "coder-1");
        check("gastown/crew-1", "gastown-crew-1--x7s (gastown/crew-1)");
        check("GreenDog", "greendog--x0u-5u (GreenDog)");
        check("a) -> b", "a-----b--x1h29-2b-4h3e-5b (\"a) -> b\")");
        check("a\u{1b}[2J\n", "a--2j---x1h1b-2h5b-4u-5ha (\"a\\u{1b}[2J\\n\")");
        let target = Target::Agent(AgentName::from_foreign("A").unwrap());
        assert_eq!(shown_target(&target), "@a--x0u (A)");
        assert_eq!(shown_target(&"task".parse().unwrap()), "task");
    }
}
