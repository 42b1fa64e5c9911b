//! `fmail config check`

use fmail_host::{Check, Environment, PluginCheck, Project};
use serde_json::{Value, json};

use crate::output::{Outcome, Output, Stop};

pub(super) fn run(
    environment: &Environment,
    project: &Project,
    overrides: &[(String, String)],
    json: bool,
    output: &mut Output,
) -> Outcome {
    let check = Check::of(environment, Some(project), overrides)?;
    if json {
        output.json(&json!({
            "ok": check.mistakes.is_empty(),
            "mistakes": check.mistakes,
            "plugins": check.plugins.iter().map(in_json).collect::<Vec<Value>>(),
        }))?;
    } else {
        for plugin in &check.plugins {
            output.line(&line(plugin))?;
        }
        if check.mistakes.is_empty() {
            output.line("the configuration is in order")?;
        }
    }
    output.flush()?;
    check.error().map_or(Ok(()), |error| Err(Stop::Failed(error)))
}

fn in_json(plugin: &PluginCheck) -> Value {
    json!({
        "name": plugin.name.as_str(),
        "plugin": plugin.plugin.as_str(),
        "file": plugin.file.as_ref().map(|file| file.display().to_string()),
        "checked": plugin.unchecked.is_none(),
        "reason": plugin.unchecked,
    })
}

fn line(plugin: &PluginCheck) -> String {
    let file = plugin.file.as_ref().map(|file| format!(" ({})", file.display())).unwrap_or_default();
    match &plugin.unchecked {
        Some(why) => format!("plugin {}{file}: its section is not checked: {why}", plugin.name),
        None => format!("plugin {}{file}: its section is checked", plugin.name),
    }
}
