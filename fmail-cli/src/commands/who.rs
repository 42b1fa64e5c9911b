//! `fmail who`

use clap::Args;
use fmail_api::{AgentView, NodeId, Request, Response, Timestamp, WhoRequest};
use fmail_host::known_node;
use serde_json::{Value, json};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note, notice};
use crate::session::{Place, host, now, unexpected};
use crate::{identity, names, render, table};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail who", "names, when they were last seen, what they do"),
    example("fmail who --json", "a JSON array"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Who {
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

impl Who {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let session = place.session(identity::anyone(&place.environment)?)?;
        let Response::Agents { agents, notices } = session.call(Request::Who(WhoRequest::default()))?.head else {
            return Err(unexpected().into());
        };
        notices.iter().for_each(notice);
        let mut output = Output::stdout();
        let own = known_node(&place.environment);
        if self.json {
            output.json(&agents.iter().map(|agent| as_json(agent, own)).collect::<Vec<_>>())?;
        } else if agents.is_empty() {
            note("no agent is known in this project yet");
        } else {
            let now = now();
            for line in rows(&agents, own, now) {
                output.line(&line)?;
            }
        }
        output.flush()
    }
}

/// SPEC.md's table; with the hosts beside the names when an agent is on another one.
fn rows(agents: &[AgentView], own: Option<NodeId>, now: Timestamp) -> Vec<String> {
    let hosts: Vec<Option<String>> = agents.iter().map(|agent| host_of(agent, agents, own)).collect();
    let rows = agents.iter().map(|agent| render::agent_row(agent, now));
    if hosts.iter().all(Option::is_none) {
        return table::lines(["NAME", "LAST SEEN", "STATUS"], &rows.collect::<Vec<_>>());
    }
    let with_host = |([name, seen, status], host): ([String; 3], Option<String>)| {
        [name, host.unwrap_or_else(|| "here".into()), seen, status]
    };
    table::lines(["NAME", "HOST", "LAST SEEN", "STATUS"], &rows.zip(hosts).map(with_host).collect::<Vec<_>>())
}

/// The host of an agent that is on another one. Of two other hosts with one name, each is told by its id.
fn host_of(agent: &AgentView, agents: &[AgentView], own: Option<NodeId>) -> Option<String> {
    let host = names::elsewhere(agent.host.as_deref(), agent.node, own)?;
    let namesake = |other: &AgentView| other.host == agent.host && other.node.is_some() && other.node != agent.node;
    match agent.node {
        Some(node) if agents.iter().any(namesake) => Some(names::marked(agent.host.as_deref(), node)),
        _ => Some(host),
    }
}

/// The agent's own JSON, with what another system calls it. The id of this host says nothing here, and is known only where a
/// daemon runs.
fn as_json(agent: &AgentView, own: Option<NodeId>) -> Value {
    let node = agent.node.filter(|node| Some(*node) != own);
    // Who is here is on a host that may have been called otherwise when it was seen.
    let here = agent.node.is_some() && node.is_none();
    let host = agent.host.clone().map(|named| if here { host().unwrap_or(named) } else { named });
    let mut value = json!(AgentView { node, host, ..agent.clone() });
    if let (Some(fields), Some(name)) = (value.as_object_mut(), names::foreign(&agent.name)) {
        fields.insert("foreign".into(), name.into());
    }
    value
}

#[cfg(test)]
mod tests {
    use fmail_api::{AgentState, Profile};

    use super::*;

    #[test]
    fn the_hosts_are_shown_when_an_agent_is_on_another_one() {
        let now: Timestamp = "2026-01-10T15:30:00Z".parse().unwrap();
        let agent = |name: &str, host: Option<String>| AgentView {
            name: name.parse().unwrap(),
            host,
            node: None,
            status: None,
            state: AgentState::Active,
            first_seen: now,
            last_seen: now,
            profile: Profile::default(),
        };
        let (here, there) = (agent("alice", host()), agent("bob", Some("host-b.invalid".into())));
        assert!(!rows(std::slice::from_ref(&here), None, now)[0].contains("HOST"));
        let on = |agent: AgentView, host: &str, node: u128| {
            let (host, node) = (Some(host.to_string()), Some(NodeId::new(node << 104)));
            AgentView { host, node, ..agent }
        };
        let namesakes =
            [on(agent("b", None), "twin", 0xb), on(agent("c", None), "twin", 0xc), on(agent("a", None), "old", 1)];
        let shown = rows(&namesakes, Some(NodeId::new(1 << 104)), now);
        assert!(shown[1].contains("twin#00000b") && shown[2].contains("twin#00000c"), "{shown:?}");
        assert!(shown[3].contains("here"), "the name has changed, and the host has not: {shown:?}");
        let shown = rows(&[here, there], None, now);
        assert!(shown[0].contains("HOST") && shown[1].contains("here"), "{shown:?}");
        assert!(shown[2].starts_with("bob") && shown[2].contains("host-b.invalid"), "{shown:?}");
    }
}
