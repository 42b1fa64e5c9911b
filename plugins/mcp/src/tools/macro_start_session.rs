//! `macro_start_session`: a project, an agent, reservations and the inbox in one call.

use serde_json::{Value, json};

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::Result;
use crate::rows;
use crate::tool::{Answer, Effect, PROJECT, Parameter, Takes, Tool};
use crate::tools::fetch_inbox::{MOST, Wanted};
use crate::tools::file_reservation_paths::{LONGEST, Reservation};
use crate::tools::register_agent::{POLICY, Registration};
use crate::visit::Visit;

pub(super) static TOOL: Tool = Tool {
    name: "macro_start_session",
    about: "Start here: ensure_project, register_agent, optional exclusive reservations, and the inbox, in one call.",
    offered: Profile::Standard,
    effect: Effect::Settles,
    parameters: &[
        PROJECT.about("Absolute path of the working directory."),
        Parameter::optional("agent_name", Takes::Text).or(&["name"]),
        Parameter::optional("program", Takes::Text),
        Parameter::optional("model", Takes::Text),
        Parameter::optional("task_description", Takes::Text),
        Parameter::optional("reserve_paths", Takes::Texts).or(&["file_reservation_paths"]),
        Parameter::optional("reserve_reason", Takes::Text).or(&["file_reservation_reason"]),
        Parameter::optional("reserve_ttl_seconds", Takes::Number(1, LONGEST))
            .or(&["file_reservation_ttl_seconds"])
            .about("Default 3600."),
        Parameter::optional("inbox_limit", Takes::Number(1, MOST)).about("Default 10."),
        POLICY,
    ],
    ignored: &["identity_mode"],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

/// A conflict does not make the call a failure: the session is there. It is told where the reservations are.
async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.ensured_project(arguments.required("project_key")?).await?;
    let registration = Registration {
        name: arguments.text("agent_name"),
        program: arguments.words("program"),
        model: arguments.words("model"),
        task: arguments.text("task_description"),
        attachments_policy: arguments.text("attachments_policy"),
    };
    let (agent, told) = registration.register(&project).await?;
    let paths = arguments.texts("reserve_paths").unwrap_or_default();
    let reservations = if paths.is_empty() {
        rmcp::model::object(json!({"granted": [], "conflicts": []}))
    } else {
        let wanted = Reservation {
            agent: &agent.name,
            paths,
            ttl_seconds: arguments.number("reserve_ttl_seconds").unwrap_or(3600),
            exclusive: true,
            reason: Some(arguments.words("reserve_reason").unwrap_or("macro-session")),
        };
        match wanted.take(&project).await {
            Ok(taken) => {
                let mut fields = taken.fields();
                fields.extend(taken.conflict().map(|failure| ("error".to_string(), failure.object())));
                fields
            }
            Err(failure) => rmcp::model::object(json!({"granted": [], "conflicts": [], "error": failure.object()})),
        }
    };
    let inbox = inbox(&project, &crate::names::display(&agent), arguments.number("inbox_limit"), false).await?;
    Ok(Answer::Object(json!({
        "project": rows::project(&project),
        "agent": told,
        "file_reservations": reservations,
        "inbox": inbox,
    })))
}

/// The newest mail of an agent, as macros show it.
pub(super) async fn inbox(
    project: &crate::visit::Project,
    agent: &str,
    limit: Option<u64>,
    bodies: bool,
) -> Result<Vec<Value>> {
    let wanted = Wanted {
        agent,
        limit: limit.unwrap_or(10),
        unread_only: false,
        urgent_only: false,
        bodies,
        since: None,
        thread: None,
    };
    Ok(wanted.fetch(project).await?.rows)
}
