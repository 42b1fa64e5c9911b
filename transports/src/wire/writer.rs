//! A line in the making.

use serde::Serialize;
use serde_json::Value;

use super::ReqId;

/// A line that is being written: an object whose `req_id` comes last.
pub struct LineWriter {
    text: String,
    /// Whether a comma has to come before the next field.
    begun: bool,
}

impl LineWriter {
    /// A line without a field yet.
    pub fn new() -> Self {
        LineWriter::behind(String::new())
    }

    /// The same behind lines that are there already.
    pub fn behind(mut text: String) -> Self {
        text.push('{');
        LineWriter { text, begun: false }
    }

    /// A line behind others whose first fields are there already, brace and all.
    pub fn open(mut text: String, beginning: &str) -> Self {
        text.push_str(beginning);
        LineWriter { text, begun: true }
    }

    /// A field whose JSON is there already.
    pub fn json(mut self, name: &str, json: &str) -> Self {
        if std::mem::replace(&mut self.begun, true) {
            self.text.push(',');
        }
        for part in ["\"", name, "\":", json] {
            self.text.push_str(part);
        }
        self
    }

    /// A field.
    pub fn field(self, name: &str, value: &impl Serialize) -> Self {
        // Every type that is written here has a JSON form; `null` would be a defect that a test of its line shows.
        let json = serde_json::to_string(value).unwrap_or_else(|_| "null".into());
        self.json(name, &json)
    }

    /// The field, unless it says nothing.
    pub fn unless_empty(self, name: &str, value: &Value) -> Self {
        match value {
            Value::Null | Value::Bool(false) => self,
            Value::Array(items) if items.is_empty() => self,
            value => self.field(name, value),
        }
    }

    /// The line with its end, and before it the name of its request.
    pub fn end(self, req_id: Option<&ReqId>) -> String {
        let mut line = match req_id {
            Some(req_id) => self.json("req_id", &req_id.to_string()),
            None => self,
        };
        line.text.push_str("}\n");
        line.text
    }
}
