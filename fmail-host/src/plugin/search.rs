//! Which file a plugin's name means.
//!
//! A library `libfmail_<name>.so`, or a program `fmail-plugin-<name>`, in the first of these places that has one: the
//! directories of `mail.plugins.path`, those of `FMAIL_PLUGIN_PATH`, the user's, the one beside the program, the system's.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fmail_api::{Error, ErrorKind, Result};

use super::{PluginForm, PluginName, Refusal, check_file};
use crate::config::under_home;
use crate::{Environment, Settings};

/// The variable with directories, separated by colons.
const VARIABLE: &str = "FMAIL_PLUGIN_PATH";

/// A directory in which plugins are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginPlace {
    /// The directory; it need not exist.
    pub directory: PathBuf,
    /// Why it is looked at: a key, a variable, or whose it is.
    pub reason: String,
}

impl fmt::Display for PluginPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.directory.display(), self.reason)
    }
}

/// The file that a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The file, not yet checked.
    pub path: PathBuf,
    /// What it is, by its name.
    pub form: PluginForm,
    /// Where it was found.
    pub place: PluginPlace,
    /// Other files of that name, which are not used.
    pub shadowed: Vec<PathBuf>,
}

/// A file that is named as plugins are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The name of the plugin, as the file's name says.
    pub name: String,
    /// What it is, by its name.
    pub form: PluginForm,
    /// The file.
    pub path: PathBuf,
    /// Where it was found.
    pub place: PluginPlace,
    /// The file of that name that is used instead.
    pub shadowed_by: Option<PathBuf>,
    /// Why it would not be believed.
    pub refused: Option<Refusal>,
}

/// The places in which plugins are looked for, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSearch {
    /// The places.
    pub places: Vec<PluginPlace>,
}

impl PluginSearch {
    /// The places that the settings and the environment name, and the standard ones.
    pub fn new(environment: &Environment, settings: &Settings) -> Result<PluginSearch> {
        let place = |directory: PathBuf, reason: String| PluginPlace { directory, reason };
        let home = environment.home();
        let origin = settings.origin("mail.plugins.path");
        let mut places: Vec<PluginPlace> = (settings.mail.plugins.path.iter())
            .map(|path| place(under_home(path, home.as_ref()), format!("mail.plugins.path, {origin}")))
            .collect();
        for path in environment.var(VARIABLE).unwrap_or_default().split(':').filter(|path| !path.is_empty()) {
            if !path.starts_with('/') {
                return Err(Error::new(
                    ErrorKind::InvalidConfig,
                    format!("{VARIABLE} names {path:?}; allowed are absolute paths, with colons between"),
                )
                .help("write the whole path, from / on"));
            }
            places.push(place(PathBuf::from(path), VARIABLE.into()));
        }
        let data = environment.absolute("XDG_DATA_HOME").or_else(|| home.map(|home| home.join(".local/share")));
        places.extend(data.map(|data| place(data.join("fmail/plugins"), "yours".into())));
        // A program that cannot tell where it lies has nothing beside it.
        let beside =
            std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.join("lib/fmail/plugins")));
        places.extend(beside.map(|directory| place(directory, "beside the program".into())));
        for directory in ["/usr/local/lib/fmail/plugins", "/usr/lib/fmail/plugins"] {
            if !places.iter().any(|known| known.directory == Path::new(directory)) {
                places.push(place(PathBuf::from(directory), "the system's".into()));
            }
        }
        Ok(PluginSearch { places })
    }

    /// The file that a name means: the first that is found. None of them is opened.
    pub fn find(&self, name: &PluginName) -> Result<Option<Resolved>> {
        let forms = [(PluginForm::Library, name.library()), (PluginForm::Program, name.program())];
        let mut first: Option<Resolved> = None;
        for place in &self.places {
            for (form, file) in &forms {
                let path = place.directory.join(file);
                if !is_there(&path)? {
                    continue;
                }
                match &mut first {
                    Some(first) => first.shadowed.push(path),
                    None => {
                        first = Some(Resolved { path, form: *form, place: place.clone(), shadowed: Vec::new() });
                    }
                }
            }
        }
        Ok(first)
    }

    /// Everything that is named as plugins are, in the order in which it is found, with what is wrong with it. A
    /// directory that cannot be listed is an error among the others.
    pub fn all(&self) -> (Vec<Candidate>, Vec<Error>) {
        let (mut found, mut errors): (Vec<Candidate>, Vec<Error>) = (Vec::new(), Vec::new());
        let mut used: BTreeMap<String, PathBuf> = BTreeMap::new();
        for place in &self.places {
            let names = listed(&place.directory).unwrap_or_else(|error| {
                errors.push(Error::io(format_args!("cannot list {place}"), &error));
                Vec::new()
            });
            for (form, name, path) in names {
                let shadowed_by = used.get(&name).cloned();
                used.entry(name.clone()).or_insert_with(|| path.clone());
                let refused = match name.parse::<PluginName>() {
                    Ok(_) => check_file(&path, Some(form), None).err(),
                    Err(error) => {
                        let help = "rename the file".to_string();
                        Some(Refusal { path: path.clone(), reason: error.message().to_string(), help })
                    }
                };
                found.push(Candidate { name, form, path, place: place.clone(), shadowed_by, refused });
            }
        }
        (found, errors)
    }

    /// The names that are found, each once.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = (self.places.iter())
            .flat_map(|place| listed(&place.directory).unwrap_or_default())
            .map(|(_, name, _)| name)
            .filter(|name| name.parse::<PluginName>().is_ok())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// The places, as an error says where was searched.
    pub fn shown(&self) -> String {
        self.places.iter().map(|place| place.directory.display().to_string()).collect::<Vec<_>>().join(", ")
    }
}

fn is_there(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(Error::io(format_args!("cannot look for the plugin {}", path.display()), &error)),
    }
}

/// The files of a directory that are named as plugins are: form, name, path; sorted, libraries before programs. A
/// directory that is not there has none.
fn listed(directory: &Path) -> io::Result<Vec<(PluginForm, String, PathBuf)>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let Some(file) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let library = file.strip_prefix("libfmail_").and_then(|rest| rest.strip_suffix(std::env::consts::DLL_SUFFIX));
        match (library, file.strip_prefix("fmail-plugin-")) {
            (Some(name), _) => found.push((PluginForm::Library, name.replace('_', "-"), path)),
            (None, Some(name)) => found.push((PluginForm::Program, name.to_string(), path)),
            (None, None) => {}
        }
    }
    found.sort();
    Ok(found)
}
