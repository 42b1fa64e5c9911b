//! `fmail plugin list`

use fmail_api::Error;
use fmail_host::{
    Candidate, Environment, PluginFile, PluginForm, PluginKind, PluginSearch, PluginSettings, Project, Settings,
};
use serde::Serialize;
use serde_json::json;

use crate::output::{Outcome, Output, report};
use crate::table;

/// What is known of a plugin without running it.
#[derive(Serialize)]
struct Listed {
    name: String,
    /// Unknown of a program, which says what it is when it runs.
    kind: Option<&'static str>,
    form: &'static str,
    state: State,
    path: Option<String>,
    /// Where it was found, or which line of the configuration names it.
    place: Option<String>,
    /// Why it is not used.
    reason: Option<String>,
    help: Option<String>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    BuiltIn,
    Configured,
    Found,
    Shadowed,
    Refused,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::BuiltIn => "built-in",
            State::Configured => "configured",
            State::Found => "found",
            State::Shadowed => "shadowed",
            State::Refused => "refused",
        }
    }
}

pub(super) fn run(
    environment: &Environment,
    project: &Project,
    overrides: &[(String, String)],
    json: bool,
    output: &mut Output,
) -> Outcome {
    let (settings, mistakes) = Settings::gather(environment, Some(project), overrides)?;
    mistakes.iter().for_each(report);
    let (found, errors) = PluginSearch::new(environment, &settings)?.all();
    errors.iter().for_each(report);
    let mut all: Vec<Listed> = PluginKind::ALL.into_iter().flat_map(built_in).collect();
    all.extend(settings.plugin_sections().iter().filter_map(configured));
    all.extend(found.into_iter().map(candidate));
    if json {
        return output.json(&json!({ "plugins": all, "errors": errors }));
    }
    let rows: Vec<[String; 5]> = all.iter().map(row).collect();
    for line in table::lines(["NAME", "KIND", "FORM", "STATE", "WHERE"], &rows) {
        output.line(&line)?;
    }
    Ok(())
}

fn row(one: &Listed) -> [String; 5] {
    let path = one.path.as_deref().unwrap_or_default();
    let reason = one.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let help = one.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    [
        one.name.clone(),
        one.kind.unwrap_or("?").into(),
        one.form.into(),
        one.state.word().into(),
        format!("{path}{reason}{help}"),
    ]
}

fn built_in(kind: PluginKind) -> Vec<Listed> {
    let one = |name: &&str| Listed {
        name: name.to_string(),
        kind: Some(kind.word()),
        form: "built-in",
        state: State::BuiltIn,
        path: None,
        place: None,
        reason: None,
        help: None,
    };
    kind.built_in().iter().map(one).collect()
}

/// A section that names a file or a command; one that does not means what the search finds.
fn configured(plugin: &PluginSettings) -> Option<Listed> {
    let key = if plugin.command.is_some() { "command" } else { "file" };
    let place = Some(format!("{} ({})", plugin.key(key), plugin.origin(key)));
    let mut listed = Listed {
        name: plugin.name.to_string(),
        kind: None,
        form: PluginForm::Program.word(),
        state: State::Configured,
        path: plugin.file.as_ref().map(|file| file.display().to_string()),
        place,
        reason: plugin.command.as_ref().map(|command| command.join(" ")),
        help: None,
    };
    if plugin.command.is_none() {
        listed.form = PluginForm::of(plugin.file.as_ref()?).word();
        match plugin.checked_file() {
            Ok(file) => listed.learn(file.as_ref()),
            Err(error) => listed.refuse(&error),
        }
    }
    Some(listed)
}

fn candidate(found: Candidate) -> Listed {
    let mut listed = Listed {
        name: found.name,
        kind: None,
        form: found.form.word(),
        state: State::Found,
        path: Some(found.path.display().to_string()),
        place: Some(found.place.to_string()),
        reason: None,
        help: None,
    };
    match found.refused {
        Some(refusal) => {
            listed.state = State::Refused;
            (listed.reason, listed.help) = (Some(refusal.reason), Some(refusal.help));
        }
        None => listed.learn(Some(&PluginFile { path: found.path, form: found.form })),
    }
    if let (Some(other), State::Found) = (found.shadowed_by, listed.state) {
        listed.state = State::Shadowed;
        listed.reason = Some(format!("{} is used", other.display()));
    }
    listed
}

impl Listed {
    /// What the file itself says: a library has its manifest in it.
    fn learn(&mut self, file: Option<&PluginFile>) {
        match file.map(PluginFile::manifest) {
            Some(Ok(Some(manifest))) => self.kind = Some(manifest.kind.word()),
            Some(Err(error)) => self.refuse(&error),
            Some(Ok(None)) | None => {}
        }
    }

    fn refuse(&mut self, error: &Error) {
        self.state = State::Refused;
        self.reason = Some(error.message().to_string());
        self.help = error.help_text().map(str::to_string);
    }
}
