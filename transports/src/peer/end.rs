//! One end of a link.

use std::sync::Arc;

use fmail_api::{
    Client, Context, Digest, DigestRequest, Error, ErrorKind, EventStream, FetchRequest, Hello, HelloRequest,
    ImportManyRequest, ImportRequest, Imported, LinkReport, Message, Node, NodeId, PROTOCOL_VERSION, Records,
    RecordsRequest, RelayRequest, Reply, Request, Response, Result, Since,
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
    /// Says hello as `node`, and how the link does that this end's host is at the other side of.
    pub(super) async fn hello(&self, node: &Node, link: Option<LinkReport>) -> Result<Hello> {
        match self.ask(Request::Hello(HelloRequest { link, ..hello(node) })).await?.head {
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
    HelloRequest { version, protocol: Some(PROTOCOL_VERSION), node: Some(node.clone()), link: None }
}

fn events(operation: &str, reply: Reply) -> Result<EventStream> {
    reply.events.ok_or_else(|| unexpected(operation, &reply.head))
}

fn unexpected(operation: &str, _answer: &Response) -> Error {
    Error::internal(format!("the answer to `{operation}` is none that was asked for"))
        .help("compare the versions of both sides")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use fmail_api::{Draft, MessageId, RefusedReason, Timestamp, Verdict};

    use super::*;

    /// How a peer answers `import_many`.
    #[derive(Clone, Copy)]
    enum Manner {
        Each,
        Refuses(ErrorKind),
        TooFew,
    }

    /// Refuses every second message, and notes what it is asked.
    struct Peer {
        manner: Manner,
        asked: Mutex<Vec<String>>,
    }

    impl Peer {
        fn verdict(message: &Message) -> Imported {
            match message.id.ticks() % 2 {
                0 => Imported::New,
                _ => Imported::Refused(RefusedReason::Deleted),
            }
        }
    }

    #[async_trait]
    impl Client for Peer {
        async fn call(&self, _: &Context, request: Request) -> Result<Reply> {
            let mut asked = self.asked.lock().unwrap();
            match request {
                Request::Import(import) => {
                    asked.push("import".into());
                    Ok(Reply::new(Response::Imported(Peer::verdict(&import.message))))
                }
                Request::ImportMany(import) => {
                    asked.push(format!("import_many {}", import.messages.len()));
                    let mut verdicts: Vec<Verdict> =
                        import.messages.iter().map(|message| Verdict::Imported(Peer::verdict(message))).collect();
                    match self.manner {
                        Manner::Refuses(kind) => return Err(Error::new(kind, "no")),
                        Manner::TooFew => drop(verdicts.pop()),
                        Manner::Each => {}
                    }
                    Ok(Reply::new(Response::ImportedMany(verdicts)))
                }
                _ => Err(Error::unsupported("do that")),
            }
        }
    }

    fn import(many: bool, manner: Manner, count: u64) -> (Vec<Result<Imported>>, Vec<String>) {
        let message = |number: u64| {
            let draft = Draft::new("bob".parse().unwrap(), "task".parse().unwrap(), number);
            Arc::new(draft.into_message(MessageId::from_ticks(number).unwrap(), Timestamp::from_unix(0, 0)))
        };
        let peer = Arc::new(Peer { manner, asked: Mutex::default() });
        let context = Context::local("relay".parse().unwrap());
        let end = End { client: peer.clone(), context, run: NodeId::new(1), many };
        let verdicts = futures::executor::block_on(end.import_all((0..count).map(message).collect(), None));
        let asked = peer.asked.lock().unwrap().clone();
        (verdicts, asked)
    }

    fn are_right(verdicts: &[Result<Imported>]) -> bool {
        let right = |(number, verdict): (usize, &Result<Imported>)| match verdict {
            Ok(Imported::New) => number % 2 == 0,
            Ok(Imported::Refused(RefusedReason::Deleted)) => number % 2 == 1,
            _ => false,
        };
        verdicts.iter().enumerate().all(right)
    }

    #[test]
    fn many_go_in_one_request_and_one_goes_as_it_always_did() {
        let (verdicts, asked) = import(true, Manner::Each, 5);
        assert!(verdicts.len() == 5 && are_right(&verdicts), "{verdicts:?}");
        assert_eq!(asked, ["import_many 5"]);
        assert_eq!(import(true, Manner::Each, 1).1, ["import"]);
    }

    #[test]
    fn an_end_that_does_not_know_many_is_asked_for_each() {
        let (verdicts, asked) = import(false, Manner::Each, 3);
        assert!(verdicts.len() == 3 && are_right(&verdicts), "{verdicts:?}");
        assert_eq!(asked, ["import"; 3]);
    }

    #[test]
    fn where_a_request_is_refused_as_a_whole_each_message_gets_its_own_verdict() {
        for kind in [ErrorKind::InvalidRequest, ErrorKind::TooLarge] {
            let (verdicts, asked) = import(true, Manner::Refuses(kind), 3);
            assert!(verdicts.len() == 3 && are_right(&verdicts), "{verdicts:?}");
            assert_eq!(asked, ["import_many 3", "import", "import", "import"]);
        }
    }

    #[test]
    fn a_failure_or_an_answer_that_cannot_be_right_is_that_of_every_message() {
        for (manner, kind) in [
            (Manner::Refuses(ErrorKind::Unavailable), ErrorKind::Unavailable),
            (Manner::Refuses(ErrorKind::Denied), ErrorKind::Denied),
            (Manner::TooFew, ErrorKind::Internal),
        ] {
            let (verdicts, asked) = import(true, manner, 3);
            assert!(
                verdicts.len() == 3
                    && verdicts.iter().all(|verdict| verdict.as_ref().is_err_and(|error| error.kind() == kind))
            );
            assert_eq!(asked, ["import_many 3"]);
        }
    }
}
