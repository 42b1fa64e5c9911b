//! `resource://thread/{thread}`: a conversation, the oldest message first.

use serde_json::{Value, json};

use super::uri::Address;
use crate::errors::Result;
use crate::rows::Rows;
use crate::tools::summarize_thread;
use crate::visit::Project;

/// The messages. Each row has its `reply_to`, by which a client finds the answers to what it sent.
pub(super) async fn read(project: &Project, address: &Address) -> Result<Value> {
    let bodies = address.flag("include_bodies")?;
    let letters = summarize_thread::read(project, &address.identifier).await?;
    let rows = Rows::of(project, letters.iter().map(|letter| &letter.message)).await?;
    let messages: Vec<Value> = letters.iter().map(|letter| rows.message(&letter.message, bodies).into()).collect();
    Ok(json!({"project": project.hosted.key, "thread_id": address.identifier, "messages": messages}))
}
