//! `fmail who`

use clap::Args;
use fmail_api::{AgentView, Request, Response, Timestamp, WhoRequest};
use serde_json::{Value, json};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note, notice};
use crate::session::{Place, now, unexpected};
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
        if self.json {
            output.json(&agents.iter().map(as_json).collect::<Vec<_>>())?;
        } else if agents.is_empty() {
            note("no agent is known in this project yet");
        } else {
            let now = now();
            for line in rows(&agents, now) {
                output.line(&line)?;
            }
        }
        output.flush()
    }
}

/// SPEC.md's table; with the hosts beside the names when an agent is on another one.
fn rows(agents: &[AgentView], now: Timestamp) -> Vec<String> {
    let hosts: Vec<Option<String>> = agents.iter().map(|agent| names::elsewhere(agent.host.as_deref())).collect();
    let rows = agents.iter().map(|agent| render::agent_row(agent, now));
    if hosts.iter().all(Option::is_none) {
        return table::lines(["NAME", "LAST SEEN", "STATUS"], &rows.collect::<Vec<_>>());
    }
    let with_host = |([name, seen, status], host): ([String; 3], Option<String>)| {
        [name, host.unwrap_or_else(|| "here".into()), seen, status]
    };
    table::lines(["NAME", "HOST", "LAST SEEN", "STATUS"], &rows.zip(hosts).map(with_host).collect::<Vec<_>>())
}

/// The agent's own JSON, with what another system calls it.
fn as_json(agent: &AgentView) -> Value {
    let mut value = json!(agent);
    if let (Some(fields), Some(name)) = (value.as_object_mut(), names::foreign(&agent.name)) {
        fields.insert("foreign".into(), name.into());
    }
    value
}

#[cfg(test)]
mod tests {
    use fmail_api::{AgentState, Profile};

    use super::*;
    use crate::session::host;

    #[test]
    fn the_hosts_are_shown_when_an_agent_is_on_another_one() {
        let now: Timestamp = "2026-01-10T15:30:00Z".parse().unwrap();
        let agent = |name: &str, host: Option<String>| AgentView {
            name: name.parse().unwrap(),
            host,
            status: None,
            state: AgentState::Active,
            first_seen: now,
            last_seen: now,
            profile: Profile::default(),
        };
        let (here, there) = (agent("alice", host()), agent("bob", Some("host-b.invalid".into())));
        assert!(!rows(std::slice::from_ref(&here), now)[0].contains("HOST"));
        let shown = rows(&[here, there], now);
        assert!(shown[0].contains("HOST") && shown[1].contains("here"), "{shown:?}");
        assert!(shown[2].starts_with("bob") && shown[2].contains("host-b.invalid"), "{shown:?}");
    }
}
