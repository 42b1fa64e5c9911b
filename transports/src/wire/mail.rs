//! The requests about mail, from their fields.

use fmail_api::{Bulk, Mark, MarkRequest, Operation, Request, Result};

use super::fields::{Fields, missing};

/// Each mark is a command of its own.
const MARKS: [(Operation, Mark); 7] = [
    (Operation::Retrieved, Mark::Retrieved),
    (Operation::MarkRead, Mark::Read),
    (Operation::MarkUnread, Mark::Unread),
    (Operation::Ack, Mark::Acknowledged),
    (Operation::Archive, Mark::Archived),
    (Operation::Unarchive, Mark::Unarchived),
    (Operation::Delete, Mark::Deleted),
];

/// What a command marks a message as, if that is what it does.
pub fn mark_of(operation: Operation) -> Option<Mark> {
    MARKS.iter().find(|(command, _)| *command == operation).map(|(_, mark)| *mark)
}

/// The command for a mark.
pub fn command_of(mark: Mark) -> Option<Operation> {
    MARKS.iter().find(|(_, known)| *known == mark).map(|(command, _)| *command)
}

pub fn inbox(fields: Fields) -> Result<Request> {
    let fields = fields.checked("from", Fields::agent)?.checked("since", |fields, _| fields.since())?;
    fields.decode().map(Request::Inbox)
}

pub fn read(mut fields: Fields) -> Result<Request> {
    let ids = fields.ids()?.ok_or_else(|| missing("id"))?;
    fields.with("ids", ids).checked("token", Fields::text)?.decode().map(Request::Read)
}

pub fn mark(mark: Mark, mut fields: Fields) -> Result<Request> {
    let ids = fields.ids()?;
    let token = fields.text("token")?;
    let dry_run = fields.or_default("dry_run")?;
    let bulk = bulk(fields)?;
    if ids.is_none() && bulk.is_none() {
        return Err(missing("id").help("name messages with `id` or `ids`, or many with `all`, `before` or `from`"));
    }
    let ids = ids.unwrap_or_default();
    // Beside ids, conditions that are all at rest say nothing.
    let bulk = bulk.filter(|bulk| ids.is_empty() || *bulk != Bulk::default());
    Ok(Request::Mark(MarkRequest { mark, ids, bulk, token, dry_run }))
}

fn bulk(fields: Fields) -> Result<Option<Bulk>> {
    if !["all", "before", "from"].iter().any(|name| fields.has(name)) {
        return Ok(None);
    }
    fields.checked("from", Fields::agent)?.decode().map(Some)
}

pub fn reply(fields: Fields) -> Result<Request> {
    let fields = fields.checked("id", Fields::text)?.checked("key", Fields::text)?;
    fields.checked("priority", Fields::priority)?.decode().map(|reply| Request::Reply(Box::new(reply)))
}

pub fn thread(fields: Fields) -> Result<Request> {
    fields.checked("id", Fields::text)?.decode().map(Request::Thread)
}

pub fn receipt(fields: Fields) -> Result<Request> {
    fields.checked("id", Fields::text)?.decode().map(Request::Receipt)
}

pub fn search(fields: Fields) -> Result<Request> {
    let fields = fields.needing("query")?.checked("query", Fields::long_text)?;
    fields.checked("since", |fields, _| fields.since())?.decode().map(Request::Search)
}

pub fn nudge(fields: Fields) -> Result<Request> {
    fields.checked("to", Fields::agent)?.checked("text", Fields::long_text)?.decode().map(Request::Nudge)
}
