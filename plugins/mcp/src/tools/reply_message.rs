//! `reply_message`: an answer, in the thread of what it answers.

use fmail_api::{Message, MessageId};
use serde_json::json;

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::{Failure, Kind, Result};
use crate::names;
use crate::posting::{Posting, Recipient, recipients};
use crate::rows::importance;
use crate::tool::{Answer, Effect, MESSAGE, PROJECT, Parameter, Takes, Tool};
use crate::visit::{Project, Visit};

pub(super) static TOOL: Tool = Tool {
    name: "reply_message",
    about: "Answer a message in its thread; importance and ack_required are inherited. Goes to its sender unless `to` is \
            given.",
    offered: Profile::Standard,
    effect: Effect::Adds,
    parameters: &[
        PROJECT,
        MESSAGE,
        Parameter::required("sender_name", Takes::Text),
        Parameter::required("body_md", Takes::Text),
        Parameter::optional("to", Takes::Texts),
        Parameter::optional("cc", Takes::Texts),
        Parameter::optional("bcc", Takes::Texts),
        Parameter::optional("subject_prefix", Takes::Text).about("Default Re:"),
        Parameter::optional("idempotency_key", Takes::Text),
    ],
    ignored: &["convert_images", "auto_contact_if_blocked"],
    refused: &[("attachment_paths", "Attachments are not kept here; put the text or the path into body_md.")],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let sender = arguments.required("sender_name")?;
    let original = visible(&project, arguments.message("message_id")?, sender).await?;
    let to = match recipients("to", arguments.texts("to"))? {
        named if !named.is_empty() => named,
        _ => answered(&original, sender)?,
    };
    let subject = prefixed(arguments.text("subject_prefix").unwrap_or("Re:"), original.subject.as_deref());
    let posting = Posting {
        sender,
        to,
        cc: recipients("cc", arguments.texts("cc"))?,
        bcc: recipients("bcc", arguments.texts("bcc"))?,
        subject: &subject,
        body: arguments.required("body_md")?,
        thread: Some(original.thread.clone().unwrap_or_else(|| original.id.to_string())),
        importance: importance(&original),
        ack_required: original.ack_required,
        reply_to: Some(original.id),
        key: arguments.words("idempotency_key").map(Into::into),
    };
    let posted = posting.send(&project).await?;
    let mut answer = posted.row.clone();
    answer.insert("reply_to".into(), original.id.number().into());
    answer.extend(posted.deliveries(&project));
    Ok(Answer::Object(answer.into()))
}

/// The message, if the agent may see it.
pub(super) async fn visible(project: &Project, id: MessageId, agent: &str) -> Result<Message> {
    let name = names::agent("sender_name", agent)?;
    match project.desk(&name).letters("peek", json!({"id": id})).await {
        Ok(mut found) => match found.pop() {
            Some(letter) => Ok(letter.message),
            None => Err(invisible(project, id, agent)),
        },
        Err(error) if error.kind() == fmail_api::ErrorKind::NotFound => {
            // Whoever is not registered sees nothing, and is told that instead.
            names::known(project, "sender_name", agent).await?;
            Err(invisible(project, id, agent))
        }
        Err(error) => Err(error.into()),
    }
}

/// That there is no such message for this agent.
pub(super) fn invisible(project: &Project, id: MessageId, agent: &str) -> Failure {
    Failure::new(
        Kind::MessageNotFound,
        format!(
            "Message '{}' not found or not visible to agent '{}' in project '{}'.",
            id.number(),
            crate::errors::shown(agent),
            project.hosted.key
        ),
    )
    .with("message_id", id.number())
}

/// To the sender; whoever answers its own message goes on writing to those whom it wrote to.
fn answered(original: &Message, sender: &str) -> Result<Vec<Recipient>> {
    let own = names::agent("sender_name", sender)?;
    if original.from != own {
        return Ok(vec![Recipient::from(&fmail_api::Target::Agent(original.from.clone()))]);
    }
    let to = std::iter::once(&original.to).chain(&original.more.recipients);
    Ok(to.map(Recipient::from).collect())
}

/// The title with its prefix; once is enough.
pub(super) fn prefixed(prefix: &str, subject: Option<&str>) -> String {
    let (prefix, subject) = (prefix.trim(), subject.unwrap_or_default());
    let has_it = subject.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    if prefix.is_empty() || has_it { subject.into() } else { format!("{prefix} {subject}").trim_end().into() }
}
