//! `renew_file_reservations`: lets leases last longer, counted from now.
//!
//! `new_ttl_seconds` says how long they last from now on. `extend_seconds` says how much longer they are needed at least: a
//! lease that lasts longer anyway is left as it is, since nobody who asks for more time wants to end up with less.

use fmail_api::{Lease, SkippedLease};
use serde_json::json;

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::{Failure, Result};
use crate::tool::{AGENT, Answer, Effect, PROJECT, Parameter, Takes, Tool};
use crate::tools::file_reservation_paths::LONGEST;
use crate::tools::release_file_reservations::{IDS, PATHS, tell_skipped, which};
use crate::visit::{Project, Visit, taken};
use crate::{ids, names};

pub(super) static TOOL: Tool = Tool {
    name: "renew_file_reservations",
    about: "Let the agent's reservations last longer, counted from now: those named, or all of them.",
    offered: Profile::Standard,
    effect: Effect::Settles,
    parameters: &[
        PROJECT,
        AGENT,
        PATHS,
        IDS,
        Parameter::optional("new_ttl_seconds", Takes::Number(1, LONGEST)).about("They end so long from now."),
        Parameter::optional("extend_seconds", Takes::Number(1, LONGEST))
            .about("At least so long from now. Default 1800."),
    ],
    ignored: &[],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let agent = names::known(&project, "agent_name", arguments.required("agent_name")?).await?.name;
    let (ttl, at_least) = match (arguments.number("new_ttl_seconds"), arguments.number("extend_seconds")) {
        (Some(_), Some(_)) => {
            return Err(Failure::argument("new_ttl_seconds and extend_seconds exclude each other. Give one of them."));
        }
        (Some(ttl), None) => (ttl, false),
        (None, extend) => (extend.unwrap_or(1800), true),
    };
    let before = held(&project, &agent).await?;
    let mut request = which(&project, &arguments, "renew")?;
    request.insert("ttl_seconds".into(), ttl.into());
    request.insert("at_least".into(), at_least.into());
    let mut answer = project.desk(&agent).run("renew", request.into()).await?;
    let renewed: Vec<Lease> = taken(&mut answer, "changed")?;
    let rows = renewed.iter().map(|lease| {
        let old = before.iter().find(|old| old.id == lease.id).unwrap_or(lease);
        json!({
            "id": lease.id,
            "path_pattern": lease.pattern,
            "old_expires_ts": ids::time(old.until),
            "new_expires_ts": ids::time(lease.until),
        })
    });
    let mut told = json!({"renewed": renewed.len(), "file_reservations": rows.collect::<Vec<_>>()});
    tell_skipped(&mut told, taken::<Vec<SkippedLease>>(&mut answer, "skipped")?);
    Ok(Answer::Object(told))
}

/// What the agent holds now.
async fn held(project: &Project, agent: &fmail_api::AgentName) -> Result<Vec<Lease>> {
    let mut answer = project.desk(agent).run("reservations", json!({"held_by": agent})).await?;
    taken(&mut answer, "reservations")
}
