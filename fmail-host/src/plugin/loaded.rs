//! From the section of a plugin to its instances.

use std::ffi::OsString;
use std::sync::Arc;

use fmail_api::Result;
use serde_json::Value;

use super::process::{Process, Program};
use super::trace::Trace;
use super::{Carrier, Instance, Library, Manifest, PluginForm, Surroundings, Upward};
use crate::PluginSettings;
use crate::registry::PluginKind;

/// A plugin whose code was found, believed and read. Instances can be made of it.
pub struct Plugin {
    settings: PluginSettings,
    code: Code,
    manifest: Arc<Manifest>,
    /// What its own section says, checked against its schema, with the defaults filled in.
    config: Value,
}

/// Where the code is.
enum Code {
    /// In this process.
    Library(Library),
    /// In a child process for each instance, started by this.
    Program(Program),
}

impl Plugin {
    /// Finds the code of a plugin, makes every check, and reads its manifest, which must be of this kind. Its section is
    /// checked against its schema. For a library that is not isolated this runs the library's constructors.
    pub fn load(settings: &PluginSettings, kind: PluginKind) -> Result<Plugin> {
        let (name, timeout) = (settings.name.as_str(), settings.timeout);
        let code = match settings.checked_file()? {
            None => {
                let command = settings.command.iter().flatten().map(OsString::from).collect();
                Code::Program(Program::new(name, command, timeout)?)
            }
            Some(file) if file.form == PluginForm::Program => {
                Code::Program(Program::new(name, vec![file.path.into()], timeout)?)
            }
            Some(file) if settings.isolated(file.form) => Code::Program(Program::library(name, &file.path, timeout)?),
            Some(_) => Code::Library(Library::open(settings, kind)?),
        };
        let manifest = match &code {
            Code::Library(library) => library.manifest().clone(),
            // One process only to ask what it is: its section has to be checked before it is made.
            Code::Program(program) => Arc::new(manifest_of(program, settings, kind)?),
        };
        let config = manifest.config_schema.configured(settings)?;
        Ok(Plugin { settings: settings.clone(), code, manifest, config })
    }

    /// What the plugin says about itself.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// The name of its section.
    pub fn name(&self) -> &str {
        self.settings.name.as_str()
    }

    /// Makes an instance and waits until it is ready. `upward` serves what it asks of us.
    pub async fn instance(&self, surroundings: &Surroundings, upward: Option<Upward>) -> Result<Instance> {
        let name = self.name();
        let trace = Trace::of_environment(name)?;
        let calls = Arc::new(trace.calls());
        let upward = upward.map(|upward| trace.upward(upward));
        let carrier: Arc<dyn Carrier> = match &self.code {
            Code::Library(library) => library.carrier(name, calls.clone(), upward),
            Code::Program(program) => {
                let program = Program { data_dir: Some(surroundings.data_dir.clone()), ..program.clone() };
                Process::carrier(program, calls.clone(), upward)?
            }
        };
        let carrier = trace.carrier(carrier);
        let envelope = surroundings.envelope(name, &self.config);
        Instance::create(name, self.manifest.clone(), calls, carrier, self.settings.timeout, &envelope)
            .await
            .map_err(|error| error.context("file", self.code.shown()).context("origin", self.settings.whence()))
            .map_err(|error| match error.help_text() {
                None => error.help("this is what the plugin itself says; its documentation or its log may say more"),
                Some(_) => error,
            })
    }
}

impl Code {
    /// The file or the command, as an error names it.
    fn shown(&self) -> String {
        match self {
            Code::Library(library) => library.path().display().to_string(),
            Code::Program(program) => program.shown(),
        }
    }
}

/// Asks a program what it is, which must be what it is used as.
fn manifest_of(program: &Program, settings: &PluginSettings, kind: PluginKind) -> Result<Manifest> {
    let process = Process::greeted(program.clone())?;
    let text = String::from_utf8_lossy(process.manifest()).into_owned();
    let manifest = Manifest::parse(&text, &program.shown())?;
    manifest.used_as(settings, kind, &program.shown())?;
    Ok(manifest)
}
