//! `ensure_project`: the project of a directory, created if need be.

use serde_json::json;

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::Result;
use crate::rows;
use crate::tool::{Answer, Effect, Parameter, Takes, Tool};
use crate::visit::{Project, Visit};

pub(super) static TOOL: Tool = Tool {
    name: "ensure_project",
    about: "Create or look up the project of a working directory. Call it first; it is safe to repeat.",
    offered: Profile::Minimal,
    effect: Effect::Settles,
    parameters: &[Parameter::required("human_key", Takes::Text).or(&["project_key"]).about("Absolute path.")],
    ignored: &["identity_mode"],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.ensured_project(arguments.required("human_key")?).await?;
    Ok(Answer::Object(answer(&project)))
}

/// The project, and where its messages are.
pub(super) fn answer(project: &Project) -> serde_json::Value {
    let mut answer = rows::project(project);
    answer["created"] = json!(project.hosted.new);
    answer["canonical_path"] = json!(project.hosted.root);
    answer["project_uid"] = json!(project.hosted.id);
    answer
}
