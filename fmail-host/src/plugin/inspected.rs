//! What can be learned of a plugin by running it, short of making an instance.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;

use fmail_abi::layout::{ABI_MAJOR, ABI_MINOR};
use fmail_api::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::file::sha256_of;
use super::process::{Process, Program};
use super::{Library, Manifest, PluginForm};
use crate::PluginSettings;

/// What a plugin turned out to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// The word of its form: `library` or `program`.
    pub form: String,
    /// Its file as it is shown, unless a command is configured.
    pub path: Option<String>,
    /// The command that runs it, if one is configured.
    pub command: Option<Vec<String>>,
    /// The SHA-256 of the file.
    pub sha256: Option<String>,
    /// What it was built with, and how large its struct is; a program has none.
    pub abi: Option<Abi>,
    /// The ABI of this host, or of the lines that it speaks with programs: major and minor.
    pub host_abi: [u32; 2],
    /// Its manifest, checked.
    pub manifest: Value,
}

/// The ABI that a library was built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abi {
    /// Its major.
    pub major: u32,
    /// Its minor.
    pub minor: u32,
    /// `sizeof(fm_plugin)` in the library.
    pub size: u32,
}

impl Inspection {
    /// Inspects the plugin that a section means, after every check of its file.
    ///
    /// A library is loaded into this process: whoever does not trust it does this in a child. A program is started.
    pub fn of(settings: &PluginSettings) -> Result<Inspection> {
        let file = settings.checked_file()?;
        let form = file.as_ref().map_or(PluginForm::Program, |file| file.form);
        let (manifest, abi) = match &file {
            Some(file) if file.form == PluginForm::Library => {
                let library = Library::load(file)?;
                (library.manifest().to_json(), Some(library.abi()))
            }
            Some(file) => (greeted(settings, vec![file.path.clone().into()])?, None),
            None => (greeted(settings, settings.command.iter().flatten().map(OsString::from).collect())?, None),
        };
        let path = file.map(|file| file.path);
        let digest = |path: &PathBuf| {
            let failed = |error| Error::io(format_args!("cannot read {}", path.display()), &error);
            sha256_of(&mut File::open(path).map_err(failed)?).map_err(failed)
        };
        Ok(Inspection {
            form: form.word().into(),
            sha256: path.as_ref().map(digest).transpose()?,
            path: path.map(|path| path.display().to_string()),
            command: settings.command.clone(),
            abi,
            host_abi: [ABI_MAJOR, ABI_MINOR],
            manifest,
        })
    }
}

fn greeted(settings: &PluginSettings, command: Vec<OsString>) -> Result<Value> {
    let program = Program::new(settings.name.as_str(), command, settings.timeout)?;
    let shown = program.shown();
    let process = Process::greeted(program)?;
    let text = String::from_utf8_lossy(process.manifest()).into_owned();
    Ok(Manifest::parse(&text, &shown)?.to_json())
}
