//! A message as a script tells it.

use std::collections::BTreeSet;

use fmail_api::{ErrorKind, Priority, Result, Tag, Timestamp, canonical_tags};
use serde_json::{Map, Value};

use crate::output::word_for;
use crate::script::{Call, excerpt_of};

/// A message in a script's own terms: its names, its id, its states.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Foreign {
    pub id: String,
    pub from: String,
    pub to: String,
    pub subject: String,
    pub body: Value,
    /// Nothing when the script does not tell; then the time is taken to be the beginning of all times.
    pub created: Option<Timestamp>,
    pub read: bool,
    pub archived: bool,
    pub acknowledged: bool,
    pub thread: Option<String>,
    pub reply_to: Option<String>,
    pub cc: Vec<String>,
    pub priority: Priority,
    pub tags: Vec<Tag>,
    pub ack_required: bool,
    pub expires: Option<Timestamp>,
    /// What else the script tells.
    pub rest: Map<String, Value>,
}

impl Foreign {
    /// Reads a message. Keys are compared as Go does it, without regard to case; what is missing or `null` is empty. A
    /// message without an id is no message.
    pub(crate) fn read(call: &Call<'_>, value: Value) -> Result<Foreign> {
        let Value::Object(fields) = value else {
            let what = format!("answers with {} where a message is expected", word_for(&value));
            return Err(call.error(ErrorKind::Corrupt, what).help("a message is a JSON object"));
        };
        let mut fields = Fields { call, fields, id: String::new() };
        fields.id = fields.text("id")?.unwrap_or_default();
        if fields.id.is_empty() {
            let keys = fields.fields.keys().take(10).map(|key| excerpt_of(key, 30)).collect::<Vec<_>>().join(", ");
            return Err(call
                .error(ErrorKind::Corrupt, format!("answers with a message that has no `id` (it has: {keys})"))
                .help("every message has an `id`, a text that is not empty"));
        }
        Ok(Foreign {
            id: fields.id.clone(),
            from: fields.text("from")?.unwrap_or_default(),
            to: fields.text("to")?.unwrap_or_default(),
            subject: fields.text("subject")?.unwrap_or_default(),
            body: fields.take("body").unwrap_or_else(|| "".into()),
            created: fields.time("created_at")?,
            read: fields.switch("read")?,
            archived: fields.switch("archived")?,
            acknowledged: fields.switch("acknowledged")?,
            thread: fields.text("thread_id")?.filter(|thread| !thread.is_empty()),
            reply_to: fields.text("reply_to")?.filter(|id| !id.is_empty()),
            cc: fields.texts("cc")?,
            priority: fields.priority()?,
            tags: canonical_tags(fields.texts("tags")?.iter().map(String::as_str))?,
            ack_required: fields.switch("ack_required")?,
            expires: fields.time("expires")?,
            rest: fields.fields,
        })
    }

    /// Reads a list of messages. `null`, an empty list and no output at all are the same.
    pub(crate) fn read_list(call: &Call<'_>, value: Option<Value>) -> Result<Vec<Foreign>> {
        match value {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                let mut ids = BTreeSet::new();
                let messages: Vec<Foreign> =
                    items.into_iter().map(|item| Foreign::read(call, item)).collect::<Result<_>>()?;
                match messages.iter().find(|message| !ids.insert(message.id.as_str())) {
                    Some(twice) => {
                        let what = format!("lists the message `{}` twice", excerpt_of(&twice.id, 60));
                        Err(call.error(ErrorKind::Corrupt, what).help("an `id` belongs to one message"))
                    }
                    None => Ok(messages),
                }
            }
            Some(other) => {
                let what = format!("answers with {} where a list of messages is expected", word_for(&other));
                Err(call.error(ErrorKind::Corrupt, what).help("print a JSON array, also for one message"))
            }
        }
    }
}

/// The fields of a message that are not read yet.
struct Fields<'a, 'c> {
    call: &'a Call<'c>,
    fields: Map<String, Value>,
    id: String,
}

impl Fields<'_, '_> {
    fn take(&mut self, name: &str) -> Option<Value> {
        let key = match self.fields.contains_key(name) {
            true => name.to_string(),
            false => self.fields.keys().find(|key| key.eq_ignore_ascii_case(name))?.clone(),
        };
        self.fields.shift_remove(&key).filter(|value| !value.is_null())
    }

    fn wrong<T>(&self, name: &str, found: &Value, allowed: &str) -> Result<T> {
        let which = if self.id.is_empty() { String::new() } else { format!(" `{}`", excerpt_of(&self.id, 60)) };
        let what =
            format!("answers with a message{which} whose `{name}` is {}; it has to be {allowed}", word_for(found));
        Err(self.call.error(ErrorKind::Corrupt, what))
    }

    fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => self.wrong(name, &other, "a text, in quotes"),
        }
    }

    fn texts(&mut self, name: &str) -> Result<Vec<String>> {
        let Some(value) = self.take(name) else { return Ok(Vec::new()) };
        let texts = value.as_array().map(|items| items.iter().map(|item| item.as_str().map(String::from)).collect());
        match texts.flatten() {
            Some(texts) => Ok(texts),
            None => self.wrong(name, &value, "a list of texts"),
        }
    }

    fn switch(&mut self, name: &str) -> Result<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(value),
            Some(other) => self.wrong(name, &other, "true or false"),
        }
    }

    /// Go writes a time that is not set as the first of the year 1.
    fn time(&mut self, name: &str) -> Result<Option<Timestamp>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match value.as_str().and_then(|text| text.parse::<Timestamp>().ok()) {
            Some(time) => Ok(Some(time).filter(|time| time.unix_seconds() >= 0)),
            None => self.wrong(name, &value, "a time of RFC 3339, such as 2026-01-10T15:30:00Z"),
        }
    }

    /// A word of fmail's; a number is another system's and is kept as it is.
    fn priority(&mut self) -> Result<Priority> {
        match self.take("priority") {
            None => Ok(Priority::Normal),
            Some(number @ Value::Number(_)) => {
                self.fields.insert("priority".into(), number);
                Ok(Priority::Normal)
            }
            Some(value) => match value.as_str().and_then(|word| word.parse().ok()) {
                Some(priority) => Ok(priority),
                None => self.wrong("priority", &value, "low, normal or high"),
            },
        }
    }
}
