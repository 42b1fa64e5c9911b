//! What is told when a tool or a resource gives no answer.
//!
//! A failed call is an answer with `isError`: its text is a sentence for the model, which can put most mistakes right.
//! Beside it `structuredContent.error` says the same for programs, as `{type, message, recoverable, data}`. No client that
//! we know takes that for a success: those that look at `structuredContent` first look for the fields of a success there,
//! and find them missing with it as without it.

use fmail_api::{Error, ErrorKind};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};

/// What went wrong, by the names that clients of Agent Mail know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An argument breaks a rule.
    InvalidArgument,
    /// `project_key` names no project and cannot.
    InvalidProjectKey,
    /// There is no such project.
    ProjectNotFound,
    /// There is no such agent.
    AgentNotFound,
    /// A recipient is nobody.
    RecipientNotFound,
    /// There is no such message.
    MessageNotFound,
    /// Somebody else holds the path.
    FileReservationConflict,
    /// The resource's address means nothing.
    UnknownResource,
    /// A failure of fmail.
    Operation(ErrorKind),
}

impl Kind {
    /// The name on the wire.
    pub(crate) fn name(self) -> String {
        match self {
            Kind::InvalidArgument => "INVALID_ARGUMENT".into(),
            Kind::InvalidProjectKey => "INVALID_PROJECT_KEY".into(),
            Kind::ProjectNotFound => "PROJECT_NOT_FOUND".into(),
            Kind::AgentNotFound => "AGENT_NOT_FOUND".into(),
            Kind::RecipientNotFound => "RECIPIENT_NOT_FOUND".into(),
            Kind::MessageNotFound => "MESSAGE_NOT_FOUND".into(),
            Kind::FileReservationConflict => "FILE_RESERVATION_CONFLICT".into(),
            Kind::UnknownResource => "UNKNOWN_RESOURCE".into(),
            Kind::Operation(kind) => kind.code().to_uppercase(),
        }
    }

    /// Whether the caller can do something about it: call differently, or again.
    fn recoverable(self) -> bool {
        match self {
            Kind::Operation(kind) => !matches!(
                kind,
                ErrorKind::Internal
                    | ErrorKind::Corrupt
                    | ErrorKind::Unsupported
                    | ErrorKind::InvalidConfig
                    | ErrorKind::DurabilityUnknown
            ),
            _ => true,
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Failure(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    message: String,
    data: Map<String, Value>,
    beside: Map<String, Value>,
}

/// The result of everything that a tool does.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure, with the sentence that says what was found and what to do.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Failure(Box::new(Inner { kind, message: message.into(), data: Map::new(), beside: Map::new() }))
    }

    /// An argument that breaks a rule.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Failure::new(Kind::InvalidArgument, message)
    }

    /// Adds a fact for programs.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.data.insert(name.into(), value.into());
        self
    }

    /// Adds a field that stands beside the error: what was done all the same.
    #[must_use]
    pub(crate) fn beside(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.beside.insert(name.into(), value.into());
        self
    }

    /// What went wrong.
    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The sentence.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// The error for programs.
    pub(crate) fn object(&self) -> Value {
        json!({
            "type": self.0.kind.name(),
            "message": self.0.message,
            "recoverable": self.0.kind.recoverable(),
            "data": self.0.data,
        })
    }

    /// The answer to a call that failed.
    pub(crate) fn into_result(self) -> CallToolResult {
        let error = self.object();
        let mut structured = self.0.beside;
        structured.insert("error".into(), error);
        let mut result = CallToolResult::error(vec![ContentBlock::text(self.0.message)]);
        result.structured_content = Some(Value::Object(structured));
        result
    }
}

impl From<Error> for Failure {
    /// What fmail says about it. Its advice is for a command line, so it stands among the facts and not in the sentence.
    fn from(error: Error) -> Self {
        let failure =
            Failure::new(Kind::Operation(error.kind()), error.to_string()).with("retryable", error.retryable());
        match error.help_text() {
            Some(help) => failure.with("help", help),
            None => failure,
        }
    }
}

/// The text of a value in a sentence: enough to recognise it, without control characters.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 120;
    let mut start: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() {
        start.push('…');
    }
    start
}
