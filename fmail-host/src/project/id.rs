//! The project's id, by which hosts recognise that they serve the same project.

use std::path::PathBuf;

use fmail_api::{Error, ErrorKind, ProjectIdSource, ProjectRecord, Result, Timestamp, hex_sha256};
use serde::Deserialize;

use super::{Project, git, remote};
use crate::file::{Links, read_small};

const MAX_ID_BYTES: usize = 200;

/// What is read of `project.json`: SPEC.md's id, and the rule that gave it if fmail wrote the file.
#[derive(Deserialize)]
struct Recorded {
    id: String,
    /// Kept as text: a rule that a later version adds must not make the project unusable.
    #[serde(default)]
    id_from: Option<String>,
}

impl Project {
    /// The id and the rule that gave it: FMAIL_PROJECT; the id in `project.json`; the git remote `origin`; the name of
    /// the directory. An id that came from the directory's name gives way when a remote appears, any other stays.
    pub fn id(&self) -> Result<(String, ProjectIdSource)> {
        if let Some(id) = self.id_from_variable()? {
            return Ok((id, ProjectIdSource::Environment));
        }
        match self.recorded_id()? {
            Some((id, ProjectIdSource::Directory)) => {
                Ok(self.id_from_remote()?.unwrap_or((id, ProjectIdSource::Directory)))
            }
            Some(recorded) => Ok(recorded),
            None => self.derived_id(),
        }
    }

    /// Checks an id that somebody chose, as `fmail init --project` takes it. It is used as it stands, so it must be fit
    /// for files, lines and messages.
    pub fn check_id(id: &str) -> Result<()> {
        check_id(id).map_err(|problem| Error::invalid(format!("the project id {problem}")))
    }

    /// The record of this project when it is created now, under the id that it has. The store adds the format of its
    /// files.
    pub fn new_record(&self, now: Timestamp) -> Result<ProjectRecord> {
        let (id, source) = self.id()?;
        Ok(ProjectRecord {
            id,
            created: now.whole_seconds(),
            id_from: Some(source),
            format: None,
            extra: Default::default(),
        })
    }

    fn id_from_variable(&self) -> Result<Option<String>> {
        let Some(id) = &self.id_variable else { return Ok(None) };
        check_id(id).map_err(|problem| {
            Error::new(ErrorKind::InvalidProject, format!("the project id {problem}"))
                .context("variable", "FMAIL_PROJECT")
                .help("set FMAIL_PROJECT to a short name, or unset it to derive the id")
        })?;
        Ok(Some(id.clone()))
    }

    fn recorded_id(&self) -> Result<Option<(String, ProjectIdSource)>> {
        let path = self.project_file();
        let Some(text) = read_small(&path, Links::Refuse, ErrorKind::Corrupt)? else { return Ok(None) };
        let corrupt = |what: String| {
            Error::new(ErrorKind::Corrupt, what)
                .context("file", path.display())
                .help("repair the file, or delete it to have the id derived again")
        };
        let recorded: Recorded = serde_json::from_str(&text)
            .map_err(|error| corrupt(format!("this is not a project record with an `id`: {error}")))?;
        check_id(&recorded.id).map_err(|problem| corrupt(format!("the project id {problem}")))?;
        let source = match recorded.id_from.as_deref() {
            Some("directory") => ProjectIdSource::Directory,
            Some("remote") => ProjectIdSource::Remote,
            Some("environment") => ProjectIdSource::Environment,
            // Written by hand or by another implementation: somebody set it, so it stays.
            _ => ProjectIdSource::Init,
        };
        Ok(Some((recorded.id, source)))
    }

    fn derived_id(&self) -> Result<(String, ProjectIdSource)> {
        if let Some(id) = &self.id_of_key {
            return Ok((id.clone(), ProjectIdSource::Init));
        }
        if let Some(found) = self.id_from_remote()? {
            return Ok(found);
        }
        let name = self.root.file_name().map_or_else(|| "/".into(), |name| name.to_string_lossy());
        Ok((hashed(&name), ProjectIdSource::Directory))
    }

    fn id_from_remote(&self) -> Result<Option<(String, ProjectIdSource)>> {
        let Some(repository) = git::find(&self.root)? else { return Ok(None) };
        Ok(repository.origin()?.map(|url| (hashed(&remote::normalise(&url)), ProjectIdSource::Remote)))
    }

    pub(super) fn project_file(&self) -> PathBuf {
        self.fmail_dir().join("project.json")
    }
}

/// The form that the reference implementation gives to derived ids.
pub(crate) fn hashed(name: &str) -> String {
    format!("proj-{}", &hex_sha256(name.as_bytes())[..12])
}

/// The error is what is wrong with the id, to be finished by who knows where it stands.
fn check_id(id: &str) -> Result<(), String> {
    if id.trim().is_empty() {
        Err("is empty".into())
    } else if id.len() > MAX_ID_BYTES {
        Err(format!("has {} bytes, at most {MAX_ID_BYTES} are allowed", id.len()))
    } else if let Some(c) = id.chars().find(|c| c.is_control()) {
        Err(format!("contains the control character {c:?}"))
    } else {
        Ok(())
    }
}
