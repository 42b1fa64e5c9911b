//! Sending a message: what `send_message`, `reply_message` and an acknowledgement with words have in common.
//!
//! Everything that can be refused is refused before anything is stored. A bcc is a message of its own for each of its
//! recipients, since whoever can read a message sees to whom it went.

use fmail_api::{AgentName, AgentView, Backlog, Message, MessageId, Target, hex_sha256};
use serde_json::{Map, Value, json};

use crate::errors::{Failure, Kind, Result, shown};
use crate::ids;
use crate::names::{self, Directory, display};
use crate::near::{near, quoted};
use crate::rows::{BCC_OF, IMPORTANCE, Rows};
use crate::visit::{Project, taken};

/// Words that mean everybody, and no agent.
const BROADCAST: &[&str] = &["all", "*", "everyone", "everybody", "broadcast", "team", "agents", "any"];
/// Programs that agents run in.
const PROGRAMS: &[&str] = &[
    "claude-code",
    "claude",
    "codex-cli",
    "codex",
    "gemini-cli",
    "gemini",
    "cursor",
    "cline",
    "windsurf",
    "copilot",
    "aider",
    "opencode",
];
/// The longest idempotency key that an operation takes.
const LONGEST_KEY: usize = 255;

/// A message to be sent.
pub(crate) struct Posting<'a> {
    /// Who sends it, as the client wrote it.
    pub(crate) sender: &'a str,
    /// Who is asked to act.
    pub(crate) to: Vec<Recipient>,
    /// Who is kept informed.
    pub(crate) cc: Vec<Recipient>,
    /// Who is kept informed without the others knowing.
    pub(crate) bcc: Vec<Recipient>,
    /// The title.
    pub(crate) subject: &'a str,
    /// The text.
    pub(crate) body: &'a str,
    /// The name of the conversation.
    pub(crate) thread: Option<String>,
    /// `low`, `normal`, `high` or `urgent`.
    pub(crate) importance: &'a str,
    /// Whether the sender waits for an acknowledgement.
    pub(crate) ack_required: bool,
    /// What it answers.
    pub(crate) reply_to: Option<MessageId>,
    /// The sender's idempotency key.
    pub(crate) key: Option<String>,
}

/// Where a message goes.
#[derive(Debug, Clone)]
pub(crate) struct Recipient {
    /// An agent; or a topic, where an answer goes to one.
    pub(crate) target: Target,
    /// How the client wrote it.
    pub(crate) written: String,
}

impl From<&Target> for Recipient {
    fn from(target: &Target) -> Self {
        let written = target.agent().map_or_else(|| target.to_string(), AgentName::foreign);
        Recipient { target: target.clone(), written }
    }
}

/// A message that was sent.
pub(crate) struct Posted {
    /// The message.
    pub(crate) message: Message,
    /// Its row, with everybody to whom it went.
    pub(crate) row: Map<String, Value>,
    /// The key was known: this is the message of the first time.
    pub(crate) duplicate: bool,
    /// What the sender should know.
    pub(crate) warnings: Vec<String>,
}

impl Posted {
    /// What `send_message` answers.
    pub(crate) fn deliveries(&self, project: &Project) -> Map<String, Value> {
        let mut answer = rmcp::model::object(json!({
            "deliveries": [{"project": project.hosted.key, "payload": self.row}],
            "count": 1,
        }));
        if self.duplicate {
            answer.insert("duplicate".into(), true.into());
        }
        if !self.warnings.is_empty() {
            answer.insert("warnings".into(), self.warnings.clone().into());
        }
        answer
    }
}

/// The agents that a list of names means, each once.
pub(crate) fn recipients(argument: &str, texts: Option<Vec<&str>>) -> Result<Vec<Recipient>> {
    let mut found: Vec<Recipient> = Vec::new();
    for text in texts.unwrap_or_default() {
        let target = Target::Agent(names::agent(argument, text)?);
        if !found.iter().any(|one| one.target == target) {
            found.push(Recipient { target, written: names::bare(text).into() });
        }
    }
    Ok(found)
}

impl Posting<'_> {
    /// Sends it.
    pub(crate) async fn send(self, project: &Project) -> Result<Posted> {
        let sender = names::agent("sender_name", self.sender)?;
        if self.body.trim().is_empty() {
            return Err(Failure::argument("empty message body: body_md has no text. Nothing was sent.")
                .with("argument", "body_md"));
        }
        let directory = self.checked(project, &sender).await?;
        let sending = self.fields(&sender, &targets(&self.to), None);
        let mut answer = match project.desk(&sender).run("send", sending).await {
            Ok(answer) => answer,
            // Somebody was there a moment ago, and is not any more.
            Err(error) if error.kind() == fmail_api::ErrorKind::NotFound => {
                return Err(Failure::new(Kind::RecipientNotFound, format!("Unable to send message — {error}.")));
            }
            Err(error) => return Err(error.into()),
        };
        let message: Message = taken(&mut answer, "msg")?;
        let mut warnings = warnings(&mut answer, &directory);
        warnings.extend(self.copies(project, &sender, &message, &directory).await);
        let duplicate = answer.get("duplicate").is_some_and(|said| *said == Value::Bool(true));
        let row = Rows::new(project, directory).sent(&message, &targets(&self.bcc));
        Ok(Posted { message, row, duplicate, warnings })
    }

    /// Whether everybody is known. That is asked here for the sake of the names, and once more by the operation itself.
    async fn checked(&self, project: &Project, sender: &AgentName) -> Result<Directory> {
        let all = || self.to.iter().chain(&self.cc).chain(&self.bcc);
        let directory = Directory::of(project, all().filter_map(|one| one.target.agent()).chain([sender])).await?;
        if !directory.knows(sender) {
            return Err(names::not_found(project, self.sender).await);
        }
        let unknown = |one: &&Recipient| one.target.agent().is_some_and(|name| !directory.knows(name));
        let mut unknown: Vec<&str> = all().filter(unknown).map(|one| &*one.written).collect();
        unknown.dedup();
        if unknown.is_empty() { Ok(directory) } else { Err(refused(project, &unknown).await) }
    }

    /// The fields of the operation, to these; a blind copy goes to nobody else.
    fn fields(&self, sender: &AgentName, to: &[Target], copy_of: Option<&Message>) -> Value {
        let mut fields = Map::new();
        fields.insert("to".into(), json!(to.first()));
        fields.insert("body".into(), self.body.into());
        fields.insert("strict".into(), true.into());
        fields.insert("echo".into(), true.into());
        let mut extra = Map::new();
        if self.importance == "urgent" {
            extra.insert(IMPORTANCE.into(), "urgent".into());
        }
        match copy_of {
            None => {
                fields.insert("recipients".into(), json!(to.get(1..).unwrap_or_default()));
                fields.insert("cc".into(), json!(targets(&self.cc)));
            }
            Some(message) => {
                extra.insert(BCC_OF.into(), json!(message.id));
            }
        }
        let copied_to = to.first().filter(|_| copy_of.is_some());
        fields.insert("key".into(), json!(self.key.as_ref().map(|key| own_key(sender, key, copied_to))));
        fields.insert("extra".into(), extra.into());
        let subject = Some(self.subject).filter(|subject| !subject.is_empty());
        fields.insert("subject".into(), json!(subject));
        fields.insert("thread".into(), json!(self.thread));
        fields.insert("ack_required".into(), self.ack_required.into());
        fields.insert("reply_to".into(), json!(self.reply_to));
        let priority = if self.importance == "urgent" { "high" } else { self.importance };
        fields.insert("priority".into(), priority.into());
        Value::Object(fields)
    }

    /// Sends the blind copies. The message itself is stored by now, so that a copy which fails is told and nothing more.
    async fn copies(&self, project: &Project, sender: &AgentName, message: &Message, names: &Directory) -> Vec<String> {
        let mut warnings = Vec::new();
        for to in targets(&self.bcc) {
            if message.targets().contains(&to) {
                continue;
            }
            let copy = self.fields(sender, std::slice::from_ref(&to), Some(message));
            if let Err(error) = project.desk(sender).run("send", copy).await {
                warnings.push(format!("the blind copy to {} was not stored: {error}", names.target(&to)));
            }
        }
        warnings
    }
}

fn targets(recipients: &[Recipient]) -> Vec<Target> {
    recipients.iter().map(|one| one.target.clone()).collect()
}

/// The key for the operation, which knows one for the whole project: two agents may choose the same, and each blind copy needs
/// one of its own.
fn own_key(sender: &AgentName, key: &str, copied_to: Option<&Target>) -> String {
    let copy = copied_to.map(|to| format!(":bcc:{to}")).unwrap_or_default();
    let whole = format!("mcp:{sender}:{key}{copy}");
    let fits = whole.len() <= LONGEST_KEY && !whole.chars().any(char::is_control);
    if fits { whole } else { format!("mcp:{}", hex_sha256(whole.as_bytes())) }
}

/// What the answer of the operation tells besides.
fn warnings(answer: &mut Map<String, Value>, names: &Directory) -> Vec<String> {
    let mut told = Vec::new();
    if let Some(Value::String(why)) = answer.remove("not_durable") {
        told.push(format!("stored, but it is not known whether it would survive a power cut: {why}"));
    }
    for one in taken::<Vec<Backlog>>(answer, "backlog").unwrap_or_default() {
        told.push(format!(
            "{} has {} unread messages and was last seen {}",
            names.shown(&one.name),
            one.unread,
            ids::time(one.last_seen)
        ));
    }
    if let Some(Value::String(why)) = answer.remove("agent_not_tracked") {
        told.push(format!("the sender's record was not kept up to date: {why}"));
    }
    told
}

async fn refused(project: &Project, unknown: &[&str]) -> Failure {
    let everybody: Vec<AgentView> = match project.known(&[]).await {
        Ok(everybody) => everybody,
        Err(failure) => return failure,
    };
    let known: Vec<String> = everybody.iter().map(display).collect();
    for text in unknown {
        let word = text.to_lowercase();
        if BROADCAST.contains(&&*word) {
            return broadcast(text);
        }
        if PROGRAMS.contains(&&*word) {
            return Failure::argument(format!(
                "Invalid recipient '{text}': '{text}' looks like a program name, not an agent name. Use the name that the \
                 agent got from register_agent; resource://agents/{} lists them.",
                project.hosted.slug
            ));
        }
    }
    let mut sentence = format!(
        "Unable to send message — local recipients {} are not registered in project '{}'.",
        unknown.iter().map(|name| shown(name)).collect::<Vec<_>>().join(", "),
        project.hosted.key
    );
    let mut suggestions = Map::new();
    for name in unknown {
        let alike = near(name, known.iter().map(String::as_str));
        if !alike.is_empty() {
            sentence.push_str(&format!(" Did you mean: {}? (for '{}')", quoted(alike.iter().copied()), shown(name)));
        }
        suggestions.insert((*name).into(), alike.into());
    }
    sentence.push_str(&format!(
        " Nothing was sent. resource://agents/{} lists the registered agents; register_agent creates one.",
        project.hosted.slug
    ));
    Failure::new(Kind::RecipientNotFound, sentence).with("suggestions", suggestions)
}

fn broadcast(text: &str) -> Failure {
    let text = shown(text);
    Failure::argument(format!(
        "Invalid recipient '{text}': '{text}' looks like a broadcast attempt. List the agents by name in `to`; there is no \
         sending to everybody."
    ))
}
