//! Where settings come from: three files, the environment, flags. Each yields checked settings, or the first error.

use std::fmt;
use std::path::{Path, PathBuf};

use figment::value::Value;
use fmail_api::{Error, ErrorKind, Result};

use super::document::{Format, Found, Node};
use super::keys::{Author, Key, Wrong};
use crate::file::{Links, read_small};
use crate::near::suggestion;
use crate::{Environment, Project};

/// Which file a setting stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigFile {
    /// The administrator's.
    System,
    /// The user's.
    User,
    /// The project's own, which may have come with a clone.
    Project,
}

/// Where a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// It stands in a file.
    File {
        /// Whose file.
        file: ConfigFile,
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// An environment variable, by its name.
    Environment(String),
    /// A flag of the command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Origin::Environment(name) => f.write_str(name),
            Origin::Flag => f.write_str("flag"),
        }
    }
}

/// A checked value for a key.
#[derive(Debug, Clone)]
pub struct Setting {
    pub key: &'static Key,
    pub value: Value,
    pub origin: Origin,
}

/// The text of a configuration file that exists.
pub struct Source {
    file: ConfigFile,
    path: PathBuf,
    format: Format,
    text: String,
}

/// Variables that say who and where, variables that a nudge gives to its command, and variables of the test suites: no
/// configuration.
const IDENTITIES: [&str; 3] = ["FMAIL_AGENT", "FMAIL_ROOT", "FMAIL_PROJECT"];
const NUDGES: [&str; 3] = ["FMAIL_NUDGE_AGENT", "FMAIL_NUDGE_FROM", "FMAIL_NUDGE_TEXT"];
const OTHERS: [&str; 2] = ["FMAIL_TEST_", "FMAIL_CONFORMANCE_"];

/// The directories in which configuration files are looked for, in the order in which they are merged.
fn directories(environment: &Environment, project: Option<&Project>) -> impl Iterator<Item = (ConfigFile, PathBuf)> {
    [
        (ConfigFile::System, Some(environment.system_dir.clone())),
        (ConfigFile::User, user_dir(environment)),
        (ConfigFile::Project, project.map(Project::fmail_dir)),
    ]
    .into_iter()
    .filter_map(|(file, directory)| Some((file, directory?)))
}

/// The configuration files that exist, in the order in which they are merged.
pub fn files(environment: &Environment, project: Option<&Project>) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    for (file, directory) in directories(environment, project) {
        found.extend(in_directory(file, &directory)?);
    }
    Ok(found)
}

/// Where configuration files may stand, in the order in which they are merged, and whether one stands there.
pub fn config_places(environment: &Environment, project: Option<&Project>) -> Vec<(ConfigFile, PathBuf, bool)> {
    let both = |(file, directory): (ConfigFile, PathBuf)| {
        ["config.toml", "config.yaml"].map(|name| directory.join(name)).map(|path| {
            let exists = path.symlink_metadata().is_ok();
            (file, path, exists)
        })
    };
    directories(environment, project).flat_map(both).collect()
}

/// `$XDG_CONFIG_HOME/fmail`, else `~/.config/fmail`. A relative XDG_CONFIG_HOME does not count, as its specification
/// demands.
fn user_dir(environment: &Environment) -> Option<PathBuf> {
    let absolute = |name: &str| environment.var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
    Some(base.join("fmail"))
}

fn in_directory(file: ConfigFile, directory: &Path) -> Result<Option<Source>> {
    let links = if file == ConfigFile::Project { Links::Refuse } else { Links::Follow };
    let read = |name: &str, format| -> Result<Option<Source>> {
        let path = directory.join(name);
        let text = read_small(&path, links, ErrorKind::InvalidConfig)?;
        Ok(text.map(|text| Source { file, path, format, text }))
    };
    match (read("config.toml", Format::Toml)?, read("config.yaml", Format::Yaml)?) {
        (Some(toml), Some(yaml)) => Err(Error::new(
            ErrorKind::InvalidConfig,
            format!("both {} and {} exist, and only one of them may", toml.path.display(), yaml.path.display()),
        )
        .help("move the settings into one file and delete the other")),
        (toml, yaml) => Ok(toml.or(yaml)),
    }
}

impl Source {
    /// The settings of the file.
    pub fn settings(&self) -> Result<Vec<Setting>> {
        let root = self.format.parse(&self.text).map_err(|error| {
            self.error(error.line, format!("this is not {}: {}", self.format.name(), error.message))
        })?;
        let mut settings = Vec::new();
        self.section("", &root, &mut settings)?;
        Ok(settings)
    }

    fn section(&self, name: &str, node: &Node, settings: &mut Vec<Setting>) -> Result<()> {
        let entries = match &node.value {
            Found::Map(entries) => entries,
            // A section in which everything is a comment.
            Found::Nothing => return Ok(()),
            other if name.is_empty() => {
                return Err(self.error(Some(node.line), format!("the file is {other}; allowed is a section `mail`")));
            }
            other => {
                let what = format!("`{name}` is {other}; allowed is a section with keys of its own");
                return Err(self.error(Some(node.line), what));
            }
        };
        for (part, child) in entries {
            let path = if name.is_empty() { part.clone() } else { format!("{name}.{part}") };
            match Key::named(&path) {
                Some(key) => add(settings, self.setting(key, &path, child)?, &path)?,
                None if Key::is_section(&path) => self.section(&path, child, settings)?,
                None => {
                    return Err(self
                        .error(Some(child.line), format!("`{}` is not a key", path.escape_debug()))
                        .help(suggestion(&path, Key::all_names())));
                }
            }
        }
        Ok(())
    }

    fn setting(&self, key: &'static Key, written: &str, node: &Node) -> Result<Setting> {
        let author = if self.file == ConfigFile::Project { Author::Project } else { Author::Owner };
        let origin = Origin::File { file: self.file, path: self.path.clone(), line: node.line };
        match key.form.check(&node.value, author) {
            Ok(value) => Ok(Setting { key, value, origin }),
            Err(wrong) => {
                let place =
                    Origin::File { file: self.file, path: self.path.clone(), line: wrong.line.unwrap_or(node.line) };
                Err(refusal(written, wrong, &place))
            }
        }
    }

    fn error(&self, line: Option<usize>, what: String) -> Error {
        let place = match line {
            Some(line) => format!("{}:{line}", self.path.display()),
            None => self.path.display().to_string(),
        };
        Error::new(ErrorKind::InvalidConfig, what).context("file", place)
    }
}

/// The settings in the environment. A variable with our prefix that means nothing is an error: it was meant to.
pub fn environment(environment: &Environment) -> Result<Vec<Setting>> {
    let mut settings = Vec::new();
    for (name, text) in environment.vars.range("FMAIL_".to_string()..) {
        if !name.starts_with("FMAIL_") {
            break;
        }
        let given = IDENTITIES.iter().chain(&NUDGES).any(|known| known == name);
        if given || OTHERS.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let Some(written) = Key::all_names().find(|key| Key::variable(key) == *name) else {
            let known: Vec<String> =
                Key::all_names().map(Key::variable).chain(IDENTITIES.map(str::to_string)).collect();
            return Err(Error::new(
                ErrorKind::InvalidConfig,
                format!("the environment variable {} means nothing to fmail", name.escape_debug()),
            )
            .help(suggestion(name, known.iter().map(String::as_str))));
        };
        add(&mut settings, from_text(written, text, Origin::Environment(name.clone()))?, written)?;
    }
    Ok(settings)
}

/// The settings that flags make, as dotted keys with their texts. Of two for one key the later counts, as usual for
/// flags.
pub fn flags(overrides: &[(String, String)]) -> Result<Vec<Setting>> {
    let setting = |(name, text): &(String, String)| match Key::named(name) {
        Some(key) if key.is_secret() => Err(Error::new(
            ErrorKind::InvalidConfig,
            format!("`{name}` stands on the command line, where every user of this machine can read it"),
        )
        .context("origin", Origin::Flag)
        .help(format!("set it in your own file, or in the variable {}", Key::variable(name)))),
        Some(_) => from_text(name, text, Origin::Flag),
        None => Err(Error::new(ErrorKind::InvalidConfig, format!("`{}` is not a key", name.escape_debug()))
            .context("origin", Origin::Flag)
            .help(suggestion(name, Key::all_names()))),
    };
    overrides.iter().map(setting).collect()
}

fn from_text(written: &str, text: &str, origin: Origin) -> Result<Setting> {
    let Some(key) = Key::named(written) else {
        return Err(Error::internal(format!("`{written}` is looked up but is not a key")));
    };
    match key.form.check(&key.form.read(text), Author::Owner) {
        Ok(value) => Ok(Setting { key, value, origin }),
        Err(wrong) => Err(refusal(written, wrong, &origin)),
    }
}

/// Adds a setting unless the same place already gave one under the key's other name.
fn add(settings: &mut Vec<Setting>, setting: Setting, written: &str) -> Result<()> {
    if let Some(other) = settings.iter().find(|other| other.key.name == setting.key.name) {
        return Err(Error::new(
            ErrorKind::InvalidConfig,
            format!("`{written}` sets `{}` a second time, after {}", setting.key.name, other.origin),
        )
        .context("origin", setting.origin)
        .help("keep one of the two"));
    }
    settings.push(setting);
    Ok(())
}

fn refusal(written: &str, wrong: Wrong, place: &Origin) -> Error {
    let error = Error::new(ErrorKind::InvalidConfig, format!("`{written}` {}", wrong.what)).context("origin", place);
    match wrong.help {
        Some(help) => error.help(help),
        None => error,
    }
}
