//! `release_file_reservations`: gives leases back.

use fmail_api::{Lease, SkippedLease};
use serde_json::{Map, Value, json};

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::{Failure, Result};
use crate::tool::{AGENT, Answer, Effect, PROJECT, Parameter, Takes, Tool};
use crate::tools::file_reservation_paths::relative;
use crate::visit::{Project, Visit, taken};
use crate::{ids, names};

/// Leases by their paths.
pub(super) const PATHS: Parameter = Parameter::optional("paths", Takes::Texts).about("As they were reserved.");
/// Leases by their numbers.
pub(super) const IDS: Parameter = Parameter::optional("file_reservation_ids", Takes::Numbers);

pub(super) static TOOL: Tool = Tool {
    name: "release_file_reservations",
    about: "Release the agent's reservations: those named, or all of them.",
    offered: Profile::Standard,
    effect: Effect::Settles,
    parameters: &[PROJECT, AGENT, PATHS, IDS],
    ignored: &[],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let agent = names::known(&project, "agent_name", arguments.required("agent_name")?).await?.name;
    let mut answer = project.desk(&agent).run("release", which(&project, &arguments, "release")?.into()).await?;
    let released: Vec<Lease> = taken(&mut answer, "changed")?;
    let mut told = json!({"released": released.len(), "released_at": ids::time(ids::now())});
    tell_skipped(&mut told, taken(&mut answer, "skipped")?);
    Ok(Answer::Object(told))
}

/// Which leases are meant: those named, all when none are. An empty list is a mistake, not a wish for all.
pub(super) fn which(project: &Project, arguments: &Arguments, doing: &str) -> Result<Map<String, Value>> {
    let (paths, ids) = (arguments.texts("paths"), arguments.numbers("file_reservation_ids"));
    let empty = |name: &str| {
        Failure::argument(format!(
            "{name} cannot be an empty list. Omit it to {doing} all of the agent's reservations."
        ))
    };
    match (&paths, &ids) {
        (Some(paths), _) if paths.is_empty() => Err(empty("paths")),
        (_, Some(ids)) if ids.is_empty() => Err(empty("file_reservation_ids")),
        (None, None) => Ok(Map::from_iter([("all".into(), true.into())])),
        _ => {
            let paths: Vec<String> =
                paths.unwrap_or_default().into_iter().map(|path| relative(project, path)).collect();
            Ok(rmcp::model::object(json!({"paths": paths, "ids": ids.unwrap_or_default()})))
        }
    }
}

/// What was named and left alone, with the reason.
pub(super) fn tell_skipped(answer: &mut Value, skipped: Vec<SkippedLease>) {
    if !skipped.is_empty() {
        answer["skipped"] = json!(skipped);
    }
}
