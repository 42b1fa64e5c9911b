//! Settings that are texts: the environment's and those of flags.

use fmail_api::{Error, ErrorKind, Result};

use super::keys::{Author, Key};
use super::located::Located;
use super::plugin::Part;
use super::source::{
    CONFIG, Gathered, Origin, SECTIONS, Setting, no_such_key, refusal, section_key, section_name, texts_of, twice,
};
use crate::Environment;
use crate::near::suggestion;
use crate::plugin::PluginName;

/// Variables that say who and where, variables that a nudge gives to its command, those of plugins' authors, and variables
/// of the test suites: no configuration.
const IDENTITIES: [&str; 3] = ["FMAIL_AGENT", "FMAIL_ROOT", "FMAIL_PROJECT"];
const NUDGES: [&str; 3] = ["FMAIL_NUDGE_AGENT", "FMAIL_NUDGE_FROM", "FMAIL_NUDGE_TEXT"];
const PLUGINS: [&str; 3] = ["FMAIL_PLUGIN_HOST", "FMAIL_PLUGIN_PATH", "FMAIL_PLUGIN_TRACE"];
const OTHERS: [&str; 2] = ["FMAIL_TEST_", "FMAIL_CONFORMANCE_"];

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
