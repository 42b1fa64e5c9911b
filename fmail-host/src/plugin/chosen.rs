//! Which plugin the words of a command mean.

use std::path::{Path, PathBuf};

use fmail_api::{Error, Result};

use super::{PluginName, PluginSearch};
use crate::near::suggestion;
use crate::{Environment, PluginSettings, Project, Settings};

/// What a command was told about a plugin: its name, or the path of its file.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The settings, with those of the command line.
    pub settings: Settings,
    /// How the plugin is loaded.
    pub plugin: PluginSettings,
}

impl Chosen {
    /// The plugin that `text` means: a path if it has a slash, otherwise a name as the configuration would have it.
    ///
    /// `overrides` are the settings of the command line. A key that begins with `config.`,
    /// and `isolation` and `timeout`, are those of the plugin's section.
    pub fn find(
        environment: &Environment,
        project: Option<&Project>,
        overrides: &[(String, String)],
        text: &str,
    ) -> Result<Chosen> {
        let path = text.contains('/').then(|| absolute(&environment.cwd, Path::new(text)));
        let name = match &path {
            Some(path) => name_of(path)?,
            None => text.parse::<PluginName>()?,
        };
        // Which store the project uses does not matter here: its author may have named it before it is there.
        let mut all: Vec<(String, String)> = vec![("mail.store".into(), "files".into())];
        if let Some(path) = &path {
            all.push((format!("mail.plugin.{name}.file"), path.to_string_lossy().into_owned()));
        }
        all.extend(overrides.iter().map(|(key, value)| (whole(key, &name), value.clone())));
        let settings = Settings::load(environment, project, &all)?;
        let mut plugin = settings.plugin(&name);
        if plugin.file.is_none() && plugin.command.is_none() && plugin.found.is_none() {
            plugin.found = found(environment, &settings, &plugin)?;
        }
        Ok(Chosen { settings, plugin })
    }
}

/// A key of the plugin's section, in full.
fn whole(key: &str, name: &PluginName) -> String {
    let own = key.starts_with("config.") || ["isolation", "timeout"].contains(&key);
    if own { format!("mail.plugin.{name}.{key}") } else { key.into() }
}

fn found(
    environment: &Environment,
    settings: &Settings,
    plugin: &PluginSettings,
) -> Result<Option<super::search::Resolved>> {
    let search = PluginSearch::new(environment, settings)?;
    let found = search.find(&plugin.plugin)?;
    if found.is_some() {
        return Ok(found);
    }
    let names = search.names();
    let help = match names.is_empty() {
        true => "no plugin is found; `fmail plugin path` shows where they are looked for".to_string(),
        false => suggestion(plugin.plugin.as_str(), names.iter().map(String::as_str)),
    };
    Err(Error::not_found(format!(
        "the plugin `{}` was not found in {}; a path has a slash in it",
        plugin.plugin,
        search.shown()
    ))
    .help(help))
}

/// The name of the section for a file: what its own name says, if that is named as plugins are.
fn name_of(path: &Path) -> Result<PluginName> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let library = file.strip_prefix("libfmail_").and_then(|rest| rest.strip_suffix(std::env::consts::DLL_SUFFIX));
    let name = library.map(|name| name.replace('_', "-")).or_else(|| Some(file.strip_prefix("fmail-plugin-")?.into()));
    name.and_then(|name| name.parse().ok()).map_or_else(|| "plugin".parse(), Ok)
}

/// The path from the root, without the dots that a shell's user writes.
fn absolute(cwd: &Path, path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in cwd.join(path).components() {
        if part != std::path::Component::CurDir {
            whole.push(part);
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_name_that_it_is_called_by() {
        let name = |path: &str| name_of(Path::new(path)).unwrap().to_string();
        assert_eq!(name("/p/libfmail_my_store.so"), "my-store");
        assert_eq!(name("/p/fmail-plugin-notes"), "notes");
        assert_eq!(name("/p/store.py"), "plugin");
        assert_eq!(name("/p/libfmail_.so"), "plugin");
    }

    #[test]
    fn a_relative_path_begins_where_the_command_runs() {
        assert_eq!(absolute(Path::new("/here"), Path::new("./a/x.so")), Path::new("/here/a/x.so"));
        assert_eq!(absolute(Path::new("/here"), Path::new("/there/x.so")), Path::new("/there/x.so"));
    }
}
