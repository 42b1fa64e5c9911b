//! The projects of this machine, by absolute path: rules H1 to H4 of [`fmail_api::Host::find`], for every program that
//! serves them.
//!
//! A [`Catalogue`] tells which project a path means ([`find`](Catalogue::find)), remembers it under a slug that no other
//! project has, and lists what it remembers ([`hosted`](Catalogue::hosted)). It opens nothing: whoever serves takes the
//! [`Project`] of a root ([`project`](Catalogue::project)) with its [`Settings`] ([`settings`](Catalogue::settings)) and
//! opens its store, as it does with any other project.
//!
//! ```text
//! $XDG_DATA_HOME/fmail/, else ~/.local/share/fmail/
//!     projects/<slug>.json        what is remembered of a project
//!     keys/<slug>/.fmail/         the project of a path that is no directory below an allowed root
//! ```
//!
//! Any number of processes may use one data directory at a time.

mod create;
mod directory;
mod key;
mod known;
mod roots;
mod slug;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fmail_api::{Clock, Error, ErrorKind, HostedProject, Notice, NoticeKind, Reporter, Result};
use fmail_backends::SystemClock;
use futures::executor::block_on;

pub use create::create_project;
pub use directory::{make_private, user_data};

use crate::project::id::hashed;
use crate::{Environment, Project, Serving, Settings, open_store};
use key::ProjectKey;
use known::{Kind, Known, KnownProjects, file_name};
use roots::AllowedRoots;

/// The projects that are found by their paths.
pub struct Catalogue {
    environment: Environment,
    /// Where the projects of keys lie, without links, so that they are recognised.
    keys: PathBuf,
    data: PathBuf,
    known: KnownProjects,
    roots: AllowedRoots,
    reporter: Reporter,
    /// What was told already: it is asked for again and again.
    told: Mutex<BTreeSet<String>>,
}

/// A path, understood.
struct Place {
    kind: Kind,
    /// The path that means the project: its root, or the key.
    key: String,
    /// The project, whether or not it exists. That of a key lies under its slug, and nobody knows where before it has one.
    project: Option<Project>,
}

impl Catalogue {
    /// The projects below the roots that the settings and `served` allow, and those of keys. What is worth telling and no
    /// failure goes to `reporter`. Creates nothing.
    pub fn new(
        environment: &Environment,
        settings: &Settings,
        served: &[PathBuf],
        reporter: Reporter,
    ) -> Result<Catalogue> {
        let data = user_data(environment)?;
        let mut own = environment.clone();
        // They name one project, for whoever started us, and here the path names it.
        own.vars.remove("FMAIL_ROOT");
        own.vars.remove("FMAIL_PROJECT");
        Ok(Catalogue {
            roots: AllowedRoots::new(environment, settings, served),
            environment: own,
            known: KnownProjects::new(data.join("projects")),
            keys: resolved(&data).join("keys"),
            data,
            reporter,
            told: Mutex::default(),
        })
    }

    /// The project that a path means. Without `create`, one that does not exist is `invalid_project`.
    pub fn find(&self, path: &Path, create: bool) -> Result<HostedProject> {
        let place = self.place(path)?;
        let (project, known) = match place.project {
            Some(project) => (project, None),
            None if create => {
                let known = self.note(place.kind, &place.key, None)?;
                (self.of_key(&known), Some(known))
            }
            None => return Err(self.missing(&place.key)),
        };
        let new = match (exists(&project)?, create) {
            (false, false) => return Err(self.missing(&place.key)),
            // Whoever made the directory may have been killed before it was a project.
            (there, true) if !there || !project.has_record() => {
                if !there {
                    self.may_begin(&place.key, &project)?;
                }
                self.create(&project)?
            }
            _ => false,
        };
        let known = match known {
            Some(known) => known,
            None => self.note(place.kind, &place.key, Some(&project))?,
        };
        hosted(&project, known, new)
    }

    /// Every project that is remembered and still there, by slug. What is not is told, once.
    pub fn hosted(&self) -> Result<Vec<HostedProject>> {
        let (all, broken) = self.known.all()?;
        for error in broken {
            self.tell(NoticeKind::Broken, error.to_string());
        }
        let mut found = Vec::new();
        for known in all {
            match self.still_there(&known) {
                Ok(project) => found.push(project),
                Err(error) => {
                    let (slug, key) = (&known.slug, &known.key);
                    let file = self.known.file(slug);
                    let text = format!(
                        "the project {slug} ({key}) is left out: {error}; to forget it, remove {}",
                        file.display()
                    );
                    self.tell(NoticeKind::Other, text);
                }
            }
        }
        Ok(found)
    }

    /// The project with this root, as [`find`](Catalogue::find) told it; any other root is `invalid_project`.
    pub fn project(&self, root: &Path) -> Result<Project> {
        let place = self.place(root)?;
        match place.project {
            Some(project) if project.root == root && exists(&project)? => Ok(project),
            _ => Err(self.missing(&place.key)),
        }
    }

    /// The settings of a project: its own file counts here as everywhere.
    pub fn settings(&self, project: &Project) -> Result<Settings> {
        Settings::load(&self.environment, Some(project), &[])
    }

    /// The environment without what names a single project in it.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// What a path means, by H1.
    fn place(&self, path: &Path) -> Result<Place> {
        let key = ProjectKey::parse(path)?;
        let in_place = self.roots.directory(&key)?;
        match in_place {
            Some(directory) if directory.starts_with(resolved(&self.data)) => self.own_place(&key, &directory),
            Some(directory) => self.directory_place(&key, &directory),
            None => self.key_place(key.as_str()),
        }
    }

    fn directory_place(&self, key: &ProjectKey, directory: &Path) -> Result<Place> {
        let mut from_there = self.environment.clone();
        from_there.cwd = directory.to_path_buf();
        let mut project = Project::discover(&from_there)?;
        project.root = resolved(&project.root);
        let root = project.root.display();
        if !self.roots.allow(&project.root) {
            let what = format!("{key} belongs to the project in {root}, which is not below an allowed root");
            let help = format!("allowed are {}; mail.projects.roots in your own configuration", self.roots.shown());
            return Err(Error::new(ErrorKind::Denied, what).help(help));
        }
        let Some(text) = project.root.to_str() else {
            return Err(Error::invalid(format!("{key} belongs to the project in {root}, which is not UTF-8 text")));
        };
        Ok(Place { kind: Kind::Directory, key: text.to_string(), project: Some(project) })
    }

    fn key_place(&self, key: &str) -> Result<Place> {
        let known = self.known.get(Kind::Key, key)?;
        Ok(Place { kind: Kind::Key, key: key.to_string(), project: known.map(|known| self.of_key(&known)) })
    }

    /// What a path within our own directory means: a directory of a key is that key's project, and nothing else there is
    /// one.
    fn own_place(&self, path: &ProjectKey, directory: &Path) -> Result<Place> {
        let name = directory.strip_prefix(&self.keys).ok().and_then(|inner| inner.iter().next()?.to_str());
        let (all, _) = self.known.all()?;
        let named = |known: &&Known| known.kind == Kind::Key && Some(file_name(&known.slug).as_str()) == name;
        match all.iter().find(named) {
            Some(known) => self.key_place(&known.key),
            None => Err(Error::new(ErrorKind::Denied, format!("{path} is in a directory that is fmail's own"))
                .help("name the directory that the agent works in")),
        }
    }

    /// The project of a key that has its slug.
    fn of_key(&self, known: &Known) -> Project {
        Project::of_key(self.keys.join(file_name(&known.slug)), hashed(&known.key))
    }

    /// Refuses a project that would take in everything below an allowed root, such as the whole home: whoever asked meant
    /// one directory, and every other one would be that project from then on.
    fn may_begin(&self, key: &str, project: &Project) -> Result<()> {
        if !self.roots.is_one(&project.root) {
            return Ok(());
        }
        let what = format!(
            "{key} is itself an allowed root, and a project there would be that of every directory below it; use a \
             directory below it, or run `fmail init` there yourself"
        );
        Err(Error::new(ErrorKind::Denied, what))
    }

    /// Creates a project; false when somebody else did so at the same time.
    fn create(&self, project: &Project) -> Result<bool> {
        if project.root.starts_with(&self.keys) {
            make_private(&project.root)?;
        }
        // Read first: what cannot be opened afterwards is not created.
        let settings = self.settings(project)?;
        let new = create::make_directory(project)?;
        let filled = || -> Result<()> {
            let store = open_store(project, &settings, self.reporter.clone(), Serving::Daemon)?;
            create_project(project, &*store)?;
            block_on(store.close())
        };
        filled().inspect_err(|_| {
            // Only an empty one goes: what is in it may be somebody's.
            let _ = fs::remove_dir(project.fmail_dir());
        })?;
        Ok(new)
    }

    /// What is remembered of a project, from now on if it was not.
    fn note(&self, kind: Kind, key: &str, project: Option<&Project>) -> Result<Known> {
        if let Some(known) = self.known.get(kind, key)? {
            return Ok(known);
        }
        let recorded = project.map(Project::record).transpose()?.flatten();
        let created = recorded.map_or_else(|| SystemClock.now().whole_seconds(), |record| record.created);
        let (known, new) = self.known.get_or_note(kind, key, created)?;
        if new
            && kind == Kind::Directory
            && let Some(before) = self.known.get(Kind::Key, key)?
        {
            let (slug, root) = (before.slug, self.keys.display());
            let text = format!(
                "{key} is served from its directory now; what was sent while it was not one below an allowed root stays \
                 in {root}/{slug}"
            );
            self.tell(NoticeKind::Other, text);
        }
        Ok(known)
    }

    fn still_there(&self, known: &Known) -> Result<HostedProject> {
        let project = match known.kind {
            Kind::Key => self.of_key(known),
            Kind::Directory => {
                let place = self.place(Path::new(&known.key))?;
                match place.project {
                    Some(project) if place.key == known.key => project,
                    _ => return Err(Error::not_found("its directory is gone, or not below an allowed root")),
                }
            }
        };
        if !exists(&project)? {
            return Err(Error::not_found(format!("{} is not there", project.fmail_dir().display())));
        }
        hosted(&project, known.clone(), false)
    }

    fn missing(&self, key: &str) -> Error {
        if let Some(root) = self.beyond(key) {
            let what = format!(
                "the project in {} is not below an allowed root, so it is not served here; allowed are {}",
                root.display(),
                self.roots.shown()
            );
            return Error::new(ErrorKind::InvalidProject, what)
                .help("put a directory above it into mail.projects.roots of your own configuration");
        }
        Error::new(ErrorKind::InvalidProject, format!("there is no project for {key}"))
            .help("create it first: `fmail init` in that directory, or ensure_project")
    }

    /// Where the command line finds a project for this path, although no client may use it there.
    fn beyond(&self, key: &str) -> Option<PathBuf> {
        let directory = fs::canonicalize(key).ok().filter(|path| path.is_dir() && !self.roots.allow(path))?;
        let from_there = Environment { cwd: directory, ..self.environment.clone() };
        let project = Project::discover(&from_there).ok()?;
        exists(&project).unwrap_or_default().then_some(project.root)
    }

    fn tell(&self, kind: NoticeKind, text: String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(text.clone()) {
            drop(told);
            (self.reporter)(Notice::new(kind, text));
        }
    }
}

fn hosted(project: &Project, known: Known, new: bool) -> Result<HostedProject> {
    let created = project.record()?.map_or(known.created, |record| record.created);
    let (id, _) = project.id()?;
    Ok(HostedProject { id, root: project.root.clone(), key: known.key, slug: known.slug, created, new })
}

/// Whether there is a project: a link in the place of `.fmail` is none.
fn exists(project: &Project) -> Result<bool> {
    let directory = project.fmail_dir();
    match fs::symlink_metadata(&directory) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io(format_args!("cannot look at {}", directory.display()), &error)),
    }
}

/// The path without links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    for (steps, ancestor) in path.ancestors().enumerate() {
        if let Ok(ancestor) = fs::canonicalize(ancestor) {
            let missing: PathBuf = path.iter().skip(path.iter().count() - steps).collect();
            return if steps == 0 { ancestor } else { ancestor.join(missing) };
        }
    }
    path.to_path_buf()
}
