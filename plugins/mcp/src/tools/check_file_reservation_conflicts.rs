//! `check_file_reservation_conflicts`: who holds paths; takes nothing.

use fmail_api::{AgentName, HeldLease};
use serde_json::{Value, json};

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::Result;
use crate::names::{self, Directory};
use crate::tool::{Answer, Effect, PROJECT, Parameter, Takes, Tool};
use crate::tools::file_reservation_paths::{holder, relative};
use crate::visit::{Project, Visit, taken};

pub(super) static TOOL: Tool = Tool {
    name: "check_file_reservation_conflicts",
    about: "Who holds reservations that overlap these paths, or all reservations without paths. Takes none.",
    offered: Profile::Full,
    effect: Effect::Reads,
    parameters: &[
        PROJECT,
        Parameter::optional("paths", Takes::Texts),
        Parameter::optional("agent_name", Takes::Text).about("Leave this agent's own out."),
    ],
    ignored: &[],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let own = match arguments.words("agent_name") {
        Some(name) => Some(names::known(&project, "agent_name", name).await?.name),
        None => None,
    };
    let Some(paths) = arguments.texts("paths") else {
        let held = leases(&project, None, own.as_ref()).await?;
        let mut named: Vec<&AgentName> = Vec::new();
        for held in &held {
            named.extend(held.conflicts.iter().chain([&held.lease]).map(|lease| &lease.agent));
        }
        let names = Directory::of(&project, named).await?;
        let held: Vec<Value> = held.iter().map(|held| row(held, &names)).collect();
        return Ok(Answer::Object(json!({"file_reservations": held})));
    };
    let mut conflicts = Vec::new();
    for path in paths {
        let held = leases(&project, Some(relative(&project, path)), own.as_ref()).await?;
        let names = Directory::of(&project, held.iter().map(|held| &held.lease.agent)).await?;
        if !held.is_empty() {
            let holders: Vec<Value> = held.iter().map(|held| holder(&held.lease, &names)).collect();
            conflicts.push(json!({"path": path, "holders": holders}));
        }
    }
    Ok(Answer::Object(json!({"conflicts": conflicts, "has_conflicts": !conflicts.is_empty()})))
}

/// A lease, and those on other hosts that are in conflict with it.
fn row(held: &HeldLease, names: &Directory) -> Value {
    let mut row = holder(&held.lease, names);
    if !held.conflicts.is_empty() {
        row["conflicts"] = held.conflicts.iter().map(|other| holder(other, names)).collect();
    }
    row
}

/// The leases that hold, of others.
async fn leases(project: &Project, path: Option<String>, own: Option<&AgentName>) -> Result<Vec<HeldLease>> {
    let mut answer = project.overview().run("reservations", json!({"path": path})).await?;
    let mut held: Vec<HeldLease> = taken(&mut answer, "reservations")?;
    held.retain(|held| Some(&held.lease.agent) != own);
    Ok(held)
}
