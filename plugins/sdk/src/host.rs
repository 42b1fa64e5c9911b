//! What a transport or a relay may ask of the host that it runs in.

use std::path::PathBuf;
use std::sync::Arc;

use fmail_abi::{Answer, Calls, Items, Peer, status};
use fmail_api::{Error, HostedProject, Principal, Result, verbs};
use futures::StreamExt;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

/// The host. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    calls: Arc<Calls>,
    peer: Arc<dyn Peer>,
}

/// On whose behalf an operation runs. Of `project` and `root` one is enough, and none if the host serves one project.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Caller {
    /// The id of the project that is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The directory of the project that is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Who acts, if that is not said in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// How the caller proved who it is; nobody in particular without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
    /// Which session of the agent this is; presence is kept per session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// So many milliseconds the caller waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The caller acts for all the agents of the project, and may see every mailbox. Only for what the plugin does itself:
    /// a peer that says so of itself must not be believed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overview: bool,
    /// What ties together what was done for one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl Caller {
    /// Someone in this project.
    pub fn in_project(id: impl Into<String>) -> Self {
        Caller { project: Some(id.into()), ..Caller::default() }
    }

    pub(crate) fn from_context(context: &[u8]) -> Result<Self> {
        if context.is_empty() {
            return Ok(Caller::default());
        }
        serde_json::from_slice(context)
            .map_err(|error| Error::invalid(format!("the context of the call cannot be understood: {error}")))
    }
}

/// The answer to an operation: one object of PROTOCOL.md, and for the operations that stream the objects that follow.
pub struct Reply {
    /// The answer, or what precedes the stream.
    pub head: String,
    /// What follows. An error is its last item. Dropping it gives the operation up.
    pub events: Option<BoxStream<'static, Result<String>>>,
}

impl Host {
    pub(crate) fn new(calls: Arc<Calls>, peer: Arc<dyn Peer>) -> Self {
        Host { calls, peer }
    }

    /// The ids of the projects that are served.
    pub async fn projects(&self) -> Result<Vec<String>> {
        Ok(self.served(false).await?.projects)
    }

    /// Every project that [`find`](Host::find) finds: what is served, and what was found before.
    pub async fn hosted(&self) -> Result<Vec<HostedProject>> {
        Ok(self.served(true).await?.hosted)
    }

    async fn served(&self, hosted: bool) -> Result<verbs::ProjectsAnswer> {
        let asked = verbs::encode(&verbs::ProjectsRequest { hosted });
        let answer = self.calls.call(&self.peer, verbs::method::PROJECTS, b"", &asked).await;
        verbs::decode("the list of projects", &answer.into_result()?)
    }

    /// The project that an absolute path means: [`fmail_api::Host::find`] says which that is. Its `root` then names it in
    /// a [`Caller`].
    pub async fn find(&self, path: impl Into<PathBuf>, create: bool) -> Result<HostedProject> {
        let asked = verbs::encode(&verbs::FindRequest { path: path.into(), create });
        let answer = self.calls.call(&self.peer, verbs::method::FIND, b"", &asked).await;
        verbs::decode("the project", &answer.into_result()?)
    }

    /// Runs one operation: an object of PROTOCOL.md such as `{"cmd":"send","agent":"alice","to":"task","body":"done"}`.
    ///
    /// An operation that failed is an error here, with the code that PROTOCOL.md gives it. Dropping the future gives the
    /// operation up.
    pub async fn request(&self, caller: &Caller, request: &str) -> Result<Reply> {
        let context = verbs::encode(caller);
        let mut items = self.calls.stream(&self.peer, verbs::method::REQUEST, &context, request.as_bytes());
        match items.next().await {
            Some(Ok(head)) => Ok(Reply { head: text(head)?, events: Some(events(items)) }),
            Some(Err(answer)) => Ok(Reply { head: text(answer.into_result()?)?, events: None }),
            None => Err(Error::internal("the host ended a request without an answer")),
        }
    }
}

fn events(items: Items) -> BoxStream<'static, Result<String>> {
    items
        .filter_map(|item| async move {
            match item {
                Ok(item) => Some(text(item)),
                Err(Answer { status: status::OK | status::END, .. }) => None,
                Err(answer) => Some(Err(answer.error())),
            }
        })
        .boxed()
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| Error::internal(format!("the host's answer is not UTF-8: {error}")))
}
