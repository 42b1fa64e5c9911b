//! `mail.plugin.<name>`: how a plugin is loaded, and its own keys.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fmail_api::{Error, ErrorKind, Result, parse_duration};
use serde_json::Value;

use super::keys::{Form, Key, MINUTE};
use super::located::Located;
use super::source::{ConfigFile, Origin};
use crate::plugin::{PluginFile, PluginForm, PluginName, Resolved, check_file};

/// The keys of the host in a plugin's section.
pub static SECTION_KEYS: [Key; 6] = [
    key("use", Form::Name),
    key("file", Form::File),
    key("command", Form::Command),
    key("isolation", Form::Isolation),
    key("sha256", Form::Digest),
    key("timeout", Form::Time(Duration::from_millis(10), MINUTE.saturating_mul(60))),
];

const fn key(name: &'static str, form: Form) -> Key {
    Key { name, alias: None, form }
}

/// How long a call may take when nothing is configured.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Where the code of a plugin runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// In this process.
    None,
    /// In a child process, so that a crash is not ours.
    Process,
}

/// How a plugin is loaded, and what its own section says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSettings {
    /// The name by which the configuration knows it: that of its section.
    pub name: PluginName,
    /// Which plugin it is (`use`); one plugin can serve under several names.
    pub plugin: PluginName,
    /// The file that the configuration names, a library or a program.
    pub file: Option<PathBuf>,
    /// The command that runs it, the program first.
    pub command: Option<Vec<String>>,
    /// What the configuration says about isolation; without it, [`PluginSettings::isolated`] decides by the form.
    pub isolation: Option<Isolation>,
    /// The SHA-256 that its file must have, in lower case.
    pub sha256: Option<String>,
    /// The deadline of each call.
    pub timeout: Duration,
    /// Its own keys as they were written. What is passed to the plugin is what
    /// [`Schema::check`](crate::Schema::check) makes of them.
    pub config: Value,
    /// What the search found, when neither file nor command is configured and the name is in use.
    pub found: Option<Resolved>,
    /// The same keys with their places.
    pub(crate) tree: Option<Located>,
    /// The user's home, for paths that begin with `~/`.
    pub(crate) home: Option<PathBuf>,
    /// Whether the project's file is trusted, or says nothing that would need it.
    pub(crate) project_trusted: bool,
    pub(crate) origins: BTreeMap<&'static str, Origin>,
}

impl PluginSettings {
    /// Where the value of a key of the host (`use`, `file`, …) comes from.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    /// The full name of a key of this section.
    pub fn key(&self, key: &str) -> String {
        format!("mail.plugin.{}.{key}", self.name)
    }

    /// Whether it runs in a child process: as configured, else a library does not and a program does.
    pub fn isolated(&self, form: PluginForm) -> bool {
        form == PluginForm::Program || self.isolation == Some(Isolation::Process)
    }

    /// The file that is to be loaded or run, after every check that can be made without doing so; none when a command is
    /// configured. The error names the file, what was expected and what was got, and the line of the configuration.
    pub fn checked_file(&self) -> Result<Option<PluginFile>> {
        if self.command.is_some() {
            return Ok(None);
        }
        let pin = self.sha256.as_deref();
        let (path, form) = match (&self.file, &self.found) {
            (Some(file), _) => (file.as_path(), None),
            (None, Some(found)) => (found.path.as_path(), Some(found.form)),
            (None, None) => {
                return Err(Error::new(
                    ErrorKind::InvalidConfig,
                    format!("the plugin `{}` was not found", self.plugin),
                )
                .help("`fmail plugin list` shows what is found, `fmail plugin path` where"));
            }
        };
        check_file(path, form, pin).map(Some).map_err(|refusal| Error::from(refusal).context("origin", self.whence()))
    }

    /// Where the choice of the file comes from: the line of the configuration, or the place where it was found.
    pub fn whence(&self) -> String {
        match (&self.file, &self.found) {
            (None, Some(found)) => format!("found in {}", found.place),
            _ => format!("{} ({})", self.key("file"), self.origin("file")),
        }
    }

    /// Whether this comes from a project's file that nobody has trusted.
    pub(crate) fn is_strange(&self, origin: &Origin) -> bool {
        !self.project_trusted && matches!(origin, Origin::File { file: ConfigFile::Project, .. })
    }
}

/// A part of a plugin's section, checked as far as that goes without the plugin.
#[derive(Debug, Clone)]
pub enum Part {
    /// A key of the host. Its texts: one, or the words of a command.
    Host { section: PluginName, key: &'static Key, texts: Vec<String>, origin: Origin },
    /// The plugin's own keys.
    Config { section: PluginName, tree: Located },
}

impl Part {
    fn section(&self) -> &PluginName {
        match self {
            Part::Host { section, .. } | Part::Config { section, .. } => section,
        }
    }
}

/// A plugin's section, merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Section {
    host: BTreeMap<&'static str, (Vec<String>, Origin)>,
    config: Option<Located>,
}

/// The sections that these parts make, the later ones over the earlier.
pub fn merged(parts: Vec<Part>) -> BTreeMap<PluginName, Section> {
    let mut sections: BTreeMap<PluginName, Section> = BTreeMap::new();
    for part in parts {
        let section = sections.entry(part.section().clone()).or_default();
        match part {
            Part::Host { key, texts, origin, .. } => {
                section.host.insert(key.name, (texts, origin));
            }
            Part::Config { tree, .. } => match &mut section.config {
                Some(config) => config.merge(tree),
                None => section.config = Some(tree),
            },
        }
    }
    sections
}

impl Section {
    fn text(&self, key: &str) -> Option<&str> {
        self.host.get(key).and_then(|(texts, _)| texts.first()).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Every key that is set, the host's first.
    pub fn leaves(&self) -> Vec<(String, String, &Origin)> {
        let host = SECTION_KEYS.iter().filter_map(|key| {
            let (texts, origin) = self.host.get(key.name)?;
            let text = if matches!(key.form, Form::Command) { json_list(texts) } else { texts.concat() };
            Some((key.name.to_string(), text, origin))
        });
        let mut config = Vec::new();
        self.config.iter().for_each(|tree| tree.leaves("config", &mut config));
        host.chain(config.into_iter().map(|(name, leaf)| (name, shown(&leaf.to_json()), &leaf.origin))).collect()
    }

    /// The settings of this section.
    pub fn settings(&self, name: &PluginName, home: Option<&PathBuf>, project_trusted: bool) -> PluginSettings {
        let plugin = self.text("use").and_then(|name| name.parse().ok());
        let command = self.host.get("command").map(|(words, _)| words.clone()).filter(|words| !words.is_empty());
        PluginSettings {
            name: name.clone(),
            plugin: plugin.unwrap_or_else(|| name.clone()),
            file: self.text("file").map(|path| under_home(path, home)),
            command,
            isolation: self.text("isolation").map(|word| match word {
                "process" => Isolation::Process,
                _ => Isolation::None,
            }),
            sha256: self.text("sha256").map(str::to_ascii_lowercase),
            timeout: self.text("timeout").and_then(|text| parse_duration(text).ok()).unwrap_or(TIMEOUT),
            config: self.config.as_ref().map_or_else(|| Value::Object(Default::default()), Located::to_json),
            found: None,
            tree: self.config.clone(),
            home: home.cloned(),
            project_trusted,
            origins: self.host.iter().map(|(key, (_, origin))| (*key, origin.clone())).collect(),
        }
    }
}

/// The path with the user's home in the place of `~`.
pub fn under_home(path: &str, home: Option<&PathBuf>) -> PathBuf {
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

fn json_list(texts: &[String]) -> String {
    Value::from(texts).to_string()
}

/// As a variable would have it: a text as it is, anything else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
