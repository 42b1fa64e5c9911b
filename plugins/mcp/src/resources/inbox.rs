//! `resource://inbox/{agent}`: an agent's mail.

use serde_json::{Value, json};

use super::uri::Address;
use crate::arguments::time;
use crate::errors::Result;
use crate::tools::fetch_inbox::{MOST, Wanted};
use crate::visit::Project;

/// The mail, as `fetch_inbox` has it.
pub(super) async fn read(project: &Project, address: &Address) -> Result<Value> {
    let wanted = Wanted {
        agent: &address.identifier,
        limit: address.number("limit", MOST)?.unwrap_or(20),
        unread_only: address.flag("unread_only")?,
        urgent_only: address.flag("urgent_only")?,
        bodies: address.flag("include_bodies")?,
        since: address.parameter("since_ts").map(|text| time("since_ts", text)).transpose()?,
        thread: address.parameter("thread_id"),
    };
    let fetched = wanted.fetch(project).await?;
    Ok(json!({
        "project": project.hosted.key,
        "agent": fetched.agent,
        "count": fetched.rows.len(),
        "messages": fetched.rows,
    }))
}
