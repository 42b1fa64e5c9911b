//! `mark_message_read`: notes that an agent has read a message.

use serde_json::{Value, json};

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::Result;
use crate::tool::{AGENT, Answer, Effect, MESSAGE, PROJECT, Tool};
use crate::tools::reply_message::invisible;
use crate::visit::Visit;
use crate::{ids, names};

pub(super) static TOOL: Tool = Tool {
    name: "mark_message_read",
    about: "Mark a message as read by the agent; safe to repeat.",
    offered: Profile::Standard,
    effect: Effect::Settles,
    parameters: &[PROJECT, AGENT, MESSAGE],
    ignored: &[],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

/// What others wrote to each other is found here too, and left alone: that the agent is no recipient is then known, where
/// otherwise the message would just not be there.
async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let id = arguments.message("message_id")?;
    let agent = names::known(&project, "agent_name", arguments.required("agent_name")?).await?;
    let found = project.desk(&agent.name).seeing_all().letters("read", json!({"id": id})).await;
    let letter = match found {
        Ok(mut letters) => letters.pop(),
        Err(error) if error.kind() == fmail_api::ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let Some(letter) = letter else { return Err(invisible(&project, id, &names::display(&agent))) };
    let read = letter.state.is_read();
    let mut answer = json!({
        "message_id": id.number(),
        "read": read,
        "read_at": letter.state.first_read.filter(|_| read).map(ids::time),
    });
    if !read {
        answer["note"] = not_a_recipient(&names::display(&agent));
    }
    Ok(Answer::Object(answer))
}

/// Why nothing was noted.
pub(super) fn not_a_recipient(agent: &str) -> Value {
    format!("'{agent}' is not a recipient of this message, so nothing was noted.").into()
}
