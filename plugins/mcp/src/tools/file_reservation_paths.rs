//! `file_reservation_paths`: takes leases on paths, as far as nobody else is in the way.

use std::path::Path;

use fmail_api::{AgentName, Lease, LeaseConflict};
use serde_json::{Map, Value, json};

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::{Failure, Kind, Result, shown};
use crate::ids;
use crate::names::{self, Directory};
use crate::tool::{AGENT, Answer, Effect, PROJECT, Parameter, Takes, Tool};
use crate::visit::{Project, Visit, taken};

/// The longest lease that fmail gives, in seconds.
pub(super) const LONGEST: u64 = 7 * 86_400;

pub(super) static TOOL: Tool = Tool {
    name: "file_reservation_paths",
    about: "Reserve files or globs before editing them. Paths that another agent holds are not granted: the answer is then \
            an error FILE_RESERVATION_CONFLICT that names the holders; the others are granted.",
    offered: Profile::Standard,
    effect: Effect::Settles,
    parameters: &[
        PROJECT,
        AGENT,
        Parameter::required("paths", Takes::Texts).about("Relative to the project, e.g. src/**."),
        Parameter::optional("ttl_seconds", Takes::Number(1, LONGEST)).about("Default 600."),
        Parameter::optional("exclusive", Takes::Flag).about("Default false: shared with other non-exclusive ones."),
        Parameter::optional("reason", Takes::Text),
    ],
    ignored: &[],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let agent = names::known(&project, "agent_name", arguments.required("agent_name")?).await?;
    let wanted = Reservation {
        agent: &agent.name,
        paths: arguments.texts("paths").unwrap_or_default(),
        ttl_seconds: arguments.number("ttl_seconds").unwrap_or(600),
        exclusive: arguments.flag("exclusive").unwrap_or_default(),
        reason: arguments.words("reason"),
    };
    let reserved = wanted.take(&project).await?;
    match reserved.conflict() {
        None => Ok(Answer::Object(reserved.fields().into())),
        Some(mut failure) => {
            for (name, value) in reserved.fields() {
                failure = failure.beside(&name, value);
            }
            Err(failure)
        }
    }
}

/// What an agent wants to reserve.
pub(super) struct Reservation<'a> {
    pub(super) agent: &'a AgentName,
    pub(super) paths: Vec<&'a str>,
    pub(super) ttl_seconds: u64,
    pub(super) exclusive: bool,
    pub(super) reason: Option<&'a str>,
}

/// What it got.
pub(super) struct Taken {
    granted: Vec<Value>,
    conflicts: Vec<Value>,
    /// What was not granted, in words. What another host holds is granted all the same: between hosts conflicts are shown,
    /// not prevented.
    refused: Option<String>,
    /// What was granted here and is held on another host too, in words.
    elsewhere: Option<String>,
}

impl Reservation<'_> {
    /// Takes what is free.
    pub(super) async fn take(&self, project: &Project) -> Result<Taken> {
        if self.paths.is_empty() {
            return Err(Failure::argument(
                "paths list cannot be empty. Provide at least one file path or glob pattern to reserve, for example \
                 ['src/api/*.py'].",
            ));
        }
        let paths: Vec<String> = self.paths.iter().map(|path| relative(project, path)).collect();
        let request = json!({
            "paths": paths,
            "ttl_seconds": self.ttl_seconds,
            "exclusive": self.exclusive,
            "reason": self.reason,
        });
        let mut answer = project.desk(self.agent).run("reserve", request).await?;
        let granted: Vec<Lease> = taken(&mut answer, "granted")?;
        let conflicts: Vec<LeaseConflict> = taken(&mut answer, "conflicts")?;
        let holders = conflicts.iter().flat_map(|conflict| &conflict.holders).map(|lease| &lease.agent);
        let names = Directory::of(project, holders).await?;
        let is_granted = |conflict: &&LeaseConflict| granted.iter().any(|lease| lease.pattern == conflict.path);
        let (both, refused): (Vec<_>, Vec<_>) = conflicts.iter().partition(is_granted);
        Ok(Taken {
            elsewhere: (!both.is_empty()).then(|| held_elsewhere(&both, &names)),
            granted: granted.iter().map(grant).collect(),
            refused: (!refused.is_empty()).then(|| sentence(&granted, &refused, &names)),
            conflicts: conflicts.iter().map(|conflict| in_the_way(conflict, &names)).collect(),
        })
    }
}

impl Taken {
    /// What was granted and what was not.
    pub(super) fn fields(&self) -> Map<String, Value> {
        let mut fields = rmcp::model::object(json!({"granted": self.granted, "conflicts": self.conflicts}));
        fields.extend(self.elsewhere.as_ref().map(|sentence| ("warning".to_string(), sentence.as_str().into())));
        fields
    }

    /// That somebody is in the way, if anybody is.
    pub(super) fn conflict(&self) -> Option<Failure> {
        self.refused.as_ref().map(|sentence| {
            Failure::new(Kind::FileReservationConflict, sentence.clone())
                .with("granted", self.granted.len())
                .with("conflicts", json!(self.conflicts))
        })
    }
}

/// A path as the project knows it. Agents know their files by absolute paths too.
pub(super) fn relative(project: &Project, path: &str) -> String {
    let below = |root: &Path| Path::new(path).strip_prefix(root).ok().map(|rest| rest.to_string_lossy().into_owned());
    let rest = below(&project.hosted.root).or_else(|| below(Path::new(&project.hosted.key)));
    match rest.filter(|rest| !rest.is_empty()) {
        Some(rest) if path.ends_with('/') => format!("{rest}/"),
        Some(rest) => rest,
        None => path.into(),
    }
}

fn grant(lease: &Lease) -> Value {
    json!({
        "id": lease.id,
        "path_pattern": lease.pattern,
        "exclusive": lease.exclusive,
        "reason": lease.reason.as_deref().unwrap_or_default(),
        "expires_ts": ids::time(lease.until),
    })
}

/// Who holds a lease, and on which host, if that is another one.
pub(super) fn holder(lease: &Lease, names: &Directory) -> Value {
    let mut row = json!({
        "agent": names.shown(&lease.agent),
        "path_pattern": lease.pattern,
        "exclusive": lease.exclusive,
        "expires_ts": ids::time(lease.until),
        "id": lease.id,
        "reason": lease.reason.as_deref().unwrap_or_default(),
    });
    if let Some(host) = host_elsewhere(lease) {
        row["host"] = host.into();
    }
    row
}

/// The host of a lease that is held on another one. One of this host's own may say where its agent is; only one of another
/// host has that host's id.
fn host_elsewhere(lease: &Lease) -> Option<&str> {
    lease.host.as_deref().filter(|_| lease.extra.contains_key("node"))
}

fn in_the_way(conflict: &LeaseConflict, names: &Directory) -> Value {
    let holders: Vec<Value> = conflict.holders.iter().map(|lease| holder(lease, names)).collect();
    let mut row = json!({"path": conflict.path, "holders": holders});
    if let Some(example) = &conflict.example {
        row["example"] = example.as_str().into();
    }
    row
}

/// Who holds what is held, on which host and until when.
fn held(conflicts: &[&LeaseConflict], names: &Directory) -> String {
    let held = conflicts.iter().map(|conflict| {
        let holders = conflict.holders.iter().map(|lease| {
            let on = host_elsewhere(lease);
            let on = on.map(|host| format!(" on host {}", shown(host))).unwrap_or_default();
            let (agent, until) = (names.shown(&lease.agent), ids::time(lease.until));
            format!("{agent}{on} holds '{}' until {until}", shown(&lease.pattern))
        });
        format!("'{}' ({})", shown(&conflict.path), holders.collect::<Vec<_>>().join("; "))
    });
    held.collect::<Vec<_>>().join(", ")
}

fn held_elsewhere(conflicts: &[&LeaseConflict], names: &Directory) -> String {
    format!(
        "Granted here, and held on another host too: {}. Do not edit these before you have asked the holder; release them, \
         or go ahead only if both of you know.",
        held(conflicts, names)
    )
}

fn sentence(granted: &[Lease], refused: &[&LeaseConflict], names: &Directory) -> String {
    let got: Vec<String> = granted.iter().map(|lease| format!("'{}'", shown(&lease.pattern))).collect();
    let got = match got.is_empty() {
        true => "Nothing was granted.".to_string(),
        false => format!("Granted all the same: {}.", got.join(", ")),
    };
    format!(
        "FILE_RESERVATION_CONFLICT: not granted: {}. {got} Wait, ask the holder, or choose other paths.",
        held(refused, names)
    )
}
