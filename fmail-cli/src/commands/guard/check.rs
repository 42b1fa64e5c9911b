//! Whether the staged paths are free.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fmail_api::{AgentName, Lease, Request, ReservationsRequest, Response, Result};
use fmail_core::{PathPattern, lease_pattern};
use fmail_host::{Environment, Project};
use serde_json::{Value, json};

use super::git;
use crate::output::{Outcome, Output, note};
use crate::render::on_one_line;
use crate::session::{Place, now, unexpected};
use crate::{identity, leases};

/// So many paths are told one by one.
const TOLD: usize = 20;

/// A staged path and the reservation in its way.
struct Taken {
    path: String,
    lease: Lease,
}

/// Ends well when the staged paths are free, with `conflict` when one is not, and with another error when it cannot tell.
pub(super) fn run(environment: &Environment, set: &[String], json: bool) -> Outcome {
    let me = identity::named(environment)?;
    let worktree = git::worktree(&environment.cwd)?;
    let staged = git::staged(&environment.cwd)?;
    let mut reservations =
        Reservations { environment, set, me: me.clone(), around: BTreeMap::new(), of: BTreeMap::new() };
    let mut taken = Vec::new();
    for path in &staged {
        for lease in reservations.on(&worktree.join(path))? {
            taken.push(Taken { path: path.to_string_lossy().into_owned(), lease });
        }
    }
    if json {
        let taken: Vec<Value> = taken.iter().map(|one| json!({"path": one.path, "reservation": one.lease})).collect();
        let mut output = Output::stdout();
        output.json(&taken)?;
        output.flush()?;
    }
    told(&taken, staged.len(), me.as_ref())
}

fn told(taken: &[Taken], staged: usize, me: Option<&AgentName>) -> Outcome {
    let Some(first) = taken.first() else { return Ok(()) };
    let now = now();
    for one in taken.iter().take(TOLD) {
        note(&format!("{} is held by {}", on_one_line(&one.path), leases::holder(&one.lease, now)));
    }
    if taken.len() > TOLD {
        note(&format!("and {} more; `fmail guard check --json` lists all", taken.len() - TOLD));
    }
    if me.is_none() {
        note("FMAIL_AGENT is not set, so that every reservation counts as somebody else's");
    }
    let mut paths: Vec<&str> = taken.iter().map(|one| one.path.as_str()).collect();
    paths.dedup();
    let help = format!(
        "ask the holder (fmail send @{} …), wait, or commit all the same with `git commit --no-verify`",
        first.lease.agent
    );
    Err(leases::refused(format!("{} of {staged} staged paths are reserved by others", paths.len()), &help).into())
}

/// The exclusive reservations of others, in every project that a path lies in.
struct Reservations<'a> {
    environment: &'a Environment,
    set: &'a [String],
    me: Option<AgentName>,
    /// The roots of the projects around a directory.
    around: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// What is reserved in a project, by its root.
    of: BTreeMap<PathBuf, Reserved>,
}

/// A project and what others have reserved in it for themselves alone.
struct Reserved {
    project: Project,
    leases: Vec<(PathPattern, Lease)>,
}

impl Reservations<'_> {
    /// Those on a file.
    fn on(&mut self, path: &Path) -> Result<Vec<Lease>> {
        let directory = path.parent().unwrap_or(path);
        if !self.around.contains_key(directory) {
            let roots = self.enter(directory)?;
            self.around.insert(directory.to_path_buf(), roots);
        }
        let mut found = Vec::new();
        let roots = self.around.get(directory).into_iter().flatten();
        for reserved in roots.filter_map(|root| self.of.get(root)) {
            let Some(place) = reserved.project.place_of(path)? else { continue };
            // A pattern is text: a name that is not can only be covered by its directory or a wildcard, and so it is here.
            let place = place.to_string_lossy();
            let covering = reserved.leases.iter().filter(|(pattern, _)| pattern.matches(&place));
            found.extend(covering.map(|(_, lease)| lease.clone()));
        }
        Ok(found)
    }

    /// Reads the reservations of all projects around a directory. Below a repository's root there may be further projects,
    /// and an agent that works above reserves in the one above; FMAIL_ROOT means one and no other.
    fn enter(&mut self, directory: &Path) -> Result<Vec<PathBuf>> {
        let fixed = self.environment.var("FMAIL_ROOT").is_some();
        let mut next = Some(if fixed { self.environment.cwd.clone() } else { directory.to_path_buf() });
        let mut roots: Vec<PathBuf> = Vec::new();
        while let Some(cwd) = next.take() {
            let environment = Environment { cwd, ..self.environment.clone() };
            let project = Project::discover(&environment)?;
            let root = project.root.clone();
            if roots.contains(&root) || !project.fmail_dir().is_dir() {
                break;
            }
            if !self.of.contains_key(&root) {
                let leases = self.read(environment)?;
                self.of.insert(root.clone(), Reserved { project, leases });
            }
            next = root.parent().filter(|_| !fixed).map(Path::to_path_buf);
            roots.push(root);
        }
        Ok(roots)
    }

    fn read(&self, environment: Environment) -> Result<Vec<(PathPattern, Lease)>> {
        let place = Place::find(environment, self.set)?;
        let session = place.session(identity::anyone(&place.environment)?)?;
        let request = Request::Reservations(ReservationsRequest::default());
        let Response::Reservations(held) = session.call(request)?.head else { return Err(unexpected()) };
        let held = held.into_iter().map(|held| held.lease);
        let others = held.filter(|lease| lease.exclusive && Some(&lease.agent) != self.me.as_ref());
        others.map(|lease| Ok((lease_pattern(&lease)?, lease))).collect()
    }
}
