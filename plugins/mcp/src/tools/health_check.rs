//! `health_check`: whether mail can be read and sent.

use serde_json::json;

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::Result;
use crate::tool::{Answer, Effect, Tool};
use crate::visit::Visit;

pub(super) static TOOL: Tool = Tool {
    name: "health_check",
    about: "Whether the mail server is ready.",
    offered: Profile::Minimal,
    effect: Effect::Reads,
    parameters: &[],
    ignored: &[],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

/// The projects are asked for, so that `ready` is never said by a server that cannot reach them.
async fn run(visit: &Visit, _: Arguments) -> Result<Answer> {
    let projects = visit.backend.hosted().await?.len();
    let (server, version) = ("fmail", env!("CARGO_PKG_VERSION"));
    Ok(Answer::Object(json!({"status": "ready", "server": server, "version": version, "projects": projects})))
}
