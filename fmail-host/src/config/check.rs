//! `fmail config check`: everything that is wrong with the configuration, also with what it says to plugins.

use std::path::PathBuf;

use fmail_api::{Error, ErrorKind, Result};

use super::{Origin, PluginSettings, Settings, one_error};
use crate::plugin::{Manifest, PluginName, PluginSearch};
use crate::registry::PluginKind;
use crate::{Environment, Project};

/// What a check of the configuration found.
#[derive(Debug)]
pub struct Check {
    /// Everything that is wrong.
    pub mistakes: Vec<Error>,
    /// The plugins that are named or have a section.
    pub plugins: Vec<PluginCheck>,
}

/// How far a plugin's section could be checked.
#[derive(Debug)]
pub struct PluginCheck {
    /// The name of its section.
    pub name: PluginName,
    /// Which plugin it is.
    pub plugin: PluginName,
    /// Its file, if it has one.
    pub file: Option<PathBuf>,
    /// Why its section was not checked against its manifest, if it was not.
    pub unchecked: Option<String>,
}

impl Check {
    /// Checks the configuration. No plugin is loaded or run for it.
    pub fn of(environment: &Environment, project: Option<&Project>, overrides: &[(String, String)]) -> Result<Check> {
        let (settings, mistakes) = Settings::gather(environment, project, overrides)?;
        let mut check = Check { mistakes, plugins: Vec::new() };
        for mut plugin in plugins(&settings) {
            if plugin.file.is_none() && plugin.command.is_none() && plugin.found.is_none() {
                // Named nowhere yet; what it would be checked against may still be there.
                plugin.found = PluginSearch::new(environment, &settings).and_then(|all| all.find(&plugin.plugin))?;
            }
            check.plugin(&settings, &plugin);
        }
        Ok(check)
    }

    /// All mistakes as one error, if there are any.
    pub fn error(self) -> Option<Error> {
        (!self.mistakes.is_empty()).then(|| one_error(self.mistakes))
    }

    fn plugin(&mut self, settings: &Settings, plugin: &PluginSettings) {
        let (name, used) = (plugin.name.clone(), plugin.plugin.clone());
        let mut told = PluginCheck { name, plugin: used, file: None, unchecked: None };
        match manifest(plugin) {
            Ok((file, Ok(manifest))) => {
                told.file = Some(file);
                self.mistakes.extend(misuse(settings, plugin, &manifest));
                let checked = manifest.config_schema.check(plugin);
                self.mistakes.extend(checked.err().into_iter().flatten().map(Error::from));
            }
            Ok((file, Err(why))) => {
                told.file = Some(file).filter(|file| !file.as_os_str().is_empty());
                told.unchecked = Some(why);
            }
            Err(error) => {
                told.unchecked = Some("its file is refused".into());
                self.mistakes.push(error);
            }
        }
        self.plugins.push(told);
    }
}

/// The plugins that are named or have a section, each once.
pub fn plugins(settings: &Settings) -> Vec<PluginSettings> {
    let named = settings.found.keys().chain(settings.plugins.keys());
    let mut names: Vec<&PluginName> = named.collect();
    names.sort();
    names.dedup();
    names.into_iter().map(|name| settings.plugin(name)).collect()
}

/// The file and its manifest, or why that is not known without running it.
pub fn manifest(plugin: &PluginSettings) -> Result<(PathBuf, std::result::Result<Manifest, String>)> {
    if plugin.command.is_some() {
        return Ok((PathBuf::new(), Err("a command says what it takes only when it runs".into())));
    }
    if plugin.file.is_none() && plugin.found.is_none() {
        return Ok((PathBuf::new(), Err("it is not found, and not used".into())));
    }
    let Some(file) = plugin.checked_file()? else {
        return Err(Error::internal("a plugin has neither file nor command"));
    };
    let manifest = file.manifest()?;
    let unknown = || format!("what this {} takes cannot be read without running it", file.form.word());
    Ok((file.path.clone(), manifest.ok_or_else(unknown)))
}

/// That a plugin is used as something that it is not, or under a name that is not its own.
fn misuse(settings: &Settings, plugin: &PluginSettings, manifest: &Manifest) -> Vec<Error> {
    let wrong = |what: String, origin: Origin| {
        let error = Error::new(ErrorKind::InvalidConfig, what);
        if origin == Origin::Default { error } else { error.context("origin", origin) }
    };
    let mut mistakes = Vec::new();
    if manifest.name != plugin.plugin {
        let what = format!("`{}` is the plugin `{}`; expected `{}`", plugin.name, manifest.name, plugin.plugin);
        let origin = if plugin.file.is_some() { plugin.origin("file") } else { Origin::Default };
        mistakes.push(wrong(what, origin).help(format!("write use = \"{}\" into its section", manifest.name)));
    }
    let mail = &settings.mail;
    for kind in PluginKind::ALL.into_iter().filter(|kind| *kind != manifest.kind) {
        let names = match kind {
            PluginKind::Store => std::slice::from_ref(&mail.store),
            PluginKind::Transport => &mail.transports,
            PluginKind::Relay => &mail.relays,
        };
        if names.iter().any(|name| name == plugin.name.as_str()) {
            let what =
                format!("`{}` names `{}`, which is a {}; expected a {kind}", kind.key(), plugin.name, manifest.kind);
            let help = format!("name it in {}", manifest.kind.key());
            mistakes.push(wrong(what, settings.origin(kind.key())).help(help));
        }
    }
    mistakes
}
