//! `fmail plugin path`

use fmail_host::{Environment, PluginSearch, Project, Settings};
use serde_json::{Value, json};

use crate::output::{Outcome, Output, report};

pub(super) fn run(
    environment: &Environment,
    project: &Project,
    overrides: &[(String, String)],
    json: bool,
    output: &mut Output,
) -> Outcome {
    let (settings, mistakes) = Settings::gather(environment, Some(project), overrides)?;
    // Where plugins are looked for is asked when something is wrong, so that does not keep us from telling.
    mistakes.iter().for_each(report);
    let search = PluginSearch::new(environment, &settings)?;
    if json {
        let place = |place: &fmail_host::PluginPlace| {
            let directory = place.directory.display().to_string();
            json!({"directory": directory, "reason": place.reason, "exists": place.directory.is_dir()})
        };
        return output.json(&json!({"places": search.places.iter().map(place).collect::<Vec<Value>>()}));
    }
    for place in &search.places {
        let state = if place.directory.is_dir() { "" } else { " (not there)" };
        output.line(&format!("{}{state}  # {}", place.directory.display(), place.reason))?;
    }
    Ok(())
}
