//! One end of a link.

use std::sync::Arc;

use fmail_api::{
    Client, Context, Digest, DigestRequest, Error, ErrorKind, EventStream, FetchRequest, Hello, HelloRequest,
    ImportManyRequest, ImportRequest, Imported, Message, Node, NodeId, PROTOCOL_VERSION, Records, RecordsRequest,
    RelayRequest, Reply, Request, Response, Result, Since,
};
use futures::future::join_all;

/// One end of a link: the operations of the project there, and on whose behalf they run.
#[derive(Clone)]
pub struct End {
    /// The operations.
    pub client: Arc<dyn Client>,
    /// Who asks.
    pub context: Context,
    /// Which run of which daemon is there.
    pub run: NodeId,
    /// Whether it imports many messages in one request.
    pub many: bool,
}

impl End {
    /// Says hello as `node`.
    pub(super) async fn hello(&self, node: &Node) -> Result<Hello> {
        match self.ask(Request::Hello(hello(node))).await?.head {
            Response::Hello(hello) => Ok(*hello),
            other => Err(unexpected("hello", &other)),
        }
    }

    pub(super) async fn digest(&self, request: DigestRequest) -> Result<Digest> {
        let asked = request.held.len();
        match self.ask(Request::Digest(request)).await?.head {
            Response::Digest(digest) if digest.answers.len() == asked => Ok(digest),
            other => Err(unexpected("digest", &other)),
        }
    }

    /// Messages in their origin form.
    pub(super) async fn fetch(&self, request: FetchRequest) -> Result<EventStream> {
        events("fetch", self.ask(Request::Fetch(request)).await?)
    }

    /// Stores a message that `from` holds.
    pub(super) async fn import(&self, message: Message, from: Option<NodeId>) -> Result<Imported> {
        match self.ask(Request::Import(Box::new(ImportRequest { message, from }))).await?.head {
            Response::Imported(imported) => Ok(imported),
            other => Err(unexpected("import", &other)),
        }
    }

    /// Stores messages that `from` holds, in one request where that is known there. Each has the verdict that it would have
    /// alone: where the request as a whole is refused, because of one of them, each is asked for by itself.
    pub(super) async fn import_all(&self, messages: Vec<Arc<Message>>, from: Option<NodeId>) -> Vec<Result<Imported>> {
        if self.many && messages.len() > 1 {
            match self.import_many(&messages, from).await {
                Ok(verdicts) => return verdicts,
                Err(error) if refuses(error.kind()) => {}
                Err(error) => return messages.iter().map(|_| Err(error.clone())).collect(),
            }
        }
        join_all(messages.into_iter().map(|message| self.import(Arc::unwrap_or_clone(message), from))).await
    }

    async fn import_many(&self, messages: &[Arc<Message>], from: Option<NodeId>) -> Result<Vec<Result<Imported>>> {
        let request =
            ImportManyRequest { messages: messages.iter().map(|message| Message::clone(message)).collect(), from };
        match self.ask(Request::ImportMany(request)).await?.head {
            Response::ImportedMany(verdicts) if verdicts.len() == messages.len() => {
                Ok(verdicts.into_iter().map(Result::from).collect())
            }
            other => Err(unexpected("import_many", &other)),
        }
    }

    pub(super) async fn records(&self, request: RecordsRequest) -> Result<Records> {
        match self.ask(Request::Records(request)).await?.head {
            Response::Records(records) => Ok(records),
            other => Err(unexpected("records", &other)),
        }
    }

    /// What arrives here from now on and is not known to be at `to`.
    pub(super) async fn relay(&self, since: Option<Since>, to: Option<NodeId>) -> Result<EventStream> {
        events("relay", self.ask(Request::Relay(RelayRequest { since, to })).await?)
    }

    async fn ask(&self, request: Request) -> Result<Reply> {
        self.client.call(&self.context, request).await
    }
}

/// Whether an error says that a message, or a request, will never be taken as it is.
pub(super) fn refuses(kind: ErrorKind) -> bool {
    use ErrorKind::{Conflict, InvalidAgent, InvalidRequest, InvalidTopic, NotFound, TooLarge};
    matches!(kind, InvalidRequest | InvalidTopic | InvalidAgent | TooLarge | Conflict | NotFound)
}

/// The hello of a host that relays.
pub(super) fn hello(node: &Node) -> HelloRequest {
    let version = Some(env!("CARGO_PKG_VERSION").to_string());
    HelloRequest { version, protocol: Some(PROTOCOL_VERSION), node: Some(node.clone()) }
}

fn events(operation: &str, reply: Reply) -> Result<EventStream> {
    reply.events.ok_or_else(|| unexpected(operation, &reply.head))
}

fn unexpected(operation: &str, _answer: &Response) -> Error {
    Error::internal(format!("the answer to `{operation}` is none that was asked for"))
        .help("compare the versions of both sides")
}
