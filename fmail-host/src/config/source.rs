//! Where settings come from, and the files among that. Every source yields checked settings and all its mistakes.

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
        match self.parsed() {
            Ok(root) => {
                let before = gathered.settings.len();
                Reading { source: self, stranger, gathered, before }.section("", &root);
            }
            Err(error) => gathered.mistakes.push(error),
        }
    }

    /// The file as a tree; an error when it is not in its language.
    pub fn parsed(&self) -> Result<Node> {
        self.format
            .parse(&self.text)
            .map_err(|error| self.error(error.line, format!("this is not {}: {}", self.format.name(), error.message)))
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

/// The section of plugins, and in each of them the one that is the plugin's own.
pub const SECTIONS: &str = "mail.plugin";
pub const CONFIG: &str = "config";

/// The name of a plugin's section. What is built in has none: it would be read and do nothing.
pub fn section_name(name: &str) -> Result<PluginName> {
    if let Some(kind) = built_in(name) {
        return Err(Error::new(ErrorKind::InvalidConfig, format!("the {kind} `{name}` is built in, and is no plugin"))
            .help("give the section another name, and name that in mail.store, mail.transports or mail.relays"));
    }
    name.parse()
}

pub fn section_key(name: &str) -> Option<&'static Key> {
    SECTION_KEYS.iter().find(|key| key.name == name)
}

pub fn no_such_key(section: &str, key: &str) -> (String, String) {
    let known: Vec<&str> = SECTION_KEYS.iter().map(|key| key.name).chain([CONFIG]).collect();
    let what = format!("`{section}.{}` is not a key", key.escape_debug());
    (what, format!("{}; the plugin's own keys stand in {section}.{CONFIG}", suggestion(key, known)))
}

/// The texts of a checked value: one, or those of a list.
pub fn texts_of(value: &Value) -> Vec<String> {
    match value {
        Value::String(_, text) => vec![text.clone()],
        Value::Array(_, items) => items.iter().flat_map(texts_of).collect(),
        _ => Vec::new(),
    }
}

/// A setting that the same place already gave under the key's other name.
pub fn twice(earlier: &Setting, written: &str, origin: &Origin) -> Error {
    Error::new(
        ErrorKind::InvalidConfig,
        format!("`{written}` sets `{}` a second time, after {}", earlier.key.name, earlier.origin),
    )
    .context("origin", origin)
    .help("keep one of the two")
}

pub fn refusal(written: &str, wrong: Wrong, place: &Origin) -> Error {
    let error = Error::new(ErrorKind::InvalidConfig, format!("`{written}` {}", wrong.what)).context("origin", place);
    match wrong.help {
        Some(help) => error.help(help),
        None => error,
    }
}
