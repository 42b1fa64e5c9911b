//! What a tool is: one definition gives its entry in the list, its schema and the check of its arguments.

use std::sync::Arc;

use futures::future::BoxFuture;
use rmcp::model::{CallToolResult, ContentBlock, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::Result;
use crate::visit::Visit;

/// A tool.
pub(crate) struct Tool {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it does, for the model.
    pub(crate) about: &'static str,
    /// The smallest profile that offers it.
    pub(crate) offered: Profile,
    /// What it does to the world.
    pub(crate) effect: Effect,
    /// What it takes.
    pub(crate) parameters: &'static [Parameter],
    /// What upstream's clients may say besides, and what makes no difference here.
    pub(crate) ignored: &'static [&'static str],
    /// What upstream's clients may say besides and what would make a difference, with the reason why it is refused.
    pub(crate) refused: &'static [(&'static str, &'static str)],
    /// Does it.
    pub(crate) run: for<'a> fn(&'a Visit, Arguments) -> BoxFuture<'a, Result<Answer>>,
}

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    Reads,
    /// Something that a repetition does not do again.
    Settles,
    /// Something each time.
    Adds,
}

/// What a tool takes.
pub(crate) struct Parameter {
    /// The name that the list shows.
    pub(crate) name: &'static str,
    /// Other names that clients use for it.
    pub(crate) aliases: &'static [&'static str],
    /// What it can be.
    pub(crate) takes: Takes,
    /// It has to be there.
    pub(crate) required: bool,
    /// What the model has to know about it; nothing where the name says it all.
    pub(crate) about: &'static str,
}

/// What an argument can be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Takes {
    /// A text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number from the first to the second.
    Number(u64, u64),
    /// Yes or no.
    Flag,
    /// A list of texts.
    Texts,
    /// A list of whole numbers.
    Numbers,
    /// A message: its number, or its id.
    Message,
}

impl Takes {
    fn schema(self) -> Map<String, Value> {
        let schema = match self {
            Takes::Text => json!({"type": "string"}),
            Takes::Word(words) => json!({"type": "string", "enum": words}),
            Takes::Number(..) | Takes::Message => json!({"type": "integer"}),
            Takes::Flag => json!({"type": "boolean"}),
            Takes::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Takes::Numbers => json!({"type": "array", "items": {"type": "integer"}}),
        };
        rmcp::model::object(schema)
    }
}

impl Parameter {
    /// One that has to be there.
    pub(crate) const fn required(name: &'static str, takes: Takes) -> Self {
        Parameter { name, aliases: &[], takes, required: true, about: "" }
    }

    /// One that may be left out.
    pub(crate) const fn optional(name: &'static str, takes: Takes) -> Self {
        Parameter { required: false, ..Parameter::required(name, takes) }
    }

    /// The same, with what the model has to know.
    pub(crate) const fn about(self, about: &'static str) -> Self {
        Parameter { about, ..self }
    }

    /// The same, also known by other names.
    pub(crate) const fn or(self, aliases: &'static [&'static str]) -> Self {
        Parameter { aliases, ..self }
    }
}

/// The project, in every tool but one.
pub(crate) const PROJECT: Parameter =
    Parameter::required("project_key", Takes::Text).or(&["human_key"]).about("Absolute path of the project.");
/// The agent that acts.
pub(crate) const AGENT: Parameter = Parameter::required("agent_name", Takes::Text);
/// The message that is meant.
pub(crate) const MESSAGE: Parameter = Parameter::required("message_id", Takes::Message);

impl Tool {
    /// Its entry in the list.
    pub(crate) fn listed(&self) -> rmcp::model::Tool {
        let mut properties = Map::new();
        for parameter in self.parameters {
            let mut schema = parameter.takes.schema();
            if !parameter.about.is_empty() {
                schema.insert("description".into(), parameter.about.into());
            }
            properties.insert(parameter.name.into(), Value::Object(schema));
        }
        let required: Vec<&str> =
            self.parameters.iter().filter(|parameter| parameter.required).map(|parameter| parameter.name).collect();
        let mut schema = Map::from_iter([("type".into(), "object".into()), ("properties".into(), properties.into())]);
        if !required.is_empty() {
            schema.insert("required".into(), required.into());
        }
        let mut tool = rmcp::model::Tool::new(self.name, self.about, Arc::new(schema));
        let mut hints = ToolAnnotations::new();
        match self.effect {
            Effect::Reads => hints.read_only_hint = Some(true),
            Effect::Settles => (hints.destructive_hint, hints.idempotent_hint) = (Some(false), Some(true)),
            Effect::Adds => hints.destructive_hint = Some(false),
        }
        tool.annotations = Some(hints);
        tool
    }
}

/// What a tool answers.
#[derive(Debug)]
pub(crate) enum Answer {
    /// An object.
    Object(Value),
    /// A list; the text of the answer is the list itself.
    List(Listed),
    /// A list; the text of the answer is `{"result": …}`, as upstream's search has it.
    Found(Listed),
}

/// Rows, of which the limit may have left some out.
#[derive(Debug)]
pub(crate) struct Listed {
    /// The rows.
    pub(crate) rows: Vec<Value>,
    /// There are more.
    pub(crate) more: bool,
    /// What the caller has to know about how they were found.
    pub(crate) note: Option<String>,
}

impl Listed {
    fn object(self) -> Value {
        let mut object = json!({"result": self.rows});
        if self.more {
            object["more"] = true.into();
        }
        if let Some(note) = self.note {
            object["note"] = note.into();
        }
        object
    }
}

impl Answer {
    /// The answer to a call that went well. `structuredContent` has to be an object for some clients, so that a list
    /// stands in `result`.
    pub(crate) fn into_result(self) -> CallToolResult {
        let (text, structured) = match self {
            Answer::Object(object) => (object.to_string(), object),
            Answer::List(list) => (Value::from(list.rows.clone()).to_string(), list.object()),
            Answer::Found(list) => {
                let structured = list.object();
                (structured.to_string(), structured)
            }
        };
        let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
        result.structured_content = Some(structured);
        result
    }
}
