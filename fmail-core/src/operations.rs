//! The one entry: a request goes in, an answer or a stream comes out.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use async_trait::async_trait;
use fmail_api::{Client, Clock, Context, Node, Reply, Request, Response, Result, Store, Timestamp};

use crate::Blocking;
use crate::exchange::Exchange;
use crate::nudges::Nudges;
use crate::recent::Recent;
use crate::shown::shown;
use crate::waiting::Elsewhere;

/// The operations of one project, over its store.
pub struct Operations {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) store_id: String,
    pub(crate) node: Option<Node>,
    pub(crate) nudges: Arc<Nudges>,
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) recent: Recent,
}

impl Operations {
    /// The operations over `store`, with `clock` for everything that asks how long ago something was.
    ///
    /// The store's identity, which `hello` tells, is made up anew each time. A store that outlives the process gets a
    /// lasting one by [`Operations::identified_by`].
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let exchange = Arc::new(Exchange::new(store.clone(), Elsewhere::default()));
        let store_id = format!("{:016x}", random());
        Operations { store, clock, store_id, node: None, nudges: Arc::default(), exchange, recent: Recent::default() }
    }

    /// The time as records of mail keep it: to the millisecond, which is more than any reader needs.
    pub(crate) fn moment(&self) -> Timestamp {
        let nanos = self.clock.now().unix_nanos();
        Timestamp::from_unix_nanos(nanos - nanos.rem_euclid(1_000_000))
    }

    /// The same operations, which name their store like this in `hello`.
    #[must_use]
    pub fn identified_by(mut self, store_id: impl Into<String>) -> Self {
        self.store_id = store_id.into();
        self
    }

    /// The same operations, for who polls their streams on threads that must not wait: `blocking` runs what may. Where
    /// nothing is said, streams read where they are polled.
    #[must_use]
    pub fn reading_on(mut self, blocking: Blocking) -> Self {
        self.exchange = Arc::new(Exchange::new(self.store.clone(), Elsewhere::on(blocking)));
        self
    }

    /// What an operator should know of the exchange with other hosts.
    pub fn remarks(&self) -> Vec<String> {
        let contested = self.exchange.contested.load(std::sync::atomic::Ordering::Relaxed);
        let node = self.node.as_ref().filter(|_| contested);
        let remark = |node: &Node| {
            format!(
                "another host speaks as this one: it has the same node id, {}; agents and reservations of the two hide each \
                 other on third hosts. Remove the file `node` from the user's data directory of fmail on the one that is a \
                 copy, and start its daemon again",
                node.id
            )
        };
        node.map(remark).into_iter().collect()
    }

    /// The same operations, of a host that relays.
    #[must_use]
    pub fn on(mut self, node: Node) -> Self {
        self.node = Some(node);
        self
    }
}

#[async_trait]
impl Client for Operations {
    async fn call(&self, context: &Context, request: Request) -> Result<Reply> {
        let for_agents = !request.is_for_relays();
        let reply = self.run(context, request).await?;
        Ok(if for_agents { shown(reply, &self.exchange) } else { reply })
    }
}

impl Operations {
    async fn run(&self, context: &Context, request: Request) -> Result<Reply> {
        match request {
            Request::Hello(hello) => Ok(Reply::new(Response::Hello(Box::new(self.hello(&hello).await?)))),
            Request::Send(request) => Ok(Reply::new(Response::Sent(Box::new(self.send(context, *request).await?)))),
            Request::Log(request) => self.log(context, request).await,
            Request::Watch(request) => self.watch(context, request).await,
            Request::Relay(request) => self.relay(request).await,
            Request::Topics => Ok(Reply::new(Response::Topics(self.topics().await?))),
            Request::Who(who) => {
                self.who(who).await.map(|(agents, notices)| Reply::new(Response::Agents { agents, notices }))
            }
            Request::Register(request) => Ok(Reply::new(Response::Registered(self.register(context, request).await?))),
            Request::Status(request) => Ok(Reply::new(Response::Status(self.status(context, request).await?))),
            Request::Gc(request) => self.gc(request).await,
            Request::Inbox(request) => self.inbox(context, request).await,
            Request::Count => {
                self.count(context).await.map(|(count, notices)| Reply::new(Response::Counted { count, notices }))
            }
            Request::Read(request) => self.read(context, request).await,
            Request::Mark(request) => Ok(Reply::new(Response::Marked(self.mark(context, request).await?))),
            Request::Reply(request) => Ok(Reply::new(Response::Sent(Box::new(self.reply(context, *request).await?)))),
            Request::Thread(request) => self.thread(context, request).await,
            Request::Receipt(request) => {
                Ok(Reply::new(Response::Receipt(Box::new(self.receipt(context, request).await?))))
            }
            Request::Reserve(request) => Ok(Reply::new(Response::Reserved(self.reserve(context, request).await?))),
            Request::Release(request) => Ok(Reply::new(Response::LeasesChanged(self.release(context, request).await?))),
            Request::Renew(request) => Ok(Reply::new(Response::LeasesChanged(self.renew(context, request).await?))),
            Request::Reservations(request) => Ok(Reply::new(Response::Reservations(self.reservations(request).await?))),
            Request::Search(request) => self.search(context, request).await,
            Request::Nudge(request) => Ok(Reply::new(Response::Nudged { sessions: self.nudge(context, request)? })),
            Request::Import(import) => Ok(Reply::new(Response::Imported(self.import(*import).await?))),
            Request::ImportMany(import) => Ok(Reply::new(Response::ImportedMany(self.import_many(import).await?))),
            Request::Digest(request) => Ok(Reply::new(Response::Digest(self.digest(request).await?))),
            Request::Fetch(request) => self.fetch(request).await,
            Request::Records(request) => Ok(Reply::new(Response::Records(self.records(request).await?))),
            other => Err(fmail_api::Error::invalid(format!("this version does not know the operation {other:?}"))),
        }
    }
}

/// A number that nobody can guess or repeat. The standard library seeds its hash tables from the system's random
/// source; names and identities need no more than that, and no further dependency.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
