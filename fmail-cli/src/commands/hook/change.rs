//! Installing and removing, as changes of one file.

use std::fs;

use fmail_api::{Error, Result};
use fmail_host::Environment;

use super::entries::{Entry, Settings, Traces};
use super::target::{Scope, file};
use crate::agent_files::{Place, Record, SettingsFile, in_file};
use crate::inject::HookAgent;

/// A file that may be changed.
pub(super) struct Change {
    pub(super) agent: HookAgent,
    pub(super) scope: Scope,
    pub(super) file: SettingsFile,
    place: Place,
}

/// What became of it.
pub(super) struct Done {
    /// The file is not as it was; with a dry run: would not be.
    pub(super) changed: bool,
    /// Our entries in it now.
    pub(super) entries: Vec<Entry>,
    /// What is in it; nothing when it is gone.
    pub(super) text: Option<String>,
}

impl Change {
    /// The file that this agent reads.
    pub(super) fn of(agent: HookAgent, scope: Scope, environment: &Environment) -> Result<Change> {
        let file = SettingsFile::read(file(agent, scope, environment)?)?;
        let place = Place::of(environment, "hooks", file.real(), None)?;
        Ok(Change { agent, scope, file, place })
    }

    fn settings(&self) -> Result<Option<Settings>> {
        let parse = |text: &str| {
            Settings::parse(self.agent, text.to_string()).map_err(|error| in_file(&self.file.path, &error))
        };
        self.file.text().map(parse).transpose()
    }

    /// Brings the file to hold these entries of ours and no others.
    pub(super) fn install(&self, wanted: &[Entry], dry_run: bool) -> Result<Done> {
        let now = self.settings()?;
        let entries = now.as_ref().map(Settings::entries).unwrap_or_default();
        if let Some(settings) = now.as_ref().filter(|_| entries == wanted) {
            return Ok(Done { changed: false, entries, text: Some(settings.text().to_string()) });
        }
        // What was made for entries that are there already is still to be undone with the new ones.
        let before = (!entries.is_empty()).then(|| self.place.read::<Traces>(self.file.real())).flatten();
        let created_file = now.is_none() || before.as_ref().is_some_and(|record| record.created_file);
        let base = match now {
            Some(settings) => settings.without(before.as_ref().map(|record| &record.traces))?,
            None => Settings::parse(self.agent, "{}\n".into())?,
        };
        let base_text = base.text().to_string();
        let (new, traces) = base.with(wanted)?;
        let text = new.text().to_string();
        let undone = Settings::parse(self.agent, text.clone())?.without(Some(&traces))?;
        if undone.text() != base_text || new.entries() != wanted {
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
        Ok(Done { changed: true, entries: wanted.to_vec(), text: Some(text) })
    }

    /// Takes our entries out, and what was made for them.
    pub(super) fn uninstall(&self, dry_run: bool) -> Result<Done> {
        let Some(settings) = self.settings()? else {
            return Ok(Done { changed: false, entries: Vec::new(), text: None });
        };
        if settings.entries().is_empty() {
            let text = Some(settings.text().to_string());
            return Ok(Done { changed: false, entries: Vec::new(), text });
        }
        let record = self.place.read::<Traces>(self.file.real());
        let left = settings.without(record.as_ref().map(|record| &record.traces))?;
        let record = record.unwrap_or_default();
        let gone = record.created_file && left.is_empty() && left.text().trim() == "{}";
        if !dry_run {
            if gone {
                self.file.remove()?;
                for directory in &record.created_directories {
                    // Somebody else may have put something there; then it stays.
                    let _ = fs::remove_dir(directory);
                }
            } else {
                self.file.replace(left.text())?;
            }
            self.place.remove()?;
        }
        let text = (!gone).then(|| left.text().to_string());
        Ok(Done { changed: true, entries: Vec::new(), text })
    }
}
