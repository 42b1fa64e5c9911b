//! The configuration: defaults, the system's file, the user's, the project's, the environment, flags; later ones win.
//!
//! Each source is checked by itself, before anything is merged, so that an error can name the file and the line, and a
//! wrong value is an error even where a later source would hide it. Figment merges and remembers who won.

mod check;
mod commands;
mod document;
mod keys;
mod located;
mod mail;
mod mistakes;
mod names;
mod plugin;
mod review;
mod schema;
mod source;
mod texts;

use std::collections::BTreeMap;
use std::path::PathBuf;

use figment::providers::Serialized;
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use fmail_api::{Error, ErrorKind, Result};

pub use check::{Check, PluginCheck};
pub(crate) use document::shown as shown_text;
pub use keys::MIN_TOKEN;
pub(crate) use keys::TRUST;
pub(crate) use located::{Located, Written};
pub use mail::{
    Durability, FoundProjects, Gc, Mail, PluginPlaces, RelaySettings, Secret, TcpSettings, TlsSettings, Watch,
};
pub(crate) use mistakes::one_error;
pub(crate) use plugin::under_home;
pub use plugin::{Isolation, PluginSettings};
pub use review::{Ask, Review};
pub use source::{ConfigFile, Origin, config_places};

use crate::plugin::{PluginName, Resolved};
use crate::{Environment, Project};
use keys::KEYS;
use plugin::Section;
use source::{Gathered, Setting};

/// What is configured, and where each value comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// The settings.
    pub mail: Mail,
    /// The keys that are not at their default.
    origins: BTreeMap<&'static str, Origin>,
    /// The sections of plugins.
    plugins: BTreeMap<PluginName, Section>,
    /// The files that were found for names that have none of their own.
    found: BTreeMap<PluginName, Resolved>,
    /// Whether the project's file says something that needs trust, and has none.
    project_is_strange: bool,
    /// The user's home; noted only when a plugin may need it.
    home: Option<PathBuf>,
}

/// One line of `fmail config show`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key, such as `mail.watch.events`.
    pub key: String,
    /// The value, as the key's environment variable would have it.
    pub value: String,
    /// Where the value comes from.
    pub origin: Origin,
    /// Whether the program acts on it; false for what a project file may say but not bring about.
    pub trusted: bool,
}

impl Settings {
    /// Reads the configuration. `overrides` are flags: dotted keys with their texts. Everything that is wrong with it is in
    /// the one error.
    ///
    /// Without any file, variable and flag this costs a few failed opens and nothing else, because every `send` does it.
    pub fn load(environment: &Environment, project: Option<&Project>, overrides: &[(String, String)]) -> Result<Self> {
        let (settings, mistakes) = Settings::gather(environment, project, overrides)?;
        if mistakes.is_empty() { Ok(settings) } else { Err(one_error(mistakes)) }
    }

    /// As [`Settings::load`], for those who want to go on: what is right counts, what is wrong is listed.
    pub fn gather(
        environment: &Environment,
        project: Option<&Project>,
        overrides: &[(String, String)],
    ) -> Result<(Self, Vec<Error>)> {
        let mut gathered = Gathered::default();
        source::files(environment, project, &mut gathered);
        texts::environment(environment, &mut gathered);
        texts::flags(overrides, &mut gathered);
        if gathered.is_empty() {
            return Ok((Settings::default(), Vec::new()));
        }
        let mut settings = Settings::merged(&gathered.settings)?;
        settings.project_is_strange = gathered.author.is_some_and(keys::Author::is_stranger);
        settings.plugins = plugin::merged(gathered.parts);
        if !settings.plugins.is_empty() {
            settings.home = environment.home();
        }
        let mut mistakes = gathered.mistakes;
        mistakes.extend(names::resolve(&mut settings, &gathered.settings, environment, project));
        Ok((settings, mistakes))
    }

    /// Merges the settings over the defaults, in their order.
    fn merged(settings: &[Setting]) -> Result<Self> {
        let mut figment = Figment::from(Serialized::default("mail", Mail::default()));
        for (place, setting) in settings.iter().enumerate() {
            figment = figment.merge(Merging { setting, place });
        }
        // Each value was checked, so that this fails only where the table of keys and the types disagree.
        let mail = figment.extract_inner("mail").map_err(|error| {
            Error::new(ErrorKind::Internal, format!("the configuration was checked but does not load: {error}"))
        })?;
        let winner = |key: &str| settings.get(place_of(figment.find_metadata(key)?)?);
        let origins = KEYS.iter().filter_map(|key| Some((key.name, winner(key.name)?.origin.clone()))).collect();
        Ok(Settings { mail, origins, ..Settings::default() })
    }

    /// Where the value of a key comes from.
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    /// How the plugin of this name is loaded, and what its section says; the defaults when it has none.
    pub fn plugin(&self, name: &PluginName) -> PluginSettings {
        let nothing = Section::default();
        let section = self.plugins.get(name).unwrap_or(&nothing);
        let mut settings = section.settings(name, self.home.as_ref(), !self.project_is_strange);
        settings.found = self.found.get(name).cloned();
        settings
    }

    /// The plugins that have a section, by name.
    pub fn plugin_sections(&self) -> Vec<PluginSettings> {
        self.plugins.keys().map(|name| self.plugin(name)).collect()
    }

    /// Every key of the host with its value and where that comes from.
    pub fn entries(&self) -> Vec<Entry> {
        // A type of ours that cannot be serialised would have failed in the tests of every value below.
        let mail = Value::serialize(&self.mail).ok();
        let value = |key: &str| mail.as_ref().and_then(|mail| mail.find_ref(key.trim_start_matches("mail.")));
        let untrusted = self.untrusted();
        KEYS.iter()
            .map(|key| Entry {
                key: key.name.to_string(),
                value: value(key.name).map(text_of).map(|text| shown(key, text)).unwrap_or_default(),
                origin: self.origin(key.name),
                trusted: !untrusted.contains(&key.name),
            })
            .collect()
    }

    /// What the sections of plugins say, key by key. A value of a plugin's own may be a secret: only its schema tells.
    pub fn plugin_entries(&self) -> Vec<(PluginName, Entry)> {
        let entry = |name: &PluginName, (key, value, origin): (String, String, &Origin)| Entry {
            key: format!("mail.plugin.{name}.{key}"),
            value,
            origin: origin.clone(),
            trusted: true,
        };
        let section = |(name, section): (&PluginName, &Section)| {
            section.leaves().into_iter().map(|leaf| (name.clone(), entry(name, leaf))).collect::<Vec<_>>()
        };
        self.plugins.iter().flat_map(section).collect()
    }

    /// The keys that a project file set and that nobody may act on until the user trusts the project. A daemon that
    /// finds a key of `mail.relay` here dials nobody.
    pub fn untrusted(&self) -> Vec<&'static str> {
        let from_project =
            |key: &str| matches!(self.origins.get(key), Some(Origin::File { file: ConfigFile::Project, .. }));
        let strange = |key: &&keys::Key| self.project_is_strange && key.needs_trust() && from_project(key.name);
        KEYS.iter().filter(strange).map(|key| key.name).collect()
    }

    /// The whole configuration as JSON Schema, with the sections of plugins as far as they are known without running any;
    /// and what stood in the way of knowing more.
    pub fn schema(
        environment: &Environment,
        project: Option<&Project>,
        overrides: &[(String, String)],
    ) -> Result<(serde_json::Value, Vec<Error>)> {
        schema::whole(environment, project, overrides)
    }

    /// The schema of a plugin's own section, as far as it is known without running the plugin.
    pub fn plugin_schema(&self, name: &PluginName) -> Option<crate::Schema> {
        let (_, manifest) = check::manifest(&self.plugin(name)).ok()?;
        manifest.ok().map(|manifest| manifest.config_schema)
    }

    /// A configuration file with every key at its default and a comment for each.
    pub fn sample() -> &'static str {
        include_str!("../../../docs/config.sample.toml")
    }
}

/// A setting on its way into figment. Its place in the list goes along as the source, so that figment itself answers
/// whose value won.
struct Merging<'a> {
    setting: &'a Setting,
    place: usize,
}

impl Provider for Merging<'_> {
    fn metadata(&self) -> Metadata {
        Metadata::from(self.setting.origin.to_string(), self.place.to_string())
    }

    fn data(&self) -> figment::error::Result<Map<Profile, Dict>> {
        let nested = figment::util::nest(self.setting.key.name, self.setting.value.clone());
        Ok(Profile::Default.collect(nested.into_dict().unwrap_or_default()))
    }
}

/// The place that [`Merging`] put into the metadata; the defaults have none.
fn place_of(metadata: &Metadata) -> Option<usize> {
    metadata.source.as_ref()?.custom()?.parse().ok()
}

/// The value, or that there is one.
fn shown(key: &keys::Key, text: String) -> String {
    if key.is_secret() && !text.is_empty() { "(not shown)".into() } else { text }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(_, text) => text.clone(),
        Value::Bool(_, value) => value.to_string(),
        Value::Num(_, number) => number.to_u128_lossy().map(|number| number.to_string()).unwrap_or_default(),
        Value::Array(_, items) => items.iter().map(text_of).collect::<Vec<_>>().join(","),
        Value::Char(_, c) => c.to_string(),
        // What a variable takes is JSON; every key of ours is a text, so there is such a form.
        Value::Dict(_, entries) if !entries.is_empty() => serde_json::to_string(entries).unwrap_or_default(),
        Value::Empty(..) | Value::Dict(..) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::keys::Form;
    use super::*;

    #[test]
    fn the_defaults_are_what_figment_would_give() {
        assert_eq!(Settings::merged(&[]).unwrap(), Settings::default());
    }

    #[test]
    fn every_key_has_a_value_of_its_own_form() {
        for (entry, key) in Settings::default().entries().iter().zip(&KEYS) {
            assert_eq!(entry.key, key.name);
            let may_be_empty = matches!(
                key.form,
                Form::Addresses
                    | Form::Secret(_)
                    | Form::Credential
                    | Form::Commands
                    | Form::Names(_)
                    | Form::Directories
            );
            assert!(!entry.value.is_empty() || may_be_empty, "{entry:?}");
            assert!(key.form.check(&key.form.read(&entry.value), keys::Author::Owner).is_ok(), "{entry:?}");
            assert_eq!((&entry.origin, entry.trusted), (&Origin::Default, true));
        }
    }

    #[test]
    fn the_table_of_keys_is_exactly_the_fields() {
        fn leaves(value: &Value, path: String, into: &mut Vec<String>) {
            match value.as_dict() {
                Some(dict) if !dict.is_empty() => {
                    dict.iter().for_each(|(name, value)| leaves(value, format!("{path}.{name}"), into))
                }
                _ => into.push(path),
            }
        }
        let mut fields = Vec::new();
        leaves(&Value::serialize(Mail::default()).unwrap(), "mail".into(), &mut fields);
        let mut names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        names.sort_unstable();
        assert_eq!(fields, names);
    }
}
