//! From the section of a plugin to its instances.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use fmail_api::{Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::Value;

use super::process::{Process, Program};
use super::trace::Trace;
use super::{Carrier, Instance, Library, Manifest, PluginForm, Upward};
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

/// As what an instance is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Keeps a project.
    Store,
    /// A transport that serves.
    Server,
    /// A transport that connects.
    Client,
    /// Keeps hosts in step.
    Relay,
}

/// What an instance is told when it is made.
#[derive(Debug, Clone, Serialize)]
pub struct Envelope {
    /// As what it is made.
    pub role: Role,
    /// The project that it is made for, if it is for one.
    pub project: Option<EnvelopeProject>,
    /// The directory that is its own.
    pub data_dir: PathBuf,
}

/// The project in an [`Envelope`].
#[derive(Debug, Clone, Serialize)]
pub struct EnvelopeProject {
    /// Its id.
    pub id: String,
    /// Its directory.
    pub root: PathBuf,
}

/// The envelope as the plugin gets it.
#[derive(Serialize)]
struct Sealed<'a> {
    #[serde(flatten)]
    envelope: &'a Envelope,
    instance: &'a str,
    node: String,
    features: [&'static str; 0],
    config: &'a Value,
}

impl Plugin {
    /// Finds the code of a plugin, makes every check, and reads its manifest, which must be of this kind. Its section is
    /// checked against its schema. For a library that is not isolated this runs the library's constructors.
    pub fn load(settings: &PluginSettings, kind: PluginKind) -> Result<Plugin> {
        let name = settings.name.to_string();
        let blamed = |error: Error| error.context("plugin", format_args!("the plugin `{name}`"));
        let timeout = settings.timeout;
        let code = match settings.checked_file()? {
            None => {
                let command = settings.command.iter().flatten().map(OsString::from).collect();
                Code::Program(Program::new(&name, command, timeout)?)
            }
            Some(file) if file.form == PluginForm::Program => {
                Code::Program(Program::new(&name, vec![file.path.into()], timeout)?)
            }
            Some(file) if settings.isolated(file.form) => {
                Code::Program(Program::library(&name, &file.path, timeout)?)
            }
            Some(file) => Code::Library(Library::load(&file).map_err(blamed)?),
        };
        let manifest = match &code {
            Code::Library(library) => library.manifest().clone(),
            // One process only to ask what it is: its section has to be checked before it is made.
            Code::Program(program) => Arc::new(manifest_of(program)?),
        };
        if manifest.kind != kind {
            return Err(blamed(wrong_kind(kind, &manifest)));
        }
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
    pub async fn instance(&self, envelope: &Envelope, upward: Option<Upward>) -> Result<Instance> {
        let name = self.name();
        let sealed = Sealed {
            envelope,
            instance: name,
            node: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            features: [],
            config: &self.config,
        };
        let sealed = serde_json::to_vec(&sealed)
            .map_err(|error| Error::internal(format!("the envelope of a plugin has no JSON form: {error}")))?;
        let trace = Trace::of_environment(name)?;
        let calls = Arc::new(trace.calls());
        let upward = upward.map(|upward| trace.upward(upward));
        let carrier: Arc<dyn Carrier> = match &self.code {
            Code::Library(library) => library.carrier(name, calls.clone(), upward),
            Code::Program(program) => {
                let program = Program { data_dir: Some(envelope.data_dir.clone()), ..program.clone() };
                Process::carrier(program, calls.clone(), upward)?
            }
        };
        let carrier = trace.carrier(carrier);
        Instance::create(name, self.manifest.clone(), calls, carrier, self.settings.timeout, &sealed).await
    }
}

fn wrong_kind(wanted: PluginKind, manifest: &Manifest) -> Error {
    Error::new(
        ErrorKind::InvalidConfig,
        format!("expected a {wanted}, got a {} ({} {})", manifest.kind, manifest.name, manifest.version),
    )
    .help(format!("{} names a {wanted}; name this plugin in {}", wanted.key(), manifest.kind.key()))
}

/// Asks a program what it is.
fn manifest_of(program: &Program) -> Result<Manifest> {
    let process = Process::greeted(program.clone())?;
    let text = String::from_utf8_lossy(process.manifest()).into_owned();
    Manifest::parse(&text, &program.shown())
}
