//! `fmail config path`

use std::path::PathBuf;

use fmail_host::{ConfigFile, Environment, Project, config_places};
use serde_json::{Value, json};

use crate::output::{Outcome, Output};

pub(super) fn run(environment: &Environment, project: &Project, json: bool, output: &mut Output) -> Outcome {
    let places = config_places(environment, Some(project));
    if json {
        let place = |(file, path, exists): &(ConfigFile, PathBuf, bool)| {
            let path = path.display().to_string();
            json!({"of": whose(*file), "path": path, "exists": exists})
        };
        return output.json(&places.iter().map(place).collect::<Vec<Value>>());
    }
    for (file, path, exists) in places {
        let state = if exists { "" } else { " (not there)" };
        output.line(&format!("{:8} {}{state}", whose(file), path.display()))?;
    }
    Ok(())
}

fn whose(file: ConfigFile) -> &'static str {
    match file {
        ConfigFile::System => "system",
        ConfigFile::User => "user",
        ConfigFile::Project => "project",
    }
}
