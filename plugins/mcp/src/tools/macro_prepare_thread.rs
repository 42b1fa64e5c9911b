//! `macro_prepare_thread`: brings an agent up to date with a thread.

use serde_json::json;

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::{Failure, Result};
use crate::names::{self, display};
use crate::rows;
use crate::tool::{Answer, Effect, PROJECT, Parameter, Takes, Tool};
use crate::tools::fetch_inbox::MOST;
use crate::tools::macro_start_session::inbox;
use crate::tools::register_agent::Registration;
use crate::tools::summarize_thread::Digest;
use crate::visit::Visit;

pub(super) static TOOL: Tool = Tool {
    name: "macro_prepare_thread",
    about: "Join an existing thread: registers the agent if it is new, summarises the thread, and gives the inbox.",
    offered: Profile::Standard,
    effect: Effect::Settles,
    parameters: &[
        PROJECT,
        Parameter::required("thread_id", Takes::Text),
        Parameter::optional("agent_name", Takes::Text).or(&["name"]),
        Parameter::optional("program", Takes::Text),
        Parameter::optional("model", Takes::Text),
        Parameter::optional("task_description", Takes::Text),
        Parameter::optional("register_if_missing", Takes::Flag).about("Default true."),
        Parameter::optional("include_examples", Takes::Flag).about("Default true."),
        Parameter::optional("inbox_limit", Takes::Number(1, MOST)).about("Default 10."),
        Parameter::optional("include_inbox_bodies", Takes::Flag),
    ],
    ignored: &["llm_mode", "llm_model"],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let name = arguments.text("agent_name");
    let register = arguments.flag("register_if_missing").unwrap_or(true);
    let (agent, told) = match name {
        None if !register => {
            return Err(Failure::argument("agent_name is needed where register_if_missing is false."));
        }
        Some(name) if !register => {
            let view = names::known(&project, "agent_name", name).await?;
            let told = rows::agent(&project, &view);
            (view, told)
        }
        name => {
            let registration = Registration {
                name,
                program: arguments.words("program"),
                model: arguments.words("model"),
                task: arguments.words("task_description"),
                attachments_policy: None,
            };
            registration.register(&project).await?
        }
    };
    let digest = Digest::of(&project, arguments.required("thread_id")?.trim(), None).await?;
    let mut thread = digest.fields(arguments.flag("include_examples").unwrap_or(true));
    thread.insert("total_messages".into(), digest.total().into());
    let bodies = arguments.flag("include_inbox_bodies").unwrap_or_default();
    let inbox = inbox(&project, &display(&agent), arguments.number("inbox_limit"), bodies).await?;
    Ok(Answer::Object(json!({
        "project": rows::project(&project),
        "agent": told,
        "thread": thread,
        "inbox": inbox,
    })))
}
