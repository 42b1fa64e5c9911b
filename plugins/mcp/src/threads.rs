//! Names of threads.

use serde_json::json;

use crate::errors::{Failure, Result, shown};
use crate::ids;
use crate::visit::Project;

/// The longest name of a thread that clients may give.
const LONGEST: usize = 128;

/// The name for a message that is to be sent, checked before anything is stored.
pub(crate) async fn for_sending(project: &Project, text: Option<&str>) -> Result<Option<String>> {
    let Some(text) = text else { return Ok(None) };
    let mut bytes = text.bytes();
    let fits = text.len() <= LONGEST
        && bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if !fits {
        return Err(Failure::argument(format!(
            "Invalid thread_id: '{}'. Thread IDs must start with an alphanumeric character and contain only letters, \
             numbers, '.', '_', or '-' (max {LONGEST}). Nothing was sent.",
            shown(text)
        ))
        .with("argument", "thread_id"));
    }
    named(project, text).await.map(Some)
}

/// The name that fmail knows a thread by. The number of a message means the thread which that message is in.
pub(crate) async fn named(project: &Project, text: &str) -> Result<String> {
    let text = text.trim();
    let Some(id) = ids::message(text) else { return Ok(text.into()) };
    match project.overview().letters("peek", json!({"id": id})).await {
        Ok(mut found) => Ok(found.pop().and_then(|letter| letter.message.thread).unwrap_or_else(|| id.to_string())),
        // A thread may be named with a number that is no message's.
        Err(error) if error.kind() == fmail_api::ErrorKind::NotFound => Ok(text.into()),
        Err(error) => Err(error.into()),
    }
}
