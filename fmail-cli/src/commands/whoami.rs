//! `fmail whoami`

use clap::Args;
use fmail_api::ProjectIdSource;
use fmail_host::Project;
use serde_json::{Value, json};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output};
use crate::session::Place;
use crate::{identity, names};

pub(crate) const EXAMPLES: &[Example] =
    &[example("fmail whoami", "agent, project, root and why"), example("fmail whoami --json", "as a JSON object")];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Whoami {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Whoami {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let named = identity::named(&place.environment)?;
        let agent_from = if named.is_some() { "FMAIL_AGENT" } else { "FMAIL_AGENT is not set" };
        let agent = identity::anyone(&place.environment)?;
        let (project, rule) = place.project.id()?;
        let project_from = match rule {
            ProjectIdSource::Environment => "FMAIL_PROJECT",
            ProjectIdSource::Init if told_by_init(&place.project) => "fmail init --project",
            ProjectIdSource::Init => "project.json",
            ProjectIdSource::Remote => "git remote origin",
            ProjectIdSource::Directory => "directory name",
        };
        let (root, reason) = (place.project.root.display().to_string(), place.project.reason.to_string());
        let (store, exists) = (&place.settings.mail.store, place.project.fmail_dir().is_dir());
        let mut output = Output::stdout();
        if self.json {
            let mut value = json!({
                "agent": agent, "agent_from": agent_from, "project": project, "project_from": project_from,
                "root": root, "root_from": reason, "store": store, "exists": exists,
            });
            if let Some(name) = names::foreign(&agent) {
                value["foreign"] = name.into();
            }
            output.json(&value)?;
        } else {
            let state = if exists { "" } else { " (nothing stored yet)" };
            let called = names::foreign(&agent).map(|name| format!(", elsewhere called {name:?}")).unwrap_or_default();
            output.line(&format!("agent:   {agent} ({agent_from}{called})"))?;
            output.line(&format!("project: {project} ({project_from})"))?;
            output.line(&format!("root:    {root} ({reason})"))?;
            output.line(&format!("store:   {store}{state}"))?;
        }
        output.flush()
    }
}

/// Whether `project.json` says that `fmail init` set the id. Without a rule that we know, it was written by hand or by
/// another program. The file was read for the id just before, so what is wrong with it was told there.
fn told_by_init(project: &Project) -> bool {
    let text = std::fs::read(project.fmail_dir().join("project.json")).unwrap_or_default();
    serde_json::from_slice::<Value>(&text).is_ok_and(|record| record["id_from"] == "init")
}
