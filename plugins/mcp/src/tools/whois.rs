//! `whois`: an agent's profile.

use serde_json::json;

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::Result;
use crate::tool::{AGENT, Answer, Effect, PROJECT, Tool};
use crate::visit::Visit;
use crate::{names, rows};

pub(super) static TOOL: Tool = Tool {
    name: "whois",
    about: "An agent's profile; an error if it is not registered.",
    offered: Profile::Standard,
    effect: Effect::Reads,
    parameters: &[PROJECT, AGENT],
    // What an agent committed is for git to tell.
    ignored: &["include_recent_commits", "commit_limit"],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let view = names::known(&project, "agent_name", arguments.required("agent_name")?).await?;
    let mut answer = rows::agent(&project, &view);
    answer.insert("state".into(), json!(view.state));
    answer.insert("status".into(), json!(view.status));
    answer.insert("recent_commits".into(), json!([]));
    Ok(Answer::Object(answer.into()))
}
