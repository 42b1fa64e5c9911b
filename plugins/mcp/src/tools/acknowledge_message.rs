//! `acknowledge_message`: notes that an agent agrees, which makes the message read too.
//!
//! What the agent says with it, `ack_body`, goes to the sender as an answer in the thread: a note that only lies in a record
//! would reach nobody. It is sent before the acknowledgement is noted, under a key of its own, so that a call which failed
//! half way can be repeated and says it once.

use fmail_api::{AgentView, ErrorKind, Message, MessageId};
use serde_json::json;

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::Result;
use crate::posting::{Posting, Recipient};
use crate::tool::{AGENT, Answer, Effect, MESSAGE, PROJECT, Parameter, Takes, Tool};
use crate::tools::mark_message_read::not_a_recipient;
use crate::tools::reply_message::{invisible, prefixed};
use crate::visit::{Letter, Project, Visit};
use crate::{ids, names};

pub(super) static TOOL: Tool = Tool {
    name: "acknowledge_message",
    about: "Acknowledge a message (marks it read too); safe to repeat.",
    offered: Profile::Minimal,
    effect: Effect::Settles,
    parameters: &[
        PROJECT,
        AGENT,
        MESSAGE,
        Parameter::optional("ack_body", Takes::Text).about("Sent to the sender as a reply."),
    ],
    ignored: &[],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let id = arguments.message("message_id")?;
    let agent = names::known(&project, "agent_name", arguments.required("agent_name")?).await?;
    let letter = looked_at(&project, &agent, id).await?;
    if letter.standing.is_none() && !in_topic(&letter.message) {
        let note = not_a_recipient(&names::display(&agent));
        return Ok(Answer::Object(
            json!({"message_id": id.number(), "acknowledged": false, "acknowledged_at": null, "read_at": null, "note": note}),
        ));
    }
    let reply = match arguments.words("ack_body") {
        Some(body) => Some(said(&project, &agent, &letter.message, body).await?),
        None => None,
    };
    project.desk(&agent.name).run("ack", json!({"id": id})).await?;
    let state = looked_at(&project, &agent, id).await?.state;
    let mut answer = json!({
        "message_id": id.number(),
        "acknowledged": state.acknowledged.is_some(),
        "acknowledged_at": state.acknowledged.map(ids::time),
        "read_at": state.first_read.map(ids::time),
    });
    if let Some(reply) = reply {
        answer["reply_id"] = reply.number().into();
    }
    Ok(Answer::Object(answer))
}

async fn looked_at(project: &Project, agent: &AgentView, id: MessageId) -> Result<Letter> {
    let found = match project.desk(&agent.name).seeing_all().letters("peek", json!({"id": id})).await {
        Ok(mut letters) => letters.pop(),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    found.ok_or_else(|| invisible(project, id, &names::display(agent)))
}

/// A message of a topic has no recipients, and everybody may agree to it.
fn in_topic(message: &Message) -> bool {
    message.targets().iter().any(|target| !target.is_direct())
}

/// Tells the sender.
async fn said(project: &Project, agent: &AgentView, original: &Message, body: &str) -> Result<MessageId> {
    let sender = names::display(agent);
    let posting = Posting {
        sender: &sender,
        to: vec![Recipient::from(&fmail_api::Target::Agent(original.from.clone()))],
        cc: Vec::new(),
        bcc: Vec::new(),
        subject: &prefixed("ACK:", original.subject.as_deref()),
        body,
        thread: Some(original.thread.clone().unwrap_or_else(|| original.id.to_string())),
        importance: "normal",
        ack_required: false,
        reply_to: Some(original.id),
        key: Some(format!("mcp-ack:{}:{}", agent.name, original.id)),
    };
    Ok(posting.send(project).await?.message.id)
}
