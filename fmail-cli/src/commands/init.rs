//! `fmail init`

use std::sync::Arc;

use clap::Args;
use fmail_api::{Error, ErrorKind, Expect, ProjectIdSource, ProjectRecord, RecordKey, Result, Store};
use fmail_host::{Environment, Project, Route};
use futures::executor::block_on;

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note};
use crate::session::{Place, now};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail init", "make the current directory a project"),
    example("fmail init --project myproj", "with this id"),
];

/// Others may create the project at the same moment; the record is then theirs, and we look again.
const ATTEMPTS: usize = 5;

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Init {
    /// The project's id, the same on every host that shares the project
    #[arg(long, value_name = "ID")]
    project: Option<String>,
}

/// What became of the project's record.
enum Done {
    Created,
    Renamed { before: String },
    Unchanged,
}

impl Init {
    pub(crate) fn run(self, mut environment: Environment, set: &[String]) -> Outcome {
        if let Some(id) = &self.project {
            Project::check_id(id)?;
        }
        let outer = Project::discover(&environment)?;
        // SPEC.md: the current directory, not the repository or the project around it. FMAIL_ROOT still decides.
        let here = environment.cwd.to_str().unwrap_or(".").to_string();
        environment.vars.entry("FMAIL_ROOT".into()).or_insert(here);
        let place = Place::find(environment, set)?;
        let (record, done) = self.write(&place)?;
        let (root, id) = (place.project.root.display(), &record.id);
        match done {
            Done::Created => note(&format!("created the project {id} in {root}")),
            Done::Renamed { before } => note(&format!("the project in {root} was {before} and is now {id}")),
            Done::Unchanged => note(&format!("the project {id} exists already in {root}")),
        }
        if outer.root != place.project.root && outer.fmail_dir().is_dir() {
            note(&format!("it is separate from the project around it in {}", outer.root.display()));
        }
        let (effective, source) = place.project.id()?;
        if effective != *id && source == ProjectIdSource::Environment {
            note(&format!("FMAIL_PROJECT is set, so {effective} is used instead of {id}"));
        }
        let mut output = Output::stdout();
        output.line(id)?;
        output.flush()
    }

    /// Writes the record where it is missing or has another id than the one asked for.
    fn write(&self, place: &Place) -> Result<(ProjectRecord, Done)> {
        let keeper = Keeper::of(place)?;
        let mut created = false;
        for _ in 0..ATTEMPTS {
            let (expect, found) = keeper.get()?;
            let before = found.as_ref().map(|record| record.id.clone());
            let Some(wanted) = self.wanted(place, found.as_ref())? else {
                let record = found.ok_or_else(|| Error::internal("a project without a record needs none"))?;
                return Ok((record, if created { Done::Created } else { Done::Unchanged }));
            };
            match keeper.put(expect, &wanted) {
                Ok(()) => {
                    let done = match before {
                        Some(before) if !created => Done::Renamed { before },
                        _ => Done::Created,
                    };
                    return Ok((wanted, done));
                }
                // A store may write a record of its own when it creates the project for our first write.
                Err(error) if error.kind() == ErrorKind::Conflict => created |= before.is_none(),
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Conflict, "others kept changing the project's record at the same time"))
    }

    /// The record to write, nothing when the one that is there will do.
    fn wanted(&self, place: &Place, found: Option<&ProjectRecord>) -> Result<Option<ProjectRecord>> {
        let mut record = match found {
            Some(record) => record.clone(),
            None => place.project.new_record(now())?,
        };
        match &self.project {
            Some(id) if found.is_none_or(|found| found.id != *id || found.id_from != Some(ProjectIdSource::Init)) => {
                record.id.clone_from(id);
                record.id_from = Some(ProjectIdSource::Init);
                Ok(Some(record))
            }
            _ => Ok(found.is_none().then_some(record)),
        }
    }
}

/// Who keeps the project's record.
enum Keeper<'a> {
    /// The store, among its files.
    Store(Arc<dyn Store>),
    /// The host: it has to be known before the store can be reached.
    Host(&'a Project),
}

impl Keeper<'_> {
    fn of(place: &Place) -> Result<Keeper<'_>> {
        match place.settings.route() {
            Route::Direct => Ok(Keeper::Store(place.store()?)),
            Route::Daemon | Route::DaemonFirst => Ok(Keeper::Host(&place.project)),
        }
    }

    fn get(&self) -> Result<(Expect, Option<ProjectRecord>)> {
        match self {
            Keeper::Store(store) => match block_on(store.get(&RecordKey::project()))? {
                Some(record) => Ok((Expect::Revision(record.revision.clone()), Some(record.decode()?))),
                None => Ok((Expect::Absent, None)),
            },
            Keeper::Host(project) => {
                let found = project.record()?;
                Ok((if found.is_some() { Expect::Anything } else { Expect::Absent }, found))
            }
        }
    }

    fn put(&self, expect: Expect, record: &ProjectRecord) -> Result<()> {
        match self {
            Keeper::Store(store) => {
                let value = serde_json::to_value(record)
                    .map_err(|error| Error::internal(format!("the project's record has no JSON form: {error}")))?;
                block_on(store.put(&RecordKey::project(), expect, value, true)).map(drop)
            }
            Keeper::Host(project) => project.write_record(record, expect != Expect::Absent),
        }
    }
}
