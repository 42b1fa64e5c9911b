//! The parts of a message that a query can look into.

use std::fmt;

use fmail_api::{Message, Target};
use serde_json::Value;

/// A part of a message with words in it.
///
/// A store with an index of its own has a column of the same name for each, filled with [`SearchColumn::text`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SearchColumn {
    /// The title.
    Subject,
    /// What the message says. A body that is not a string has the words of all its keys, strings and numbers, in the
    /// order of the document; `true`, `false` and `null` are left out.
    Body,
    /// The labels.
    Tags,
    /// The sender.
    From,
    /// Every target: the first, the further recipients and the copies; topics and mailboxes alike.
    To,
    /// The targets that are topics.
    Topic,
    /// The conversation.
    Thread,
    /// `low`, `normal` or `high`.
    Priority,
}

impl SearchColumn {
    /// Every column.
    pub const ALL: [SearchColumn; 8] = [
        SearchColumn::Subject,
        SearchColumn::Body,
        SearchColumn::Tags,
        SearchColumn::From,
        SearchColumn::To,
        SearchColumn::Topic,
        SearchColumn::Thread,
        SearchColumn::Priority,
    ];

    /// The columns that a word without a filter is looked for in.
    pub const TEXT: [SearchColumn; 3] = [SearchColumn::Subject, SearchColumn::Body, SearchColumn::Tags];

    /// The name in a query.
    pub const fn name(self) -> &'static str {
        match self {
            SearchColumn::Subject => "subject",
            SearchColumn::Body => "body",
            SearchColumn::Tags => "tags",
            SearchColumn::From => "from",
            SearchColumn::To => "to",
            SearchColumn::Topic => "topic",
            SearchColumn::Thread => "thread",
            SearchColumn::Priority => "priority",
        }
    }

    /// The column of this name, in capitals or not.
    pub fn named(name: &str) -> Option<SearchColumn> {
        SearchColumn::ALL.into_iter().find(|column| column.name().eq_ignore_ascii_case(name))
    }

    /// What the message has in this column, as one text with a line for each part.
    pub fn text(self, message: &Message) -> String {
        let mut text = String::new();
        self.for_each_part(message, &mut |part| {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(part);
        });
        text
    }

    /// Calls `part` with each part of the column, in order. Nothing is copied that need not be.
    pub(super) fn for_each_part(self, message: &Message, part: &mut dyn FnMut(&str)) {
        match self {
            SearchColumn::Subject => message.subject.iter().for_each(|subject| part(subject)),
            SearchColumn::Body => for_each_scalar(&message.body, part),
            SearchColumn::Tags => message.tags.iter().for_each(|tag| part(tag.as_str())),
            SearchColumn::From => part(message.from.as_str()),
            SearchColumn::To => message.targets().iter().for_each(|target| part(&target.to_string())),
            SearchColumn::Topic => message.targets().iter().for_each(|target| match target {
                Target::Topic(topic) => part(topic.as_str()),
                Target::Agent(_) => {}
            }),
            SearchColumn::Thread => message.thread.iter().for_each(|thread| part(thread)),
            SearchColumn::Priority => part(message.priority.as_str()),
        }
    }
}

impl fmt::Display for SearchColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Calls `part` with every key, string and number of a value, in the order of the document.
fn for_each_scalar(value: &Value, part: &mut dyn FnMut(&str)) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => part(&number.to_string()),
        Value::String(text) => part(text),
        Value::Array(items) => items.iter().for_each(|item| for_each_scalar(item, part)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            part(key);
            for_each_scalar(value, part);
        }),
    }
}

/// Some of the columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ColumnSet(u8);

impl ColumnSet {
    pub(super) const EMPTY: ColumnSet = ColumnSet(0);

    /// Where a word without a filter is looked for.
    pub(super) fn text() -> Self {
        SearchColumn::TEXT.into_iter().collect()
    }

    pub(super) fn contains(self, column: SearchColumn) -> bool {
        self.0 & bit(column) != 0
    }

    pub(super) fn insert(&mut self, column: SearchColumn) {
        self.0 |= bit(column);
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The columns of both.
    pub(super) fn and(self, other: ColumnSet) -> ColumnSet {
        ColumnSet(self.0 & other.0)
    }

    /// The columns of either.
    pub(super) fn or(self, other: ColumnSet) -> ColumnSet {
        ColumnSet(self.0 | other.0)
    }

    /// All other columns.
    pub(super) fn inverted(self) -> ColumnSet {
        ColumnSet(!self.0)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = SearchColumn> {
        SearchColumn::ALL.into_iter().filter(move |column| self.contains(*column))
    }

    /// Whether every column holds names, which are written with hyphens.
    pub(super) fn holds_names(self) -> bool {
        self.and(ColumnSet::text()).iter().all(|column| column == SearchColumn::Tags)
    }

    /// The set as a filter is written, without the colon: `subject`, `{subject body}`, `-from`.
    ///
    /// The shorter of the two ways is taken; the empty set is only a negated one, since `{}` is not allowed.
    pub(super) fn filter(self) -> String {
        let (listed, others) = (self.iter().count(), self.inverted().iter().count());
        match listed == 0 || (0 < others && others < listed) {
            true => format!("-{}", self.inverted().list()),
            false => self.list(),
        }
    }

    /// The columns by their names: `subject`, `{subject body}`.
    pub(super) fn list(self) -> String {
        let names: Vec<&str> = self.iter().map(SearchColumn::name).collect();
        match names.as_slice() {
            [name] => (*name).to_owned(),
            names => format!("{{{}}}", names.join(" ")),
        }
    }
}

const fn bit(column: SearchColumn) -> u8 {
    1 << column as u8
}

impl FromIterator<SearchColumn> for ColumnSet {
    fn from_iter<I: IntoIterator<Item = SearchColumn>>(columns: I) -> Self {
        let mut set = ColumnSet::EMPTY;
        columns.into_iter().for_each(|column| set.insert(column));
        set
    }
}

impl fmt::Debug for ColumnSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.filter())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(value: Value) -> Message {
        Message::from_value(value, Some("20260110-153000-0001".parse().unwrap()), None).unwrap()
    }

    #[test]
    fn a_body_that_is_not_a_string_has_keys_strings_and_numbers_in_order() {
        let body = json!({"error": {"code": 12.50, "fatal": true}, "files": ["a.rs", null, "b.rs"]});
        let message = message(json!({"from": "a", "to": "t", "body": body}));
        assert_eq!(SearchColumn::Body.text(&message), "error\ncode\n12.5\nfatal\nfiles\na.rs\nb.rs");
    }

    #[test]
    fn to_has_every_target_and_topic_only_topics() {
        let message =
            message(json!({"from": "a", "to": "code", "recipients": ["@bob"], "cc": ["ops", "@bob"], "body": ""}));
        assert_eq!(SearchColumn::To.text(&message), "code\n@bob\nops");
        assert_eq!(SearchColumn::Topic.text(&message), "code\nops");
    }

    #[test]
    fn a_missing_field_has_no_words() {
        let message = message(json!({"from": "a", "to": "t", "body": null}));
        for column in [SearchColumn::Subject, SearchColumn::Body, SearchColumn::Tags, SearchColumn::Thread] {
            assert_eq!(column.text(&message), "", "{column}");
        }
        assert_eq!(SearchColumn::Priority.text(&message), "normal");
    }

    #[test]
    fn a_set_is_written_the_shorter_way() {
        let written = |columns: &[SearchColumn]| columns.iter().copied().collect::<ColumnSet>().filter();
        assert_eq!(written(&[SearchColumn::From]), "from");
        assert_eq!(written(&[SearchColumn::Body, SearchColumn::Subject]), "{subject body}");
        assert_eq!(written(&SearchColumn::ALL[1..]), "-subject");
        assert_eq!(written(&SearchColumn::ALL), "{subject body tags from to topic thread priority}");
        assert_eq!(written(&[]), "-{subject body tags from to topic thread priority}");
    }
}
