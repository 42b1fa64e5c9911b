//! `search_messages`: messages by what they say.

use fmail_api::{Error, ErrorKind, Message};
use futures::TryStreamExt;
use serde_json::{Value, json};

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::{Failure, Result};
use crate::names;
use crate::rows::{BCC_OF, Rows};
use crate::tool::{Answer, Effect, Listed, PROJECT, Parameter, Takes, Tool};
use crate::tools::fetch_inbox::MOST;
use crate::visit::{Desk, Visit, has_more};

pub(super) static TOOL: Tool = Tool {
    name: "search_messages",
    about: "Full-text search over the project's messages, newest first. FTS5 syntax: \"a phrase\", pre*, AND, OR, NOT, \
            subject:word.",
    offered: Profile::Standard,
    effect: Effect::Reads,
    parameters: &[
        PROJECT,
        Parameter::required("query", Takes::Text),
        Parameter::optional("limit", Takes::Number(1, MOST)).about("Default 20."),
        Parameter::optional("agent_name", Takes::Text).about("Only what this agent may read."),
    ],
    ignored: &[],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let query = arguments.required("query")?;
    let limit = arguments.number("limit").unwrap_or(20);
    let (desk, everybody) = match arguments.words("agent_name") {
        Some(text) => (project.desk(&names::known(&project, "agent_name", text).await?.name), false),
        None => (project.overview(), true),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let search = async |query: &str| match everybody {
        true => without_copies(&desk, query, limit).await,
        false => found(&desk, query, limit).await,
    };
    let mut note = None;
    let (shown, more) = match (search(query).await, words_of(query)) {
        (Err(error), Some(words)) if error.kind() == ErrorKind::InvalidRequest => {
            // Most models know nothing of the query language, and mean the words that they wrote.
            note = Some(format!("The query is no FTS5 expression ({}); it was searched as {words}.", error.message()));
            search(&words).await.map_err(|_| unclear(&error))?
        }
        (Err(error), _) if error.kind() == ErrorKind::InvalidRequest => return Err(unclear(&error)),
        (result, _) => result?,
    };
    let rows = Rows::of(&project, &shown).await?;
    Ok(Answer::Found(Listed { rows: shown.iter().map(|message| row(&rows, message)).collect(), more, note }))
}

/// The words of a text, each in quotes, in which every sign stands for itself; nothing where there is no word.
fn words_of(query: &str) -> Option<String> {
    let plain = query.replace('"', " ");
    let words = plain.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric));
    let quoted: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
    (!quoted.is_empty()).then(|| quoted.join(" "))
}

/// The newest messages that fit, the newest first, and whether there are more.
async fn found(desk: &Desk<'_>, query: &str, limit: usize) -> Result<(Vec<Message>, bool), Error> {
    let (head, letters) = desk.mail("search", json!({"query": query, "limit": limit})).await?;
    let mut messages: Vec<Message> = letters.map_ok(|letter| letter.message).try_collect().await?;
    messages.reverse();
    Ok((messages, has_more(&head)))
}

/// The same without blind copies, which are nobody's business but their recipients'. For those that stood in the way,
/// more is asked for.
async fn without_copies(desk: &Desk<'_>, query: &str, limit: usize) -> Result<(Vec<Message>, bool), Error> {
    let mut asked = limit;
    loop {
        let (mut messages, more) = found(desk, query, asked).await?;
        messages.retain(|message| !message.extra.contains_key(BCC_OF));
        if messages.len() >= limit || !more {
            let more = more || messages.len() > limit;
            messages.truncate(limit);
            return Ok((messages, more));
        }
        asked = asked.saturating_mul(2);
    }
}

/// That the query is wrong.
fn unclear(error: &Error) -> Failure {
    let help = error.help_text().map(|help| format!(" {help}.")).unwrap_or_default();
    let sentence = format!("the query cannot be understood: {}.{help}", error.message());
    Failure::argument(sentence).with("argument", "query")
}

/// Upstream's rows of a search say `ack_required` with 0 and 1, and have no text.
fn row(rows: &Rows<'_>, message: &Message) -> Value {
    let mut row = rows.message(message, false);
    for left_out in ["project_id", "sender_id", "attachments"] {
        row.remove(left_out);
    }
    row.insert("ack_required".into(), u8::from(message.ack_required).into());
    row.into()
}
