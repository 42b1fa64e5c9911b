//! Where settings come from: three files, the environment, flags. Each yields checked settings and all its mistakes.

use std::fmt;
use std::path::{Path, PathBuf};

use figment::value::Value;
use fmail_api::{Error, ErrorKind, Result};

use super::document::{Format, Found, Node};
use super::keys::{Author, Key, Wrong};
use super::located::Located;
use super::plugin::{Part, SECTION_KEYS};
use crate::file::{Links, read_small};
use crate::near::suggestion;
use crate::plugin::PluginName;
use crate::registry::built_in;
use crate::trust::{Standing, TrustNotes};
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
    /// The name under which it was written: the key's or its alias.
    pub written: String,
    pub value: Value,
    pub origin: Origin,
}

/// What the sources say, and everything that is wrong with them.
#[derive(Debug, Default)]
pub struct Gathered {
    pub settings: Vec<Setting>,
    pub parts: Vec<Part>,
    pub mistakes: Vec<Error>,
    /// Who wrote the project's file; none when nothing in it makes that matter.
    pub author: Option<Author>,
}

impl Gathered {
    /// Whether nobody has said anything.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty() && self.parts.is_empty() && self.mistakes.is_empty()
    }
}

/// The text of a configuration file that exists.
pub struct Source {
    pub file: ConfigFile,
    pub path: PathBuf,
    format: Format,
    pub text: String,
}

/// Variables that say who and where, variables that a nudge gives to its command, those of plugins' authors, and variables
/// of the test suites: no configuration.
const IDENTITIES: [&str; 3] = ["FMAIL_AGENT", "FMAIL_ROOT", "FMAIL_PROJECT"];
const NUDGES: [&str; 3] = ["FMAIL_NUDGE_AGENT", "FMAIL_NUDGE_FROM", "FMAIL_NUDGE_TEXT"];
const PLUGINS: [&str; 2] = ["FMAIL_PLUGIN_PATH", "FMAIL_PLUGIN_TRACE"];
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

/// Gathers what the files say, in the order in which they are merged.
pub fn files(environment: &Environment, project: Option<&Project>, gathered: &mut Gathered) {
    for (file, directory) in directories(environment, project) {
        match in_directory(file, &directory) {
            Ok(Some(source)) => {
                let root = project.map(|project| project.root.as_path()).filter(|_| file == ConfigFile::Project);
                source.gather(root.map(|root| (environment, root)), gathered);
            }
            Ok(None) => {}
            Err(error) => gathered.mistakes.push(error),
        }
    }
}

/// The project's own file, if it has one.
pub fn project_file(project: &Project) -> Result<Option<Source>> {
    in_directory(ConfigFile::Project, &project.fmail_dir())
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

/// `$XDG_CONFIG_HOME/fmail`, else `~/.config/fmail`.
fn user_dir(environment: &Environment) -> Option<PathBuf> {
    let base = environment.absolute("XDG_CONFIG_HOME");
    Some(base.or_else(|| environment.home().map(|home| home.join(".config")))?.join("fmail"))
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
    /// Adds what the file says. Of a project's file, `stranger` says where to look whether the user has trusted it;
    /// without it, the file is read as if it were the user's own.
    pub fn gather(&self, stranger: Option<(&Environment, &Path)>, gathered: &mut Gathered) {
        match self.format.parse(&self.text) {
            Ok(root) => {
                let before = gathered.settings.len();
                Reading { source: self, stranger, gathered, before }.section("", &root);
            }
            Err(error) => {
                let what = format!("this is not {}: {}", self.format.name(), error.message);
                gathered.mistakes.push(self.error(error.line, what));
            }
        }
    }

    fn origin(&self, line: usize) -> Origin {
        Origin::File { file: self.file, path: self.path.clone(), line }
    }

    fn error(&self, line: Option<usize>, what: String) -> Error {
        let place = match line {
            Some(line) => format!("{}:{line}", self.path.display()),
            None => self.path.display().to_string(),
        };
        Error::new(ErrorKind::InvalidConfig, what).context("file", place)
    }
}

/// Reads one file.
struct Reading<'a> {
    source: &'a Source,
    stranger: Option<(&'a Environment, &'a Path)>,
    gathered: &'a mut Gathered,
    /// How many settings earlier sources gave.
    before: usize,
}

impl Reading<'_> {
    fn wrong(&mut self, line: usize, what: String, help: Option<String>) {
        let error = self.source.error(Some(line), what);
        self.gathered.mistakes.push(match help {
            Some(help) => error.help(help),
            None => error,
        });
    }

    /// The entries of a section; a section in which everything is a comment has none.
    fn entries<'n>(&mut self, name: &str, node: &'n Node) -> &'n [(String, Node)] {
        match &node.value {
            Found::Map(entries) => entries,
            Found::Nothing => &[],
            other if name.is_empty() => {
                self.wrong(node.line, format!("the file is {other}; allowed is a section `mail`"), None);
                &[]
            }
            other => {
                let what = format!("`{name}` is {other}; allowed is a section with keys of its own");
                self.wrong(node.line, what, None);
                &[]
            }
        }
    }

    fn section(&mut self, name: &str, node: &Node) {
        for (part, child) in self.entries(name, node) {
            let path = if name.is_empty() { part.clone() } else { format!("{name}.{part}") };
            match Key::named(&path) {
                Some(key) => self.setting(key, &path, child),
                None if path == SECTIONS => self.plugins(child),
                None if Key::is_section(&path) => self.section(&path, child),
                None => {
                    let help = suggestion(&path, Key::all_names());
                    self.wrong(child.line, format!("`{}` is not a key", path.escape_debug()), Some(help));
                }
            }
        }
    }

    fn setting(&mut self, key: &'static Key, written: &str, node: &Node) {
        let Some(value) = self.checked(key, written, node) else { return };
        let (written, origin) = (written.to_string(), self.source.origin(node.line));
        let earlier = self.gathered.settings[self.before..].iter().find(|other| other.key.name == key.name);
        match earlier.map(|earlier| twice(earlier, &written, &origin)) {
            Some(error) => self.gathered.mistakes.push(error),
            None => self.gathered.settings.push(Setting { key, written, value, origin }),
        }
    }

    /// The value of a key, if nothing is wrong with it.
    fn checked(&mut self, key: &'static Key, written: &str, node: &Node) -> Option<Value> {
        let author = if key.asks_author() { self.author() } else { Author::Owner };
        match key.form.check(&node.value, author) {
            Ok(value) => Some(value),
            Err(wrong) => {
                let place = self.source.origin(wrong.line.unwrap_or(node.line));
                self.gathered.mistakes.push(refusal(written, wrong, &place));
                None
            }
        }
    }

    /// Who wrote the file; asked once, and only when it matters.
    fn author(&mut self) -> Author {
        let Some((environment, root)) = self.stranger else { return Author::Owner };
        if let Some(author) = self.gathered.author {
            return author;
        }
        let author = match TrustNotes::of(environment).standing(root, &self.source.text) {
            Ok(Standing::Trusted) => Author::Owner,
            Ok(Standing::Changed) => Author::Changed,
            Ok(Standing::Never) => Author::Project,
            Err(error) => {
                self.gathered.mistakes.push(error);
                Author::Project
            }
        };
        self.gathered.author = Some(author);
        author
    }

    /// `mail.plugin`: a section for each plugin.
    fn plugins(&mut self, node: &Node) {
        for (name, child) in self.entries(SECTIONS, node) {
            match section_name(name) {
                Ok(section) => self.plugin(&section, child),
                Err(error) => {
                    let what = format!("`{SECTIONS}.{}` is no section: {}", name.escape_debug(), error.message());
                    self.wrong(child.line, what, error.help_text().map(str::to_string));
                }
            }
        }
    }

    fn plugin(&mut self, section: &PluginName, node: &Node) {
        let name = format!("{SECTIONS}.{section}");
        for (part, child) in self.entries(&name, node) {
            let written = format!("{name}.{part}");
            match section_key(part) {
                Some(key) => {
                    let Some(value) = self.checked(key, &written, child) else { continue };
                    let (texts, origin) = (texts_of(&value), self.source.origin(child.line));
                    self.gathered.parts.push(Part::Host { section: section.clone(), key, texts, origin });
                }
                None if part == CONFIG => {
                    // Only the plugin's schema says what in it matters, and that is read later.
                    self.author();
                    if !self.entries(&written, child).is_empty() {
                        let tree = Located::from_node(child, self.source.file, &self.source.path);
                        self.gathered.parts.push(Part::Config { section: section.clone(), tree });
                    }
                }
                None => {
                    let (what, help) = no_such_key(&name, part);
                    self.wrong(child.line, what, Some(help));
                }
            }
        }
    }
}

/// Gathers the settings in the environment. A variable with our prefix that means nothing is a mistake: it was meant to.
pub fn environment(environment: &Environment, gathered: &mut Gathered) {
    let before = gathered.settings.len();
    for (name, text) in environment.vars.range("FMAIL_".to_string()..) {
        if !name.starts_with("FMAIL_") {
            break;
        }
        let given = IDENTITIES.iter().chain(&NUDGES).chain(&PLUGINS).any(|known| known == name);
        if given || OTHERS.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let origin = Origin::Environment(name.clone());
        if let Some(rest) = name.strip_prefix("FMAIL_PLUGIN__") {
            add_part(part_of_variable(name, rest, text, origin), gathered);
            continue;
        }
        let Some(written) = Key::all_names().find(|key| Key::variable(key) == *name) else {
            let known: Vec<String> =
                Key::all_names().map(Key::variable).chain(IDENTITIES.map(str::to_string)).collect();
            gathered.mistakes.push(
                Error::new(
                    ErrorKind::InvalidConfig,
                    format!("the environment variable {} means nothing to fmail", name.escape_debug()),
                )
                .help(suggestion(name, known.iter().map(String::as_str))),
            );
            continue;
        };
        match from_text(written, text, origin) {
            Ok(setting) => {
                let earlier = gathered.settings[before..].iter().find(|other| other.key.name == setting.key.name);
                match earlier.map(|earlier| twice(earlier, written, &setting.origin)) {
                    Some(error) => gathered.mistakes.push(error),
                    None => gathered.settings.push(setting),
                }
            }
            Err(error) => gathered.mistakes.push(error),
        }
    }
}

/// Gathers the settings that flags make, as dotted keys with their texts. Of two for one key the later counts, as usual for
/// flags.
pub fn flags(overrides: &[(String, String)], gathered: &mut Gathered) {
    for (name, text) in overrides {
        if let Some(rest) = name.strip_prefix("mail.plugin.") {
            add_part(part_of_flag(rest, text), gathered);
            continue;
        }
        match flag(name, text) {
            Ok(setting) => gathered.settings.push(setting),
            Err(error) => gathered.mistakes.push(error),
        }
    }
}

fn flag(name: &str, text: &str) -> Result<Setting> {
    match Key::named(name) {
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
    }
}

fn from_text(written: &str, text: &str, origin: Origin) -> Result<Setting> {
    let Some(key) = Key::named(written) else {
        return Err(Error::internal(format!("`{written}` is looked up but is not a key")));
    };
    match key.form.check(&key.form.read(text), Author::Owner) {
        Ok(value) => Ok(Setting { key, written: written.to_string(), value, origin }),
        Err(wrong) => Err(refusal(written, wrong, &origin)),
    }
}

fn add_part(part: Result<Part>, gathered: &mut Gathered) {
    match part {
        Ok(part) => gathered.parts.push(part),
        Err(error) => gathered.mistakes.push(error),
    }
}

/// The part that `FMAIL_PLUGIN__<NAME>__<KEY>` sets; `rest` is what stands behind the first two underscores.
fn part_of_variable(name: &str, rest: &str, text: &str, origin: Origin) -> Result<Part> {
    let about = |error: Error| {
        let error = Error::new(ErrorKind::InvalidConfig, error.message()).context("origin", name);
        error.help("write FMAIL_PLUGIN__MY_STORE__TIMEOUT for mail.plugin.my-store.timeout")
    };
    let lower = rest.to_ascii_lowercase();
    let (section, keys) = match (rest.split_once("__"), lower.split_once("__")) {
        (Some((section, _)), Some((_, keys))) if !rest.contains(|c: char| c.is_ascii_lowercase()) => (section, keys),
        _ => return Err(about(Error::invalid(format!("{name} names no key of a plugin's section")))),
    };
    let section = PluginName::from_variable(section).and_then(|name| section_name(name.as_str())).map_err(about)?;
    part_from_text(section, &keys.split("__").collect::<Vec<_>>(), text, origin)
}

/// The part that `--set mail.plugin.<name>.<key>=…` sets; `rest` is the name and the key.
fn part_of_flag(rest: &str, text: &str) -> Result<Part> {
    let (section, keys) = rest.split_once('.').unwrap_or((rest, ""));
    let named = section_name(section);
    let section = named.map_err(|error| error.context("origin", Origin::Flag))?;
    part_from_text(section, &keys.split('.').collect::<Vec<_>>(), text, Origin::Flag)
}

fn part_from_text(section: PluginName, keys: &[&str], text: &str, origin: Origin) -> Result<Part> {
    let name = format!("{SECTIONS}.{section}");
    match (keys, keys.first().and_then(|key| section_key(key))) {
        ([_], Some(key)) => match key.form.check(&key.form.read(text), Author::Owner) {
            Ok(value) => Ok(Part::Host { section, key, texts: texts_of(&value), origin }),
            Err(wrong) => Err(refusal(&format!("{name}.{}", key.name), wrong, &origin)),
        },
        ([CONFIG, inner @ ..], _) if !inner.is_empty() && inner.iter().all(|name| !name.is_empty()) => {
            Ok(Part::Config { section, tree: Located::from_text(inner, text, &origin) })
        }
        _ => {
            let (what, help) = no_such_key(&name, &keys.join("."));
            Err(Error::new(ErrorKind::InvalidConfig, what).context("origin", origin).help(help))
        }
    }
}

/// The section of plugins, and in each of them the one that is the plugin's own.
const SECTIONS: &str = "mail.plugin";
const CONFIG: &str = "config";

/// The name of a plugin's section. What is built in has none: it would be read and do nothing.
fn section_name(name: &str) -> Result<PluginName> {
    if let Some(kind) = built_in(name) {
        return Err(Error::new(ErrorKind::InvalidConfig, format!("the {kind} `{name}` is built in, and is no plugin"))
            .help("give the section another name, and name that in mail.store, mail.transports or mail.relays"));
    }
    name.parse()
}

fn section_key(name: &str) -> Option<&'static Key> {
    SECTION_KEYS.iter().find(|key| key.name == name)
}

fn no_such_key(section: &str, key: &str) -> (String, String) {
    let known: Vec<&str> = SECTION_KEYS.iter().map(|key| key.name).chain([CONFIG]).collect();
    let what = format!("`{section}.{}` is not a key", key.escape_debug());
    (what, format!("{}; the plugin's own keys stand in {section}.{CONFIG}", suggestion(key, known)))
}

/// The texts of a checked value: one, or those of a list.
fn texts_of(value: &Value) -> Vec<String> {
    match value {
        Value::String(_, text) => vec![text.clone()],
        Value::Array(_, items) => items.iter().flat_map(texts_of).collect(),
        _ => Vec::new(),
    }
}

/// A setting that the same place already gave under the key's other name.
fn twice(earlier: &Setting, written: &str, origin: &Origin) -> Error {
    Error::new(
        ErrorKind::InvalidConfig,
        format!("`{written}` sets `{}` a second time, after {}", earlier.key.name, earlier.origin),
    )
    .context("origin", origin)
    .help("keep one of the two")
}

fn refusal(written: &str, wrong: Wrong, place: &Origin) -> Error {
    let error = Error::new(ErrorKind::InvalidConfig, format!("`{written}` {}", wrong.what)).context("origin", place);
    match wrong.help {
        Some(help) => error.help(help),
        None => error,
    }
}
