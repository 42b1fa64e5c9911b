//! The native protocol: an envelope of JSON for each call, a handshake, and errors with codes.
//!
//! `docs/plugins/exec.md` is its description. In short: the request is
//! `{"op", "id", "args", "deadline_ms", "caller", "idempotency_key"}`, the answer `{"id", "ok": …}` or
//! `{"id", "error": {"code", "message"}}`, and the first request is `describe`.

mod describe;
mod lines;
mod once;

use std::sync::Arc;

use async_trait::async_trait;
use fmail_api::{Error, ErrorKind, Folder, MailCount, Mark, Result, Tag};
use futures::lock::Mutex;
use serde_json::{Map, Value, json};

use crate::Mode;
use crate::backend::{Backend, Letter, Stored, checked, no_such_mark};
use crate::foreign::Foreign;
use crate::output::word_for;
use crate::script::{Call, Script, excerpt};
use describe::Description;
use lines::Lines;

/// A script of the native protocol.
pub(crate) struct Native {
    script: Arc<Script>,
    lines: Option<Lines>,
    /// What the script has said about itself.
    described: Mutex<Option<Arc<Description>>>,
}

/// One request, before it has a number.
struct Request<'a> {
    op: &'a str,
    /// On whose behalf.
    caller: Option<&'a str>,
    args: Value,
    key: Option<&'a str>,
    changes: bool,
}

impl<'a> Request<'a> {
    fn reading(op: &'a str, caller: Option<&'a str>, args: Value) -> Self {
        Request { op, caller, args, key: None, changes: false }
    }

    fn envelope(&self, script: &Script, id: u64) -> Value {
        let mut envelope = json!({
            "op": self.op,
            "id": id.to_string(),
            "args": self.args,
            "deadline_ms": u64::try_from(script.options.timeout.as_millis()).unwrap_or(u64::MAX),
        });
        for (name, value) in [("caller", self.caller), ("idempotency_key", self.key)] {
            if let (Some(value), Some(fields)) = (value, envelope.as_object_mut()) {
                fields.insert(name.into(), value.into());
            }
        }
        envelope
    }
}

impl Native {
    pub(crate) fn new(script: Arc<Script>) -> Self {
        let lines = (script.options.mode == Mode::Lines).then(|| Lines::new(script.clone()));
        Native { script, lines, described: Mutex::new(None) }
    }

    async fn exchange(&self, request: &Request<'_>) -> Result<(Call<'_>, Map<String, Value>)> {
        let call = self.script.call(&[request.op], request.changes);
        let answer = match &self.lines {
            Some(lines) => lines.exchange(&call, request).await?,
            None => once::exchange(&self.script, &call, request).await?,
        };
        Ok((call, answer))
    }

    /// Asks the script; the answer is what stands under `ok`.
    async fn ask(&self, request: Request<'_>) -> Result<(Call<'_>, Value)> {
        let (call, answer) = self.exchange(&request).await?;
        let value = understood(&call, answer)?;
        Ok((call, value))
    }

    /// What the script has said about itself; asked once.
    async fn described(&self) -> Result<Arc<Description>> {
        let mut described = self.described.lock().await;
        if let Some(description) = &*described {
            return Ok(description.clone());
        }
        let (call, value) = self.ask(Request::reading("describe", None, json!({}))).await?;
        let description = Arc::new(Description::read(&call, &value)?);
        *described = Some(description.clone());
        Ok(description)
    }

    async fn message(&self, request: Request<'_>) -> Result<Foreign> {
        let (call, value) = self.ask(request).await?;
        Foreign::read(&call, value)
    }

    async fn messages(&self, request: Request<'_>) -> Result<Vec<Foreign>> {
        let (call, value) = self.ask(request).await?;
        Foreign::read_list(&call, Some(value))
    }
}

/// What stands under `ok`, or the error in its place.
fn understood(call: &Call<'_>, mut answer: Map<String, Value>) -> Result<Value> {
    if let Some(error) = answer.remove("error").filter(|error| !error.is_null()) {
        return Err(refused(call, &error));
    }
    match answer.remove("ok") {
        Some(value) => Ok(value),
        None => Err(call
            .failed(ErrorKind::Corrupt, "answers without `ok` and without `error`", "")
            .help("an answer is {\"id\": …, \"ok\": …} or {\"id\": …, \"error\": {\"code\": …, \"message\": …}}")),
    }
}

/// The error that a script has told.
fn refused(call: &Call<'_>, error: &Value) -> Error {
    let text = |name: &str| error.get(name).and_then(Value::as_str);
    let Some(code) = text("code") else {
        let what = format!("answers with an error that has no `code`: {}", excerpt(&error.to_string()));
        return call.failed(ErrorKind::Corrupt, &what, "");
    };
    let kind = match code {
        "invalid" => Some(ErrorKind::InvalidRequest),
        "already_archived" => Some(ErrorKind::Conflict),
        other => ErrorKind::from_code(other),
    };
    let said = excerpt(text("message").unwrap_or_default());
    let told = match kind {
        Some(kind) => call.error(kind, format!("answers {code}: {said}")),
        None => call
            .error(ErrorKind::Internal, format!("answers with the unknown code `{}`: {said}", excerpt(code)))
            .help("the codes stand in docs/plugins/exec.md"),
    };
    match text("help") {
        Some(help) => told.help(excerpt(help)),
        None => told,
    }
}

fn word(mark: Mark) -> &'static str {
    match mark {
        Mark::Retrieved => "retrieved",
        Mark::Read => "read",
        Mark::Unread => "unread",
        Mark::Acknowledged => "acknowledged",
        Mark::Archived => "archived",
        Mark::Unarchived => "unarchived",
        Mark::Deleted => "deleted",
    }
}

/// What a letter is in the arguments of `send` and `reply`.
fn arguments(letter: &Letter, description: &Description) -> Value {
    let mut args = Map::new();
    let mut put = |name: &str, value: Value| args.insert(name.into(), value);
    put("from", letter.from.as_str().into());
    put("to", letter.to.as_str().into());
    put("subject", letter.subject.clone().unwrap_or_default().into());
    let whole = description.features.contains("json_bodies");
    put("body", if whole { letter.body.clone() } else { letter.text().into() });
    if let Some(answered) = &letter.answers {
        put("reply_to", answered.id.as_str().into());
        // A message that belongs to no thread begins one with its id.
        put("thread_id", answered.thread.as_ref().unwrap_or(&answered.id).as_str().into());
    } else if let Some(thread) = &letter.thread {
        put("thread_id", thread.as_str().into());
    }
    if !letter.cc.is_empty() {
        put("cc", letter.cc.clone().into());
    }
    if letter.priority != Default::default() {
        put("priority", letter.priority.as_str().into());
    }
    if !letter.tags.is_empty() {
        put("tags", letter.tags.iter().map(Tag::as_str).collect());
    }
    if letter.ack_required {
        put("ack_required", true.into());
    }
    if let Some(expires) = letter.expires {
        put("expires", expires.to_string().into());
    }
    Value::Object(args)
}

#[async_trait]
impl Backend for Native {
    async fn keeps_keys(&self) -> Result<bool> {
        Ok(self.described().await?.features.contains("idempotency"))
    }

    /// An answer is `reply` where the script knows it, and otherwise a `send` that names what it answers.
    async fn send(&self, letter: &Letter) -> Result<Stored> {
        let description = self.described().await?;
        letter.check(&self.script.shown(), &description.features)?;
        let args = arguments(letter, &description);
        description.check_size(&self.script.shown(), &args)?;
        let to_sender = letter.answers.as_ref().is_some_and(|answered| answered.from == letter.to);
        let op = if to_sender && description.ops.contains("reply") { "reply" } else { "send" };
        let (key, caller) = (letter.key.as_deref(), Some(letter.from.as_str()));
        let (call, mut value) = self.ask(Request { op, caller, args, key, changes: true }).await?;
        let duplicate = value.as_object_mut().and_then(|fields| fields.shift_remove("duplicate"));
        let duplicate = duplicate.is_some_and(|duplicate| duplicate == Value::Bool(true));
        Ok(Stored { message: Foreign::read(&call, value)?, duplicate })
    }

    async fn get(&self, reader: Option<&str>, id: &str) -> Result<Foreign> {
        self.described().await?;
        self.message(Request::reading("get", reader, json!({"mailbox": reader, "id": id}))).await
    }

    async fn read(&self, reader: &str, id: &str) -> Result<Foreign> {
        if self.described().await?.ops.contains("read") {
            let args = json!({"mailbox": reader, "id": id});
            let request = Request { op: "read", caller: Some(reader), args, key: None, changes: true };
            return self.message(request).await;
        }
        self.mark(reader, id, Mark::Read).await?;
        self.get(Some(reader), id).await
    }

    async fn mark(&self, reader: &str, id: &str, mark: Mark) -> Result<bool> {
        if !self.described().await?.marks(mark) {
            return Err(no_such_mark(&self.script.shown(), mark));
        }
        let args = json!({"mailbox": reader, "id": id, "mark": word(mark)});
        let request = Request { op: "mark", caller: Some(reader), args, key: None, changes: true };
        let (call, answer) = self.exchange(&request).await?;
        if answer.get("error").and_then(|error| error.get("code")).is_some_and(|code| code == "already_archived") {
            return Ok(false);
        }
        let value = understood(&call, answer)?;
        match value.get("changed").and_then(Value::as_bool) {
            Some(changed) => Ok(changed),
            None => Err(call.failed(
                ErrorKind::Corrupt,
                &format!(
                    "answers with {} where {{\"changed\": true}} or {{\"changed\": false}} is expected",
                    word_for(&value)
                ),
                "",
            )),
        }
    }

    async fn list(&self, mailbox: &str, folder: Folder) -> Result<Vec<Foreign>> {
        let description = self.described().await?;
        let op = match folder {
            Folder::Unread if description.ops.contains("inbox") => "inbox",
            Folder::Unread | Folder::Open => "all",
            Folder::Archived if description.ops.contains("archived") => "archived",
            Folder::Archived => {
                return Err(Error::unsupported(format!(
                    "list archived messages: the mail script `{}` has no operation `archived`",
                    self.script.shown()
                )));
            }
        };
        let mut messages = self.messages(Request::reading(op, Some(mailbox), json!({"mailbox": mailbox}))).await?;
        if folder == Folder::Unread {
            messages.retain(|message| !message.read);
        }
        Ok(messages)
    }

    async fn count(&self, mailbox: &str) -> Result<MailCount> {
        if !self.described().await?.ops.contains("count") {
            let all = self.list(mailbox, Folder::Open).await?;
            let unread = all.iter().filter(|message| !message.read).count() as u64;
            return Ok(MailCount { total: all.len() as u64, unread, ..MailCount::default() });
        }
        let (call, value) = self.ask(Request::reading("count", Some(mailbox), json!({"mailbox": mailbox}))).await?;
        match (value.get("total").and_then(Value::as_u64), value.get("unread").and_then(Value::as_u64)) {
            (Some(total), Some(unread)) => checked(&call, total, unread),
            _ => {
                let what = format!("answers with {value} where {{\"total\": N, \"unread\": N}} is expected");
                Err(call.error(ErrorKind::Corrupt, what))
            }
        }
    }

    /// Without an operation for it, what of a thread stands in the mailbox.
    async fn thread(&self, reader: &str, thread: &str) -> Result<Vec<Foreign>> {
        if self.described().await?.ops.contains("thread") {
            let args = json!({"mailbox": reader, "thread_id": thread});
            return self.messages(Request::reading("thread", Some(reader), args)).await;
        }
        let mut messages = self.list(reader, Folder::Open).await?;
        messages.retain(|message| message.thread.as_deref() == Some(thread) || message.id == thread);
        Ok(messages)
    }

    async fn health(&self) -> Result<String> {
        let description = self.described().await?;
        let name = excerpt(&description.name);
        if description.ops.contains("health") {
            self.ask(Request::reading("health", None, json!({}))).await?;
            return Ok(format!("mail is kept by `{name}`, which says that it is well"));
        }
        Ok(format!("mail is kept by `{name}`, which answers"))
    }

    async fn close(&self) {
        if let Some(lines) = &self.lines {
            lines.close().await;
        }
    }
}
