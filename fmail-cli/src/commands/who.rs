//! `fmail who`

use clap::Args;
use fmail_api::{AgentView, Request, Response, WhoRequest};
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
            let rows: Vec<[String; 3]> = agents.iter().map(|agent| render::agent_row(agent, now)).collect();
            for line in table::lines(["NAME", "LAST SEEN", "STATUS"], &rows) {
                output.line(&line)?;
            }
        }
        output.flush()
    }
}

/// The agent's own JSON, with what another system calls it.
fn as_json(agent: &AgentView) -> Value {
    let mut value = json!(agent);
    if let (Some(fields), Some(name)) = (value.as_object_mut(), names::foreign(&agent.name)) {
        fields.insert("foreign".into(), name.into());
    }
    value
}
