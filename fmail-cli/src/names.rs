//! Names as people and scripts write them on a command line.

use fmail_api::{AgentName, Error, ErrorKind, Lease, NodeId, Result, Target};

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

/// The host, where it is another one than this: by its id, where that is known on both sides, and else by its name. One that
/// has our own name is told from us by its id.
pub(crate) fn elsewhere(named: Option<&str>, node: Option<NodeId>, own: Option<NodeId>) -> Option<String> {
    let same_name = named.is_none() || named == host().as_deref();
    let here = match (node, own) {
        (Some(node), Some(own)) => node == own,
        _ => same_name,
    };
    match (here, node) {
        (true, _) => None,
        (false, Some(node)) if same_name => Some(marked(named, node)),
        (false, _) => Some(on_one_line(named.unwrap_or("another host"))),
    }
}

/// A host whose name is not enough: `build-1#3fa9c2`
pub(crate) fn marked(named: Option<&str>, node: NodeId) -> String {
    format!("{}#{}", on_one_line(named.unwrap_or("host")), &node.to_string()[..6])
}

/// The same for who holds a lease. What another host said of its own has that host's id beside it, and is never ours.
pub(crate) fn holder_elsewhere(lease: &Lease) -> Option<String> {
    let node: Option<NodeId> = lease.extra.get("node").and_then(|node| node.as_str()?.parse().ok());
    let named = lease.host.as_deref();
    match elsewhere(named, None, None) {
        None => node.map(|node| marked(named, node)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_host_is_named() {
        assert_eq!(elsewhere(None, None, None), None);
        assert_eq!(elsewhere(host().as_deref(), None, None), None);
        assert_eq!(elsewhere(Some("no\u{1b}where.invalid"), None, None).unwrap(), "no\\u{1b}where.invalid");
    }

    #[test]
    fn a_host_is_told_by_its_id_and_not_by_its_name() {
        let (own, other) = (Some(NodeId::new(1)), Some(NodeId::new(0xabcdef << 104)));
        let name = host();
        assert_eq!(elsewhere(Some("what-it-was-called-before"), own, own), None);
        assert_eq!(elsewhere(name.as_deref(), other, own), name.map(|name| format!("{name}#abcdef")));
        assert_eq!(elsewhere(Some("host-b"), other, own).unwrap(), "host-b");
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
