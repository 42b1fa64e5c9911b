//! `fmail config schema`

use fmail_api::Error;
use fmail_host::{Environment, Project, Settings};

use crate::output::{Outcome, Output, report};

pub(super) fn run(
    environment: &Environment,
    project: &Project,
    overrides: &[(String, String)],
    json: bool,
    output: &mut Output,
) -> Outcome {
    let (schema, errors) = Settings::schema(environment, Some(project), overrides)?;
    // What is missing from the schema is told beside it.
    errors.iter().for_each(report);
    if json {
        return output.json(&schema);
    }
    let text = serde_json::to_string_pretty(&schema)
        .map_err(|error| Error::internal(format!("the schema has no JSON form: {error}")))?;
    output.line(&text)
}
