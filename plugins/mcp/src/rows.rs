//! Messages, agents and projects as clients get them.

use fmail_api::{AgentName, AgentView, Message, Priority, Standing, Target};
use serde_json::{Map, Value, json};

use crate::errors::Result;
use crate::ids;
use crate::names::{Directory, display};
use crate::visit::{Letter, Project};

/// A field of a message: it says `urgent` where fmail's priorities end with `high`.
pub(crate) const IMPORTANCE: &str = "importance";
/// A field of a message that is a blind copy: the message of which it is one.
pub(crate) const BCC_OF: &str = "bcc_of";

/// The project, as `ensure_project` answers.
pub(crate) fn project(project: &Project) -> Value {
    let mut row = json!({
        "id": project.id(),
        "slug": project.hosted.slug,
        "human_key": project.hosted.key,
        "created_at": ids::time(project.hosted.created),
    });
    if let Some(note) = &project.note {
        row["note"] = note.as_str().into();
    }
    row
}

/// An agent, as `register_agent` answers.
pub(crate) fn agent(project: &Project, view: &AgentView) -> Map<String, Value> {
    let said = |text: &Option<String>| text.clone().unwrap_or_default();
    let policy = view.profile.extra.get("attachments_policy").cloned().unwrap_or_else(|| "auto".into());
    rmcp::model::object(json!({
        "id": project.agent_id(&view.name),
        "name": display(view),
        "program": said(&view.profile.program),
        "model": said(&view.profile.model),
        "task_description": said(&view.profile.task),
        "inception_ts": ids::time(view.first_seen),
        "last_active_ts": ids::time(view.last_seen),
        "project_id": project.id(),
        "attachments_policy": policy,
    }))
}

/// Everybody whose name a row of these messages shows.
pub(crate) fn named<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<AgentName> {
    messages.into_iter().map(|message| message.from.clone()).collect()
}

/// Makes rows of messages.
pub(crate) struct Rows<'a> {
    project: &'a Project,
    directory: Directory,
}

impl<'a> Rows<'a> {
    /// Rows with these names.
    pub(crate) fn new(project: &'a Project, directory: Directory) -> Self {
        Rows { project, directory }
    }

    /// Rows for these messages.
    pub(crate) async fn of<'m>(project: &'a Project, messages: impl IntoIterator<Item = &'m Message>) -> Result<Self> {
        let names = named(messages);
        Ok(Rows { project, directory: Directory::of(project, &names).await? })
    }

    /// What every row of a message has.
    pub(crate) fn message(&self, message: &Message, body: bool) -> Map<String, Value> {
        let mut row = rmcp::model::object(json!({
            "id": message.id.number(),
            "project_id": self.project.id(),
            "sender_id": self.project.agent_id(&message.from),
            "thread_id": message.thread.as_deref().map(ids::thread),
            "topic": topic(message),
            "subject": message.subject.as_deref().unwrap_or_default(),
            "importance": importance(message),
            "ack_required": message.ack_required,
            "created_ts": ids::time(ids::sent(message.id, message.time)),
            "attachments": [],
        }));
        if body {
            row.insert("body_md".into(), text(&message.body).into());
        }
        row.insert("from".into(), self.directory.shown(&message.from).into());
        if let Some(above) = message.reply_to {
            row.insert("reply_to".into(), above.number().into());
        }
        row
    }

    /// A row of an agent's inbox: with how it came there, and what the agent has done with it.
    pub(crate) fn letter(&self, agent: &AgentName, letter: &Letter, body: bool) -> Map<String, Value> {
        let mut row = self.message(&letter.message, body);
        row.insert("kind".into(), kind(agent, &letter.message).into());
        let read = matches!(letter.standing, Some(Standing::Read | Standing::Acknowledged | Standing::Archived))
            || letter.state.is_read();
        row.insert("read".into(), read.into());
        row.insert("read_ts".into(), json!(letter.state.first_read.filter(|_| read).map(ids::time)));
        row.insert("ack_ts".into(), json!(letter.state.acknowledged.map(ids::time)));
        row
    }

    /// A message that was just sent, with everybody to whom it went.
    pub(crate) fn sent(&self, message: &Message, bcc: &[Target]) -> Map<String, Value> {
        let mut row = self.message(message, true);
        let to = std::iter::once(&message.to).chain(&message.more.recipients);
        row.insert("to".into(), to.map(|to| self.directory.target(to)).collect::<Vec<_>>().into());
        row.insert("cc".into(), message.more.cc.iter().map(|to| self.directory.target(to)).collect::<Vec<_>>().into());
        row.insert("bcc".into(), bcc.iter().map(|to| self.directory.target(to)).collect::<Vec<_>>().into());
        row
    }
}

/// The topic that a message is in; what agents send each other is in none.
fn topic(message: &Message) -> Option<String> {
    message.targets().iter().find(|target| !target.is_direct()).map(ToString::to_string)
}

/// How important a message is.
pub(crate) fn importance(message: &Message) -> &str {
    let urgent = message.extra.get(IMPORTANCE).is_some_and(|said| said == "urgent");
    if urgent && message.priority == Priority::High { "urgent" } else { message.priority.as_str() }
}

/// Whether a message should be looked at first: its sender waits for an acknowledgement, or says that it is important.
pub(crate) fn is_urgent(message: &Message) -> bool {
    message.ack_required || message.priority == Priority::High
}

/// How a message came to an agent.
fn kind(agent: &AgentName, message: &Message) -> &'static str {
    let own = Target::Agent(agent.clone());
    if message.extra.contains_key(BCC_OF) {
        "bcc"
    } else if message.to == own || message.more.recipients.contains(&own) {
        "to"
    } else {
        "cc"
    }
}

/// The body as text: what is no text is shown as its JSON.
pub(crate) fn text(body: &Value) -> String {
    match body {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
