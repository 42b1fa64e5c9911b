//! `fmail plugin new`

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use fmail_api::{Error, ErrorKind, Result};
use fmail_host::{Environment, PluginName};
use serde_json::json;

use super::template::{TEMPLATES, Template};
use crate::output::{Outcome, Output};

/// Names the sources of fmail for plugins in Rust.
const SDK: &str = "FMAIL_PLUGIN_SDK";

/// What a plugin is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Keeps messages
    Store,
    /// Carries requests between commands and the daemon
    Transport,
    /// Exchanges messages with others
    Relay,
}

/// What it is written in.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lang {
    /// A library, with the SDK
    Rust,
    /// A library, with the header alone
    C,
    /// A program, with nothing but Python 3.10
    Python,
}

fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
}

pub(super) struct New {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) lang: Lang,
    pub(super) dir: Option<PathBuf>,
    pub(super) sdk: Option<PathBuf>,
    pub(super) json: bool,
}

impl New {
    pub(super) fn run(self, environment: &Environment, output: &mut Output) -> Outcome {
        let name: PluginName = self.name.parse()?;
        let template = self.template()?;
        let sdk = if self.lang == Lang::Rust { Some(self.sdk(environment)?) } else { None };
        let directory = environment.cwd.join(self.dir.clone().unwrap_or_else(|| PathBuf::from(name.as_str())));
        let files = written(template, name.as_str(), &directory, sdk.as_deref())?;
        let result = directory.join(template.made(template.result, name.as_str()));
        if self.json {
            let (directory, result) = (directory.display().to_string(), result.display().to_string());
            return output.json(&json!({
                "name": name.as_str(), "kind": word(self.kind), "lang": word(self.lang), "directory": directory,
                "files": files, "build": template.build, "result": result,
            }));
        }
        for file in &files {
            output.line(&directory.join(file).display().to_string())?;
        }
        Ok(())
    }

    fn template(&self) -> Result<&'static Template> {
        let fits = |one: &&Template| one.kind == self.kind && one.lang == self.lang;
        TEMPLATES.iter().find(fits).ok_or_else(|| {
            let offered: Vec<String> =
                TEMPLATES.iter().map(|one| format!("{} in {}", word(one.kind), word(one.lang))).collect();
            let (kind, lang) = (word(self.kind), word(self.lang));
            Error::new(ErrorKind::Unsupported, format!("there is no template for a {kind} in {lang}"))
                .help(format!("there are: {}", offered.join(", ")))
        })
    }

    /// The directory of the SDK's crate.
    fn sdk(&self, environment: &Environment) -> Result<PathBuf> {
        let named =
            self.sdk.clone().or_else(|| environment.var(SDK).filter(|text| !text.is_empty()).map(PathBuf::from));
        let Some(named) = named else {
            return Err(Error::invalid(
                "a plugin in Rust is built with the crate fmail-plugin, which no registry has yet",
            )
            .help(format!("name the directory of fmail's sources with --sdk DIR or {SDK}")));
        };
        let root = environment.cwd.join(named);
        let crates = [root.join("plugins/sdk"), root.clone()];
        let found = crates.iter().find(|path| path.join("src/macros.rs").is_file());
        found.cloned().ok_or_else(|| {
            Error::not_found(format!("there are no sources of fmail in {}", root.display()))
                .help("name the directory that has plugins/sdk in it")
        })
    }
}

/// Writes the files of a template; gives their paths in the directory. A file that is there is never touched.
fn written(template: &Template, name: &str, directory: &Path, sdk: Option<&Path>) -> Result<Vec<String>> {
    let mut files: Vec<(String, String, bool)> = Vec::new();
    for file in template.files {
        let mut text = template.made(file.text, name);
        if let Some(sdk) = sdk {
            text = text.replace("{{sdk}}", &sdk.to_string_lossy());
        }
        // What is written lies beside its header, and not in the repository.
        text = text.replace("HEADER ?= ../../sdk/include", "HEADER ?= .");
        files.push((template.made(file.path, name), text, file.executable));
    }
    files.push(("README.md".into(), template.made(&readme(template), name), false));
    for (path, ..) in &files {
        let path = directory.join(path);
        if path.exists() {
            return Err(Error::new(ErrorKind::Conflict, format!("{} is there already", path.display()))
                .help("choose another directory with --dir, or remove it"));
        }
    }
    for (path, text, executable) in &files {
        write(&directory.join(path), text, *executable)?;
    }
    Ok(files.into_iter().map(|(path, ..)| path).collect())
}

fn write(path: &Path, text: &str, executable: bool) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(format_args!("cannot write {}", path.display()), &error);
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).create(directory).map_err(failed)?;
    }
    // A plugin that others can write is refused, so the mode does not depend on anyone's umask.
    let mode = if executable { 0o755 } else { 0o644 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    if executable {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
    }
    Ok(())
}

/// The project's own words: the commands that build, check and use it.
fn readme(template: &Template) -> String {
    let build = if template.build.is_empty() { String::new() } else { format!("{}\n", template.build) };
    let key = match template.kind {
        Kind::Store => "store = \"{{name}}\"",
        Kind::Transport => "transports = [\"unix\", \"{{name}}\"]",
        Kind::Relay => "relays = [\"{{name}}\"]",
    };
    let pair = if template.kind == Kind::Relay { " --pair" } else { "" };
    let (about, result) = (template.about, template.result);
    format!(
        "# {{{{name}}}}\n\n{about}\n\n```sh\n{build}fmail plugin check ./{result}{pair}\n\
         mkdir -p ~/.local/share/fmail/plugins && install {result} ~/.local/share/fmail/plugins/\n```\n\n\
         Then name it in the configuration (`fmail config path` says where that is):\n\n\
         ```toml\n[mail]\n{key}\n```\n\n\
         `fmail plugin inspect {{{{name}}}}` shows what fmail sees of it; `FMAIL_PLUGIN_TRACE=<file>` writes down every word that\n\
         is exchanged with it. The rules that it must keep stand in fmail's docs/plugins/contract.md.\n"
    )
}
