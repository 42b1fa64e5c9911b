//! `resource://agents/{project}`: who is there.

use std::cmp::Reverse;

use fmail_api::{AgentView, Notice};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use crate::errors::Result;
use crate::rows;
use crate::visit::{Project, taken};

/// So many mailboxes are counted at the same time.
const AT_ONCE: usize = 8;

/// The agents, most recently active first, each with how much it has not read.
pub(super) async fn read(project: &Project) -> Result<Value> {
    let mut answer = project.overview().run("who", json!({})).await?;
    let mut views: Vec<AgentView> = taken(&mut answer, "agents")?;
    let notices: Vec<Notice> = taken(&mut answer, "notices").unwrap_or_default();
    views.sort_by_key(|view| (Reverse(view.last_seen), Reverse(view.first_seen), view.name.clone()));
    // Put together first: the compiler takes the stream of a closure's futures over references for one that cannot be sent.
    let counts: Vec<_> = views.iter().map(|view| counted(project, view)).collect();
    let agents: Vec<Value> = stream::iter(counts).buffered(AT_ONCE).try_collect().await?;
    let mut content = json!({
        "project": {"slug": project.hosted.slug, "human_key": project.hosted.key},
        "agents": agents,
    });
    if !notices.is_empty() {
        content["notices"] = json!(notices);
    }
    Ok(content)
}

async fn counted(project: &Project, view: &AgentView) -> Result<Value> {
    let made_up = view.name.as_str().strip_prefix("anon-").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
    // A caller without a name has no inbox.
    let unread: u64 = match made_up {
        true => 0,
        false => taken(&mut project.desk(&view.name).run("count", json!({})).await?, "unread")?,
    };
    let mut row = rows::agent(project, view);
    row.insert("unread_count".into(), unread.into());
    Ok(row.into())
}
