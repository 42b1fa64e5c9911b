//! Installing and removing, as changes of one file.

use std::fs;

use fmail_api::{Error, ErrorKind, Result};
use fmail_host::Environment;
use serde_json::Value;

use super::entry::{Entry, further_keys, is_ours};
use super::servers::{Servers, Traces};
use super::target::{Scope, file};
use crate::agent_files::{Place, Record, SettingsFile, in_file};
use crate::inject::HookAgent;

/// A file that may be changed.
pub(super) struct Change {
    pub(super) agent: HookAgent,
    pub(super) scope: Scope,
    pub(super) file: SettingsFile,
    pub(super) name: String,
    place: Place,
}

/// What became of it.
pub(super) struct Done {
    /// The file is not as it was; with a dry run: would not be.
    pub(super) changed: bool,
    /// Our entry in it now.
    pub(super) entry: Option<Value>,
    /// What is in it; nothing when it is gone.
    pub(super) text: Option<String>,
}

impl Change {
    /// The file that this agent reads, and the server of this name in it.
    pub(super) fn of(agent: HookAgent, scope: Scope, name: String, environment: &Environment) -> Result<Change> {
        let file = SettingsFile::read(file(agent, scope, environment)?)?;
        let place = Place::of(environment, "mcp", file.real(), Some(&name))?;
        Ok(Change { agent, scope, file, name, place })
    }

    fn servers(&self) -> Result<Option<Servers>> {
        let parse =
            |text: &str| Servers::parse(self.agent, text.to_string()).map_err(|error| in_file(&self.file.path, &error));
        self.file.text().map(parse).transpose()
    }

    fn record(&self) -> Option<Record<Traces>> {
        self.place.read(self.file.real())
    }

    /// Our entry in the file, if there is one.
    pub(super) fn installed(&self) -> Result<Option<Value>> {
        let entry = self.servers()?.and_then(|servers| servers.get(&self.name));
        Ok(entry.filter(|entry| self.record().is_some() || is_ours(self.agent, entry)))
    }

    /// Brings the file to hold this entry.
    pub(super) fn install(&self, wanted: &Entry, dry_run: bool) -> Result<Done> {
        let value = wanted.value(self.agent);
        let now = self.servers()?;
        let there = now.as_ref().and_then(|servers| servers.get(&self.name));
        let has = |there: &Value| value.iter().all(|(key, value)| there.get(key) == Some(value));
        if let (Some(servers), Some(entry)) = (&now, there.as_ref().filter(|there| has(there))) {
            return Ok(Done { changed: false, entry: Some(entry.clone()), text: Some(servers.text().to_string()) });
        }
        if let Some(there) = &there {
            self.check_replaceable(there)?;
        }
        // What was made for an entry that is there already is still to be undone with the new one.
        let before = there.is_some().then(|| self.record()).flatten();
        let created_file = now.is_none() || before.as_ref().is_some_and(|record| record.created_file);
        let base = match &now {
            Some(servers) if there.is_some() => self.undone(servers, before.as_ref().map(|record| &record.traces))?,
            Some(servers) => servers.text().to_string(),
            None => Servers::blank(self.agent).to_string(),
        };
        let (text, traces) = Servers::parse(self.agent, base.clone())?
            .with(&self.name, &value)
            .map_err(|error| in_file(&self.file.path, &error))?;
        let new = Servers::parse(self.agent, text.clone())?;
        if new.get(&self.name) != Some(Value::Object(value.clone())) || new.without(&self.name, Some(&traces))? != base
        {
            return Err(Error::internal(format!(
                "the change of {} could not be undone to the byte, so it was not made",
                self.file.path.display()
            )));
        }
        if !dry_run {
            let created_directories = match before {
                Some(record) => record.created_directories,
                None => self.file.missing_directories(),
            };
            self.file.check_replaceable()?;
            let file = self.file.real().to_path_buf();
            self.place.write(&Record { file, created_file, created_directories, traces })?;
            self.file.replace(&text)?;
        }
        Ok(Done { changed: true, entry: Some(Value::Object(value)), text: Some(text) })
    }

    /// Refuses to write over what somebody else has written.
    fn check_replaceable(&self, there: &Value) -> Result<()> {
        let path = self.file.path.display();
        let conflict = |what: String| Error::new(ErrorKind::Conflict, what);
        if self.record().is_none() && !is_ours(self.agent, there) {
            return Err(conflict(format!("{path} has a server `{}` that is not ours; nothing was changed", self.name))
                .help("take it out, or choose another name with --name"));
        }
        match &further_keys(self.agent, there)[..] {
            [] => Ok(()),
            keys => Err(conflict(format!(
                "in {path} somebody has added {} to the server `{}`, which would be lost; nothing was changed",
                keys.join(", "),
                self.name
            ))
            .help("change the entry by hand, or `fmail mcp uninstall` it first")),
        }
    }

    /// Takes our entry out, and what was made for it.
    pub(super) fn uninstall(&self, dry_run: bool) -> Result<Done> {
        let Some(servers) = self.servers()? else {
            return Ok(Done { changed: false, entry: None, text: None });
        };
        if self.installed()?.is_none() {
            return Ok(Done { changed: false, entry: None, text: Some(servers.text().to_string()) });
        }
        let record = self.record();
        let left = self.undone(&servers, record.as_ref().map(|record| &record.traces))?;
        let record = record.unwrap_or_default();
        let gone = record.created_file && left.trim() == Servers::blank(self.agent).trim();
        if !dry_run {
            if gone {
                self.file.remove()?;
                for directory in &record.created_directories {
                    // Somebody else may have put something there; then it stays.
                    let _ = fs::remove_dir(directory);
                }
            } else {
                self.file.replace(&left)?;
            }
            self.place.remove()?;
        }
        Ok(Done { changed: true, entry: None, text: (!gone).then_some(left) })
    }

    fn undone(&self, servers: &Servers, traces: Option<&Traces>) -> Result<String> {
        servers.without(&self.name, traces).map_err(|error| in_file(&self.file.path, &error))
    }
}
