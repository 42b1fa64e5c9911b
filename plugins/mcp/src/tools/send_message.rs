//! `send_message`: a message to one or more agents.

use serde_json::json;

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::{Failure, Result};
use crate::posting::{Posting, recipients};
use crate::threads;
use crate::tool::{Answer, Effect, PROJECT, Parameter, Takes, Tool};
use crate::visit::Visit;

/// How important a message can be.
pub(super) const IMPORTANCE: Takes = Takes::Word(&["low", "normal", "high", "urgent"]);

pub(super) static TOOL: Tool = Tool {
    name: "send_message",
    about: "Send a Markdown message to registered agents. Nothing is sent if a recipient is unknown.",
    offered: Profile::Minimal,
    effect: Effect::Adds,
    parameters: &[
        PROJECT,
        Parameter::required("sender_name", Takes::Text),
        Parameter::required("to", Takes::Texts),
        Parameter::required("subject", Takes::Text),
        Parameter::required("body_md", Takes::Text),
        Parameter::optional("thread_id", Takes::Text),
        Parameter::optional("ack_required", Takes::Flag).about("Ask for acknowledge_message."),
        Parameter::optional("cc", Takes::Texts),
        Parameter::optional("bcc", Takes::Texts),
        Parameter::optional("importance", IMPORTANCE),
        Parameter::optional("idempotency_key", Takes::Text).about("A repetition within 24 h is not sent again."),
    ],
    ignored: &["convert_images", "auto_contact_if_blocked"],
    refused: &[
        ("attachment_paths", "Attachments are not kept here; put the text, or the path of the file, into body_md."),
        ("broadcast", "There is no sending to everybody; list the agents in `to`."),
        ("topic", "Messages of MCP clients are in no topic; use thread_id."),
    ],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let to = recipients("to", arguments.texts("to"))?;
    if to.is_empty() {
        return Err(Failure::argument("`to` is empty. Name at least one recipient; nothing was sent."));
    }
    let posting = Posting {
        sender: arguments.required("sender_name")?,
        to,
        cc: recipients("cc", arguments.texts("cc"))?,
        bcc: recipients("bcc", arguments.texts("bcc"))?,
        subject: arguments.required("subject")?,
        body: arguments.required("body_md")?,
        thread: threads::for_sending(&project, arguments.text("thread_id")).await?,
        importance: arguments.text("importance").unwrap_or("normal"),
        ack_required: arguments.flag("ack_required").unwrap_or_default(),
        reply_to: None,
        key: arguments.words("idempotency_key").map(Into::into),
    };
    let posted = posting.send(&project).await?;
    let mut answer = posted.deliveries(&project);
    answer.insert("attachments".into(), json!([]));
    Ok(Answer::Object(answer.into()))
}
