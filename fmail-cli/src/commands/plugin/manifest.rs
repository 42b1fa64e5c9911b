//! `fmail plugin inspect`, and the child process in which it loads the plugin.

use std::process::Command;
use std::time::Duration;

use clap::Args;
use fmail_api::{Error, Result};
use fmail_host::plugin::apart::{self, Asked, Printed};
use fmail_host::plugin::{Chosen, Inspection};
use fmail_host::{Environment, Project};
use serde_json::Value;

use crate::output::{Outcome, Output, note};
use crate::session::overrides;

/// Longer than the time that a program has for its greeting.
const DEADLINE: Duration = Duration::from_secs(60);

/// The child process of `fmail plugin inspect`.
#[derive(Args)]
pub(crate) struct PluginManifest {
    /// Its name, or the path of its file
    plugin: String,
}

impl PluginManifest {
    pub(crate) fn run(self, environment: &Environment, set: &[String]) -> Outcome {
        let inspect = || {
            let project = Project::discover(environment)?;
            let chosen = Chosen::find(environment, Some(&project), &overrides(set)?, &self.plugin)?;
            Inspection::of(&chosen.plugin)
        };
        Ok(apart::answer(inspect())?)
    }
}

pub(super) fn inspect(plugin: &str, set: &[String], json: bool, output: &mut Output) -> Outcome {
    let asked = asked(plugin, set)?;
    let inspection = asked.answer.map_err(|error| told(error, &asked.stderr))?;
    if asked.stdout.bytes > 0 {
        let shown: String = asked.stdout.text.chars().take(200).collect();
        note(&format!("the plugin printed {} bytes on standard output (rule 8): {shown:?}", asked.stdout.bytes));
    }
    if json { output.json(&inspection) } else { show(&inspection, output) }
}

fn asked(plugin: &str, set: &[String]) -> Result<Asked<Inspection>> {
    let this = std::env::current_exe().map_err(|error| Error::io("cannot tell which program this is", &error))?;
    let mut command = Command::new(this);
    command.arg("plugin-manifest");
    set.iter().for_each(|set| _ = command.args(["--set", set]));
    command.arg("--").arg(plugin);
    apart::ask(command, DEADLINE)
}

/// The error, with what the plugin printed about it.
fn told(error: Error, stderr: &Printed) -> Error {
    let text = stderr.text.trim();
    if text.is_empty() { error } else { error.context("stderr", text) }
}

fn show(inspection: &Inspection, output: &mut Output) -> Outcome {
    let manifest = &inspection.manifest;
    let text = |key: &str| manifest[key].as_str().unwrap_or_default().to_string();
    let words = |value: &Value| match value.as_array() {
        Some(items) if !items.is_empty() => {
            items.iter().map(|item| item.as_str().unwrap_or_default()).collect::<Vec<_>>().join(" ")
        }
        _ => "none".into(),
    };
    output.line(&format!("name          {} {}", text("name"), text("version")))?;
    let profile = manifest["profile"].as_str().map(|profile| format!(", profile {profile}")).unwrap_or_default();
    output.line(&format!("kind          {}{profile}", text("kind")))?;
    let place = inspection.path.clone();
    let place = place.or_else(|| inspection.command.as_ref().map(|command| command.join(" "))).unwrap_or_default();
    output.line(&format!("form          {}: {place}", inspection.form))?;
    if let Some(digest) = &inspection.sha256 {
        output.line(&format!("sha256        {digest}"))?;
        output.line("file          owner, mode, form and architecture are in order")?;
    }
    let [major, minor] = inspection.host_abi;
    match inspection.abi {
        Some(abi) => {
            let size = abi.size;
            output.line(&format!(
                "abi           {}.{}, a struct of {size} bytes (this host: {major}.{minor})",
                abi.major, abi.minor
            ))?;
        }
        None => output.line(&format!("abi           lines of JSON (this host: {major}.{minor})"))?,
    }
    output.line(&format!("capabilities  {}", words(&manifest["capabilities"])))?;
    output.line(&format!("limits        {}", manifest["limits"]))?;
    output.line(&format!("build         {}", manifest["build"]))?;
    output.line(&format!("config        {}", manifest["config_schema"]))
}
