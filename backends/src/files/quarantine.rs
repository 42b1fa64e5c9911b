//! Files that cannot be understood: found, moved out of the way on request, put back or deleted.
//!
//! A file in quarantine is called `<when it was moved>~<its path below .fmail, with %2F for />`.

use std::io;

use async_trait::async_trait;
use fmail_api::{AgentRecord, Broken, Error, ErrorKind, MessageId, Quarantine, Quarantined, Result};

use super::fs::{Dir, Kind, ensure_dir, read_file};
use super::head::MAX_FILE;
use super::reader::parse;
use super::session::Session;
use super::{FilesStore, layout};

#[async_trait]
impl Quarantine for FilesStore {
    async fn broken(&self) -> Result<Vec<Broken>> {
        self.session.broken()
    }

    async fn held(&self) -> Result<Vec<Quarantined>> {
        self.session.held()
    }

    async fn isolate(&self, place: &str) -> Result<Quarantined> {
        self.session.isolate(place)
    }

    async fn restore(&self, name: &str) -> Result<String> {
        self.session.restore(name)
    }

    async fn discard(&self, name: &str) -> Result<()> {
        self.session.discard(name)
    }
}

impl Session {
    /// Reads every message and agent file, and tells which cannot be understood.
    fn broken(&self) -> Result<Vec<Broken>> {
        let Some(top) = self.top()? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for parent in [layout::TOPICS, layout::DIRECT] {
            for (name, _) in self.names(&top, &[parent])? {
                for (file, kind) in self.names(&top, &[parent, &name])? {
                    if let Some(reason) = self.problem(&top, &[parent, &name, &file], kind) {
                        found.push(Broken { place: format!("{parent}/{name}/{file}"), reason });
                    }
                }
            }
        }
        for (file, kind) in self.names(&top, &[layout::AGENTS])? {
            if let Some(reason) = self.problem(&top, &[layout::AGENTS, &file], kind) {
                found.push(Broken { place: format!("{}/{file}", layout::AGENTS), reason });
            }
        }
        found.sort_by(|one, two| one.place.cmp(&two.place));
        Ok(found)
    }

    /// The names in a directory; none when it is missing.
    fn names(&self, top: &Dir, path: &[&str]) -> Result<Vec<(String, Kind)>> {
        let mut names = Vec::new();
        let listed = self.walk(top, path).and_then(|dir| {
            self.fs().list(&dir, &mut |name, kind| {
                names.push((name.to_string(), kind));
                true
            })
        });
        match listed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            // What stands where a directory should is itself told as broken.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(Vec::new()),
            Err(error) => Err(Error::io(format!(".fmail/{} cannot be listed", path.join("/")), &error)),
            Ok(()) => Ok(names),
        }
    }

    fn walk(&self, top: &Dir, path: &[&str]) -> io::Result<Dir> {
        path.iter().try_fold(top.clone(), |dir, name| self.fs().open_dir(&dir, name))
    }

    /// Why a file cannot be understood; nothing when it can, or when it is none of ours.
    fn problem(&self, top: &Dir, path: &[&str], kind: Kind) -> Option<String> {
        let (file, dirs) = path.split_last()?;
        if !file.ends_with(".json") || file.starts_with('.') {
            return None;
        }
        if kind != Kind::File {
            return Some("it is not a regular file".into());
        }
        let bytes = match self.walk(top, dirs).and_then(|dir| read_file(self.fs(), &dir, file, MAX_FILE)) {
            Ok(bytes) => bytes,
            Err(error) => return Some(error.to_string()),
        };
        match dirs {
            [parent, name] => {
                let Some(target) = layout::target_of(parent, name) else {
                    return Some(format!("`{name}` is not a name that fmail uses"));
                };
                let Some(id) = layout::id_of(file) else { return Some("its name is not a message id".into()) };
                parse(&bytes, &target, id).err().map(|error| error.message().to_string())
            }
            _ => {
                serde_json::from_slice::<AgentRecord>(&bytes).err().map(|error| format!("it is not an agent: {error}"))
            }
        }
    }

    fn held(&self) -> Result<Vec<Quarantined>> {
        let Some(top) = self.top()? else { return Ok(Vec::new()) };
        let names = self.names(&top, &[layout::QUARANTINE])?;
        let mut held: Vec<Quarantined> = names.iter().filter_map(|(name, _)| decode(name)).collect();
        held.sort_by(|one, two| one.name.cmp(&two.name));
        Ok(held)
    }

    fn isolate(&self, place: &str) -> Result<Quarantined> {
        let place = place.trim_start_matches(".fmail/");
        let path: Vec<&str> = place.split('/').collect();
        let top = self.top()?.ok_or_else(|| no_such(place))?;
        let shape = match path.as_slice() {
            [parent, _, _] => [layout::TOPICS, layout::DIRECT].contains(parent),
            [parent, _] => *parent == layout::AGENTS,
            _ => false,
        };
        let odd = |name: &&str| name.is_empty() || *name == "." || *name == "..";
        if !shape || path.iter().any(odd) {
            return Err(Error::invalid(format!("`{place}` is not the place of a message or an agent")).help(
                "write it as `fmail quarantine list` shows it, for example topics/task/20260110-153000-0001.json",
            ));
        }
        let writing = self.writing_with(&top, self.lock(&top)?)?;
        // What stands in the journal is safe elsewhere before the place of a message changes by hand.
        self.checkpoint(&top, &writing)?;
        let (file, dirs) = (path[path.len() - 1], &path[..path.len() - 1]);
        let dir = self.walk(&top, dirs).map_err(|_| no_such(place))?;
        let kind = self.fs().stat(&dir, file).map_err(|_| no_such(place))?.kind;
        if self.problem(&top, &path, kind).is_none() {
            return Err(Error::invalid(format!(".fmail/{place} is not broken; it stays where it is")));
        }
        let moved = MessageId::at(self.options.clock.now());
        let name = format!("{moved}~{}", place.replace('%', "%25").replace('/', "%2F"));
        let quarantine = ensure_dir(self.fs(), &top, layout::QUARANTINE, 0o700);
        let done = quarantine.and_then(|quarantine| self.fs().rename(&dir, file, &quarantine, &name));
        done.map_err(|error| Error::io(format!(".fmail/{place} cannot be moved"), &error))?;
        Ok(Quarantined { name, place: place.into(), since: moved.time().whole_seconds() })
    }

    fn restore(&self, name: &str) -> Result<String> {
        let (top, quarantine, held) = self.find_held(name)?;
        let writing = self.writing_with(&top, self.lock(&top)?)?;
        self.checkpoint(&top, &writing)?;
        let path: Vec<&str> = held.place.split('/').collect();
        let (file, dirs) = (path[path.len() - 1], &path[..path.len() - 1]);
        let dir =
            dirs.iter().try_fold(top.clone(), |dir, name| ensure_dir(self.fs(), &dir, name, layout::parent_mode(name)));
        let dir = dir.map_err(|error| Error::io(format!(".fmail/{}", held.place), &error))?;
        match self.fs().link(&quarantine, &held.name, &dir, file) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let text = format!("something stands at .fmail/{} already; nothing was changed", held.place);
                return Err(Error::new(ErrorKind::Conflict, text));
            }
            other => other.map_err(|error| Error::io(format!(".fmail/{} cannot be restored", held.place), &error))?,
        }
        let removed = self.fs().unlink(&quarantine, &held.name);
        removed.map_err(|error| Error::io(format!(".fmail/quarantine/{name}"), &error))?;
        Ok(held.place)
    }

    fn discard(&self, name: &str) -> Result<()> {
        let (top, quarantine, held) = self.find_held(name)?;
        let _lock = self.lock(&top)?;
        let removed = self.fs().unlink(&quarantine, &held.name);
        removed.map_err(|error| Error::io(format!(".fmail/quarantine/{name} cannot be deleted"), &error))
    }

    /// A held file by its name, or by the place where it stood.
    fn find_held(&self, name: &str) -> Result<(Dir, Dir, Quarantined)> {
        let wanted = name.trim_start_matches(".fmail/");
        let missing = || {
            Error::not_found(format!("nothing called `{name}` is in quarantine"))
                .help("`fmail quarantine list` shows what is")
        };
        let top = self.top()?.ok_or_else(missing)?;
        let quarantine = self.fs().open_dir(&top, layout::QUARANTINE).map_err(|_| missing())?;
        let mut fitting = self.held()?.into_iter().filter(|held| held.name == wanted || held.place == wanted);
        let held = fitting.next().ok_or_else(missing)?;
        if fitting.next().is_some() {
            return Err(Error::new(ErrorKind::Conflict, format!("several files from {wanted} are in quarantine"))
                .help("use the full name that `fmail quarantine list` shows"));
        }
        Ok((top, quarantine, held))
    }
}

fn decode(name: &str) -> Option<Quarantined> {
    let (moved, place) = name.split_once('~')?;
    let since = moved.parse::<MessageId>().ok()?.time().whole_seconds();
    Some(Quarantined { name: name.into(), place: place.replace("%2F", "/").replace("%25", "%"), since })
}

fn no_such(place: &str) -> Error {
    Error::not_found(format!("there is no .fmail/{place}")).help("`fmail quarantine list` shows what is broken")
}
