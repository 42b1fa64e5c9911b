//! Gas City's contract for mail scripts, with its traps closed.
//!
//! One process for each operation: `<script> <operation> [<argument>]`, JSON on standard input for `send` and `reply`, one
//! JSON value on standard output. Where the contract lets a failure pass for an empty answer, this does not:
//!
//! | what happens | Gas City | here |
//! |---|---|---|
//! | exit status 2 (also every syntax error of a shell) | success, nothing in it | `unsupported` |
//! | no output where a message belongs | an error about JSON | an error that names script and operation |
//! | a child keeps the output open behind exit status 0 | a failure after success | a warning |
//! | the deadline | the script alone is killed | its whole group |
//! | `ensure-running` fails | nobody hears of it | the operation fails with it, and the next one tries again |

use std::sync::Arc;

use async_trait::async_trait;
use fmail_api::{Error, ErrorKind, Folder, MailCount, Mark, Result};
use futures::lock::Mutex;
use serde_json::{Value, json};

use crate::backend::{Backend, Letter, Stored, checked, no_such_mark};
use crate::foreign::Foreign;
use crate::output;
use crate::process::Ended;
use crate::script::{Call, Script, saying};

/// What a script says when a message was archived before.
const ALREADY: &str = "already archived";
/// What a script says when it has no such message.
const NOT_FOUND: &str = "gc-mail-error:not-found";

/// A script of Gas City's contract.
pub(crate) struct Gc {
    script: Arc<Script>,
    /// Whether `ensure-running` has succeeded.
    running: Mutex<bool>,
}

impl Gc {
    pub(crate) fn new(script: Arc<Script>) -> Self {
        let running = Mutex::new(!script.options.ensure_running);
        Gc { script, running }
    }

    /// Runs an operation to its end, good or bad.
    async fn run(&self, operation: &str, argument: &str, input: Option<Value>) -> Result<Answer<'_>> {
        self.ensure_running().await?;
        let changes = !matches!(operation, "get" | "inbox" | "all" | "thread" | "count");
        let call = self.script.call(&[operation, argument], changes);
        let ended = self.script.run(&call, &[operation, argument], input.map(|input| input.to_string().into())).await?;
        Ok(Answer { call, ended })
    }

    /// Runs an operation that has to succeed.
    async fn ask(&self, operation: &str, argument: &str, input: Option<Value>) -> Result<Answer<'_>> {
        let answer = self.run(operation, argument, input).await?;
        if answer.ended.status.success() { Ok(answer) } else { Err(refusal(&answer.call, &answer.ended)) }
    }

    /// Once, before the first operation. A script need not know it: that is the one place where exit status 2 is fine.
    async fn ensure_running(&self) -> Result<()> {
        let mut running = self.running.lock().await;
        if !*running {
            let call = self.script.call(&["ensure-running"], false);
            let ended = self.script.run(&call, &["ensure-running"], None).await?;
            if !matches!(ended.status.code(), Some(0 | 2)) {
                return Err(call.ended_badly(ended.status, &ended.said));
            }
            *running = true;
        }
        Ok(())
    }

    async fn message(&self, operation: &str, argument: &str, input: Option<Value>) -> Result<Foreign> {
        let answer = self.ask(operation, argument, input).await?;
        match output::value(&answer.call, &answer.ended.output)? {
            Some(value) if !value.is_null() => Foreign::read(&answer.call, value),
            _ => {
                let what = "says that it has succeeded, but answers with nothing where a message is expected";
                Err(answer.call.failed(ErrorKind::Corrupt, what, &answer.ended.said))
            }
        }
    }

    async fn messages(&self, operation: &str, argument: &str) -> Result<Vec<Foreign>> {
        let answer = self.ask(operation, argument, None).await?;
        Foreign::read_list(&answer.call, output::value(&answer.call, &answer.ended.output)?)
    }
}

struct Answer<'a> {
    call: Call<'a>,
    ended: Ended,
}

/// Why an operation failed: by the marks that the contract knows, looked for in the script's own words alone.
fn refusal(call: &Call<'_>, ended: &Ended) -> Error {
    match ended.status.code() {
        Some(2) => {
            let what = format!(
                "ended with exit status 2, which means that it does not know the operation{}",
                saying(&ended.said)
            );
            call.error(ErrorKind::Unsupported, what)
                .help("a shell ends so too when a script has a syntax error, and python when it cannot find it; nothing was taken for an answer")
        }
        Some(_) if ended.said.contains(NOT_FOUND) => {
            call.error(ErrorKind::NotFound, format!("has no such message{}", saying(&ended.said)))
        }
        _ => call.ended_badly(ended.status, &ended.said),
    }
}

#[async_trait]
impl Backend for Gc {
    async fn keeps_keys(&self) -> Result<bool> {
        Ok(false)
    }

    async fn send(&self, letter: &Letter) -> Result<Stored> {
        letter.check(&self.script.shown(), &Default::default())?;
        let subject = letter.subject.clone().unwrap_or_default();
        let input = json!({"from": letter.from, "subject": subject, "body": letter.text()});
        let message = match &letter.answers {
            None => self.message("send", &letter.to, Some(input)).await?,
            Some(answered) if answered.from != letter.to => {
                return Err(Error::unsupported(format!(
                    "answer a message to anyone but its sender: the mail script `{}` sends answers there",
                    self.script.shown()
                ))
                .help("send a new message instead; nothing was sent"));
            }
            Some(answered) => self.message("reply", &answered.id, Some(input)).await?,
        };
        Ok(Stored { message, duplicate: false })
    }

    async fn get(&self, _: Option<&str>, id: &str) -> Result<Foreign> {
        self.message("get", id, None).await
    }

    async fn read(&self, _: &str, id: &str) -> Result<Foreign> {
        self.message("read", id, None).await
    }

    async fn mark(&self, _: &str, id: &str, mark: Mark) -> Result<bool> {
        let operation = match mark {
            Mark::Read => "mark-read",
            Mark::Unread => "mark-unread",
            Mark::Archived => "archive",
            Mark::Deleted => "delete",
            Mark::Retrieved | Mark::Acknowledged | Mark::Unarchived => {
                return Err(no_such_mark(&self.script.shown(), mark));
            }
        };
        let closes = matches!(mark, Mark::Archived | Mark::Deleted);
        let Answer { call, ended } = self.run(operation, id, None).await?;
        match ended.status.code() {
            Some(0) => Ok(true),
            Some(code) if closes && code != 2 && ended.said.contains(ALREADY) => Ok(false),
            _ => Err(refusal(&call, &ended)),
        }
    }

    async fn list(&self, mailbox: &str, folder: Folder) -> Result<Vec<Foreign>> {
        match folder {
            Folder::Unread => self.messages("inbox", mailbox).await,
            Folder::Open => self.messages("all", mailbox).await,
            Folder::Archived => Err(Error::unsupported(format!(
                "list archived messages: the mail script `{}` has no operation for it",
                self.script.shown()
            ))),
        }
    }

    /// No output is (0, 0) by the contract. A script that answers a count with nothing has more likely failed than
    /// counted, so its list is asked.
    async fn count(&self, mailbox: &str) -> Result<MailCount> {
        let answer = self.ask("count", mailbox, None).await?;
        let Some(value) = output::value(&answer.call, &answer.ended.output)?.filter(|value| !value.is_null()) else {
            let all = self.messages("all", mailbox).await?;
            let unread = all.iter().filter(|message| !message.read).count() as u64;
            return Ok(MailCount { total: all.len() as u64, unread, ..MailCount::default() });
        };
        let number = |name: &str| {
            let fields = value.as_object()?;
            let found = fields
                .get(name)
                .or_else(|| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value));
            found.map_or(Some(0), Value::as_u64)
        };
        match (number("total"), number("unread")) {
            (Some(total), Some(unread)) => checked(&answer.call, total, unread),
            _ => {
                let what = format!("answers with {value} where {{\"total\": N, \"unread\": N}} is expected");
                Err(answer.call.error(ErrorKind::Corrupt, what))
            }
        }
    }

    async fn thread(&self, _: &str, thread: &str) -> Result<Vec<Foreign>> {
        self.messages("thread", thread).await
    }

    /// The contract has no operation for it, and `ensure-running` may start something: only the program is looked at.
    async fn health(&self) -> Result<String> {
        self.script.find_program()?;
        Ok(format!("mail is kept by the script `{}`, which was not asked", self.script.shown()))
    }
}
