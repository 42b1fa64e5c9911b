//! The resources, one file each, and what can be heard about them.

mod agents;
mod inbox;
mod thread;
mod uri;

use fmail_api::{AgentName, Target};
use rmcp::model::{ErrorCode, ErrorData, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use crate::errors::{Failure, Kind, Result, shown};
use crate::revision::Revision;
use crate::visit::{Project, Visit};
use crate::{names, threads};
use uri::Address;

/// The form of every resource.
const JSON: &str = "application/json";

/// So many projects are listed. Whoever has more knows them by name.
const LISTED: usize = 100;

/// Reads a resource.
pub(crate) async fn read(visit: &Visit, uri: &str) -> Result<ReadResourceResult> {
    let address = Address::parse(uri)?;
    let content = match &*address.kind {
        "agents" => agents::read(&project(visit, &address).await?).await?,
        "inbox" if !address.identifier.is_empty() => inbox::read(&project(visit, &address).await?, &address).await?,
        "thread" if !address.identifier.is_empty() => thread::read(&project(visit, &address).await?, &address).await?,
        _ => return Err(unknown(uri)),
    };
    let contents = ResourceContents::text(content.to_string(), uri).with_mime_type(JSON);
    Ok(ReadResourceResult::new(vec![contents]))
}

fn unknown(uri: &str) -> Failure {
    Failure::new(Kind::UnknownResource, format!("Unknown resource: '{}'", shown(uri)))
}

/// The project that an address means.
async fn project(visit: &Visit, address: &Address) -> Result<Project> {
    let candidates = address.projects();
    let mut first = None;
    for candidate in &candidates {
        match visit.project(candidate).await {
            Ok(project) => return Ok(project),
            Err(failure) if matches!(failure.kind(), Kind::ProjectNotFound | Kind::InvalidProjectKey) => {
                first.get_or_insert(failure);
            }
            Err(failure) => return Err(failure),
        }
    }
    match first {
        Some(failure) => Err(failure),
        None => visit.only_project(&format!("{} resource", address.kind)).await,
    }
}

/// What a client can hear about a resource.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    /// The mail of an agent.
    Inbox(AgentName),
    /// A conversation.
    Thread(String),
    /// Who is there, and how much they have not read.
    Agents,
}

impl Subject {
    /// What an address is about, if there is such a thing.
    pub(crate) async fn of(visit: &Visit, uri: &str) -> Result<(Project, Subject)> {
        let address = Address::parse(uri)?;
        if !matches!(&*address.kind, "agents" | "inbox" | "thread") {
            return Err(unknown(uri));
        }
        let project = project(visit, &address).await?;
        let subject = match &*address.kind {
            "agents" => Subject::Agents,
            "inbox" => Subject::Inbox(names::known(&project, "agent", &address.identifier).await?.name),
            _ => Subject::Thread(threads::named(&project, &address.identifier).await?),
        };
        Ok((project, subject))
    }

    /// Whether a message changes it; nothing where only a look at the thread can tell.
    pub(crate) fn concerns(&self, message: &fmail_api::Message) -> Option<bool> {
        match self {
            Subject::Agents => Some(true),
            Subject::Inbox(agent) => Some(message.targets().contains(&Target::Agent(agent.clone()))),
            Subject::Thread(_) if message.extra.contains_key(crate::rows::BCC_OF) => Some(false),
            Subject::Thread(name) => match (&message.thread, message.reply_to) {
                (Some(thread), _) => Some(thread == name),
                (None, None) => Some(message.id.to_string() == *name),
                (None, Some(_)) => None,
            },
        }
    }
}

/// The resources that can be named without knowing more.
pub(crate) async fn listed(visit: &Visit) -> Result<Vec<Resource>> {
    let hosted = visit.backend.hosted().await?;
    let about = |project: &fmail_api::HostedProject| {
        Resource::new(format!("resource://agents/{}", project.slug), format!("agents of {}", project.slug))
            .with_description(format!("The agents of {}", project.key))
            .with_mime_type(JSON)
    };
    Ok(hosted.iter().take(LISTED).map(about).collect())
}

/// The forms of the addresses.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let template = |uri: &str, name: &str, about: &str| {
        ResourceTemplate::new(uri, name).with_description(about).with_mime_type(JSON)
    };
    vec![
        template(
            "resource://agents/{project_key}",
            "agents",
            "The agents of a project (slug or URL-encoded absolute path), most recently active first, with unread counts.",
        ),
        template(
            "resource://inbox/{agent_name}{?project,limit,include_bodies,unread_only,urgent_only,since_ts}",
            "inbox",
            "An agent's messages, newest first; reading changes nothing. `project` is the URL-encoded absolute path.",
        ),
        template("resource://thread/{thread_id}{?project,include_bodies}", "thread", "A thread, oldest message first."),
    ]
}

/// The error for a resource that gives no answer. There is no result that a model would read, as tools have it.
pub(crate) fn refusal(failure: &Failure, uri: &str, revision: Revision) -> ErrorData {
    let code = match failure.kind() {
        Kind::InvalidArgument => ErrorCode::INVALID_PARAMS,
        Kind::Operation(_) => ErrorCode::INTERNAL_ERROR,
        _ if revision == Revision::Stateless => ErrorCode::INVALID_PARAMS,
        _ => ErrorCode::RESOURCE_NOT_FOUND,
    };
    ErrorData::new(code, failure.message().to_string(), Some(json!({"uri": uri, "error": failure.object()})))
}
