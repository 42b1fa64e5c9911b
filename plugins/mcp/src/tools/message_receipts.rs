//! `message_receipts`: what became of a message, recipient by recipient.

use fmail_api::Receipt;
use serde_json::{Value, json};

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::Result;
use crate::ids;
use crate::names::{self, Directory};
use crate::tool::{AGENT, Answer, Effect, MESSAGE, PROJECT, Tool};
use crate::tools::reply_message::invisible;
use crate::visit::{Visit, taken};

pub(super) static TOOL: Tool = Tool {
    name: "message_receipts",
    about: "Who has read and acknowledged a message that the agent sent or received.",
    offered: Profile::Full,
    effect: Effect::Reads,
    parameters: &[PROJECT, AGENT, MESSAGE],
    ignored: &[],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let agent = names::known(&project, "agent_name", arguments.required("agent_name")?).await?;
    let id = arguments.message("message_id")?;
    let mut answer = match project.desk(&agent.name).run("receipt", json!({"id": id})).await {
        Err(error) if error.kind() == fmail_api::ErrorKind::NotFound => {
            return Err(invisible(&project, id, &names::display(&agent)));
        }
        other => other?,
    };
    let receipt: Receipt = taken(&mut answer, "receipt")?;
    let shown = Directory::of(&project, receipt.recipients.iter().map(|one| &one.agent)).await?;
    let rows = receipt.recipients.iter().map(|one| {
        json!({
            "agent": shown.shown(&one.agent),
            "kind": if one.cc { "cc" } else { "to" },
            "state": one.standing,
            "read_ts": one.read.map(ids::time),
            "ack_ts": one.acknowledged.map(ids::time),
        })
    });
    let rows: Vec<Value> = rows.collect();
    Ok(Answer::Object(json!({"message_id": id.number(), "recipients": rows})))
}
