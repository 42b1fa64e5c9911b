//! Whether the names of stores, transports and relays mean something: what is built in, a plugin with a file or a command
//! of its own, or one that is found. Nothing is loaded for that, and without a name that is not built in, nothing is looked
//! for.

use std::path::Path;

use fmail_api::{Error, ErrorKind, Result};

use super::source::Setting;
use super::{Origin, Settings};
use crate::near::near;
use crate::plugin::{PluginName, PluginSearch, Resolved};
use crate::registry::PluginKind;
use crate::{Environment, Project};

/// A name that has to mean something.
struct Named {
    kind: PluginKind,
    name: PluginName,
}

/// Finds what every name means, and notes it in the settings; what means nothing is a mistake.
pub fn resolve(
    settings: &mut Settings,
    written: &[Setting],
    environment: &Environment,
    project: Option<&Project>,
) -> Vec<Error> {
    let named = named(settings);
    let mut mistakes = conflicts(settings);
    if named.is_empty() {
        return mistakes;
    }
    settings.home = environment.home();
    let search = match PluginSearch::new(environment, settings) {
        Ok(search) => search,
        Err(error) => {
            mistakes.push(error);
            return mistakes;
        }
    };
    for Named { kind, name } in named {
        let own = settings.plugin(&name);
        if own.file.is_some() || own.command.is_some() || settings.found.contains_key(&name) {
            continue;
        }
        let origin = settings.origin(kind.key());
        let strange = own.is_strange(&origin) || own.is_strange(&own.origin("use"));
        let root = project.map(|project| project.root.as_path()).filter(|_| strange);
        match found(&search, &own.plugin, root) {
            Ok(Some(found)) => drop(settings.found.insert(name, found)),
            Ok(None) => mistakes.push(unknown(kind, &name, &own.plugin, &search, written, &origin)),
            Err(error) => mistakes.push(error.context("origin", origin)),
        }
    }
    mistakes
}

/// The names in use that are not built in.
fn named(settings: &Settings) -> Vec<Named> {
    let mail = &settings.mail;
    let stores = std::iter::once((PluginKind::Store, &mail.store));
    let transports = mail.transports.iter().map(|name| (PluginKind::Transport, name));
    let relays = mail.relays.iter().map(|name| (PluginKind::Relay, name));
    stores
        .chain(transports)
        .chain(relays)
        .filter(|(kind, name)| !kind.has(name))
        // Every name was parsed when its source was read.
        .filter_map(|(kind, name)| Some(Named { kind, name: name.parse().ok()? }))
        .collect()
}

/// Keys of one section that do not go together.
fn conflicts(settings: &Settings) -> Vec<Error> {
    let mut mistakes = Vec::new();
    for section in settings.plugin_sections() {
        let wrong = |key: &str, what: &str| {
            Error::new(ErrorKind::InvalidConfig, format!("`{}` {what}", section.key(key)))
                .context("origin", section.origin(key))
        };
        let command = section.command.is_some();
        if section.file.is_some() && command {
            mistakes
                .push(wrong("file", "is set beside `command`, and only one of them may").help("remove one of them"));
        }
        if command && section.isolation == Some(super::Isolation::None) {
            let what = "is none, but a `command` always runs in a process of its own";
            mistakes.push(wrong("isolation", what).help("remove it, or set it to \"process\""));
        }
        if command && section.sha256.is_some() {
            let what = "is set beside `command`, and there is no one file to compare";
            mistakes.push(wrong("sha256", what).help("name the file in `file`, or remove one of them"));
        }
    }
    mistakes
}

/// The file that a name means. One that a stranger chose is not looked for inside of its own project: that would be
/// a path after all.
fn found(search: &PluginSearch, name: &PluginName, strange_root: Option<&Path>) -> Result<Option<Resolved>> {
    let Some(root) = strange_root else { return search.find(name) };
    let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
    let inside = |path: &Path| std::fs::canonicalize(path).is_ok_and(|path| path.starts_with(&root));
    let outside: Vec<_> = search.places.iter().filter(|place| !inside(&place.directory)).cloned().collect();
    let found = match (PluginSearch { places: outside }).find(name)? {
        Some(found) if !inside(&found.path) => return Ok(Some(found)),
        Some(found) => Some(found),
        None => search.find(name)?,
    };
    match found {
        Some(found) => Err(Error::new(
            ErrorKind::InvalidConfig,
            format!(
                "the plugin `{name}` was chosen by the project's file, which may not choose what lies in the project \
                 itself: {}",
                found.path.display()
            ),
        )
        .help(super::TRUST)),
        None => Ok(None),
    }
}

fn unknown(
    kind: PluginKind,
    name: &PluginName,
    plugin: &PluginName,
    search: &PluginSearch,
    written: &[Setting],
    origin: &Origin,
) -> Error {
    // The last one is the one that counts; it may have been written under the key's other name.
    let key = written.iter().rev().find(|setting| setting.key.name == kind.key());
    let key = key.map_or(kind.key(), |setting| setting.written.as_str());
    let error = |what: String| {
        let verb = if kind == PluginKind::Store { "is" } else { "contains" };
        Error::new(ErrorKind::InvalidConfig, format!("`{key}` {verb} the text \"{name}\"; {what}"))
            .context("origin", origin)
    };
    if name != plugin {
        return error(format!("its section names the plugin `{plugin}`, which is not found")).help(searched(search));
    }
    match name.as_str() {
        "beadmail" => error("the provider `beadmail` is not part of fmail".into())
            .help("use `files`, which keeps the messages in .fmail/"),
        "exec" | "chat" | "sqlite" if kind == PluginKind::Store => {
            error(format!("the store `{name}` is a plugin that comes with fmail, and is not installed"))
                .help(format!("`cargo xtask install` installs it; {}", searched(search)))
        }
        _ => {
            let found = search.names();
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            error(format!("there is no {kind} named `{name}`")).help(format!(
                "{}{}",
                offered(kind, name.as_str(), &found),
                searched(search)
            ))
        }
    }
}

/// What there is instead. Of what kind a plugin is, only its manifest says, and none is read for this.
fn offered(kind: PluginKind, name: &str, found: &[&str]) -> String {
    let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
    let known = kind.built_in().iter().chain(found);
    match near(name, known.copied()).as_slice() {
        [] => {
            let built_in = quoted(kind.built_in()).join(", ");
            let built_in =
                if built_in.is_empty() { "no one is built in".into() } else { format!("built in: {built_in}") };
            let plugins = quoted(found).join(", ");
            let plugins = if plugins.is_empty() { "no plugin is found".into() } else { format!("plugins: {plugins}") };
            format!("{built_in}; {plugins}; ")
        }
        near => format!("did you mean {}? ", quoted(near).join(" or ")),
    }
}

fn searched(search: &PluginSearch) -> String {
    format!("plugins were looked for in {}; `fmail plugin list` shows what is found", search.shown())
}
