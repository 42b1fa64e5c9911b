//! One peer: its lines in, our lines out.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{Client, Context, Error, ErrorKind, EventStream, Principal, Reply, Request, Response, Result};
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use futures::{FutureExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::admission::{Admission, Admitted, Door, Keyring, admit};
use crate::callers::Caller;
use crate::lines_out::{Lines, Said};
use crate::wire::{self, Form, Incoming, Line, LineReader, ReqId, Style};
use crate::writer::Writer;

/// What a peer may ask of us at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest line.
    pub line_bytes: usize,
    /// How many requests of one connection run at the same time after `hello`.
    pub requests: usize,
    /// A stream that has nothing to say for so long says `ping`.
    pub ping_after: Duration,
    /// A peer that does not take what we write for so long is cut.
    pub write_timeout: Duration,
    /// How long a peer may take to prove who it is: the TLS handshake, and then the token.
    pub opening: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            line_bytes: 3 * fmail_api::DEFAULT_MAX_MESSAGE_BYTES + 64 * 1024,
            requests: 256,
            ping_after: Duration::from_secs(5),
            write_timeout: Duration::from_secs(30),
            opening: Duration::from_secs(10),
        }
    }
}

/// How many bytes of requests one connection has under way at most, after `hello`.
const UNDER_WAY: usize = 16 * 1024 * 1024;

tokio::task_local! {
    static ONE_AT_A_TIME: ();
}

/// Whether this request came over a connection that says nothing more until it is answered. There is no company to wait for.
pub fn is_one_at_a_time() -> bool {
    ONE_AT_A_TIME.try_with(|()| ()).is_ok()
}

/// Finds the project that a request means.
#[async_trait]
pub trait Route: Send + Sync {
    /// The operations of the project; `named` is what the request says.
    async fn client(&self, named: Option<&str>) -> Result<Arc<dyn Client>>;
}

/// Everything that a connection is served with.
pub struct Service {
    /// Finds projects.
    pub route: Arc<dyn Route>,
    /// What a peer has to prove before it is heard.
    pub admission: Admission,
    /// What peers may ask at most.
    pub limits: Limits,
    /// Turns true when the program wants to end.
    pub shutdown: watch::Receiver<bool>,
}

/// Serves one peer until it goes, or until the program ends.
pub async fn serve<R, W>(
    service: Arc<Service>,
    reader: R,
    writer: W,
    principal: Principal,
    session: String,
    caller: Option<Arc<Caller>>,
) where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let limits = service.limits;
    let mut lines = LineReader::new(reader, limits.line_bytes);
    let writer = Writer::new(writer, limits.write_timeout);
    let mut admitted = None;
    if service.admission.wants_proof() {
        let door = Door::new(&service.admission, caller.as_deref());
        match admit(&mut lines, &writer, door, limits.opening, service.shutdown.clone()).await {
            Ok(Some(proved)) => admitted = Some(proved),
            Ok(None) => return writer.close().await,
            Err(error) => return tracing::debug!(%error, "connection ended before a token was proved"),
        }
    }
    let peer_is = admitted.as_ref().map_or(principal, |admitted| admitted.principal.clone());
    let proved_for = admitted.as_ref().and_then(|admitted| admitted.call.project.clone());
    let key = admitted.as_ref().and_then(|admitted| admitted.key.clone()).zip(service.admission.keys.clone());
    let done = watch::Sender::new(false);
    let peer = Arc::new(Peer { service, writer, principal: peer_is, proved_for, session, caller, done });
    // However a connection ends, it ends for this peer alone; a failed write says that the peer is gone.
    let connection = Connection { peer: peer.clone(), lines, style: Style::Plain };
    let ended = tokio::select! {
        ended = connection.run(admitted) => ended,
        () = withdrawn(key) => peer.refuse(&revoked(), None).await,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
    peer.writer.close().await;
}

/// Resolves when the token by which the peer was let in opens nothing any more; never for who has none with a name.
async fn withdrawn(key: Option<(String, Arc<dyn Keyring>)>) {
    match key {
        Some((key, keys)) => keys.ended(&key).await,
        None => std::future::pending().await,
    }
}

fn revoked() -> Error {
    Error::new(ErrorKind::Denied, "the pairing of these two hosts was revoked")
        .help("`fmail relay invite` on the one host and `fmail relay join` on the other make a new one")
}

struct Connection<R, W> {
    peer: Arc<Peer<W>>,
    lines: LineReader<R>,
    style: Style,
}

impl<R, W> Connection<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    /// Before `hello` one request after the other, as PROTOCOL.md has it; behind it several at a time.
    async fn run(mut self, mut admitted: Option<Admitted>) -> io::Result<()> {
        let mut shutdown = self.peer.service.shutdown.clone();
        while self.style == Style::Plain {
            let (req_id, call) = match admitted.take() {
                Some(Admitted { req_id, call, .. }) => (req_id, call),
                None => {
                    let Some(line) = self.next_line(&mut shutdown).await? else { return Ok(()) };
                    let Some(incoming) = self.peer.understood(line).await? else { return Ok(()) };
                    let Some(accepted) = self.peer.accepted(incoming).await? else { continue };
                    accepted
                }
            };
            let is_hello = matches!(call.request, Request::Hello(_));
            let (form, endless) = (call.form, call.request.is_endless());
            match ONE_AT_A_TIME.scope((), self.peer.run(call)).await {
                Err(error) => self.peer.refuse(&error, req_id.as_ref()).await?,
                Ok(reply) => {
                    let style = if is_hello { Style::Full } else { Style::Plain };
                    self.peer.answer(&reply.head, form, req_id.as_ref(), style).await?;
                    match reply.events {
                        Some(events) if endless => return self.watch(events, req_id.as_ref()).await,
                        Some(events) => self.peer.stream(events, req_id.as_ref(), style, endless).await?,
                        None => {}
                    }
                    self.style = style;
                }
            }
        }
        self.run_many(shutdown).await
    }

    /// Streams until the peer goes. PROTOCOL.md has nothing else on such a connection: a further request is refused, and
    /// the connection closed.
    async fn watch(mut self, events: EventStream, req_id: Option<&ReqId>) -> io::Result<()> {
        let peer = self.peer.clone();
        let further = {
            let stream = peer.stream(events, req_id, Style::Plain, true);
            tokio::pin!(stream);
            let line = tokio::select! {
                done = &mut stream => return done,
                line = self.lines.next() => line?,
            };
            if line == Line::End {
                // The peer has nothing more to say but may still listen. If it is gone altogether, a write tells.
                return tokio::select! {
                    done = &mut stream => done,
                    gone = peer.probe(req_id) => gone,
                };
            }
            line
        };
        tracing::debug!(?further, "a line on a connection that carries a watch");
        let error = Error::invalid("a watch is under way on this connection, and it carries nothing else")
            .help("use another connection, or say `hello` first");
        self.peer.refuse(&error, None).await
    }

    /// Several requests at a time.
    async fn run_many(mut self, mut shutdown: watch::Receiver<bool>) -> io::Result<()> {
        let places = Arc::new(Semaphore::new(self.peer.service.limits.requests));
        // A line of any length is read; many long ones wait for each other.
        let most = UNDER_WAY.max(self.peer.service.limits.line_bytes);
        let bytes = Arc::new(Semaphore::new(most));
        let mut running = Running { peer: self.peer.clone(), tasks: JoinSet::new(), sends: FuturesOrdered::new() };
        loop {
            // A peer that asks for more than it may waits: its lines stay where they are.
            let place = running.meanwhile(places.clone().acquire_owned()).await?;
            let Some(line) = running.meanwhile(self.next_line(&mut shutdown)).await?? else { break };
            let length = if let Line::Whole(line) = &line { line.len().min(most) } else { 0 };
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            let room = running.meanwhile(bytes.clone().acquire_many_owned(length)).await?;
            let Some(incoming) = self.peer.understood(line).await? else { break };
            let Some((req_id, call)) = self.peer.accepted(incoming).await? else { continue };
            running.begin(call, req_id, (place.ok(), room.ok()));
        }
        // The peer has nothing more to ask, or we have to end: what is under way is answered, and streams end.
        self.peer.done.send_replace(true);
        running.finish().await
    }

    /// The next line; nothing when the program ends. What was received before that is still answered.
    async fn next_line(&mut self, shutdown: &mut watch::Receiver<bool>) -> io::Result<Option<Line>> {
        if *shutdown.borrow() {
            return Ok(self.lines.buffered());
        }
        tokio::select! {
            biased;
            line = self.lines.next() => line.map(Some),
            () = raised(shutdown) => Ok(self.lines.buffered()),
        }
    }
}

/// What a request holds while it is under way: its place among the others, and the room of its line.
type Held = (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>);

/// What a peer has under way.
struct Running<W> {
    peer: Arc<Peer<W>>,
    tasks: JoinSet<io::Result<()>>,
    /// Sends are begun and answered in the order in which they came: whoever sends two messages means them in that order.
    /// They need no task each, and answers that are there together go out together.
    sends: FuturesOrdered<BoxFuture<'static, String>>,
}

impl<W: AsyncWrite + Unpin + Send + 'static> Running<W> {
    /// Begins a request.
    fn begin(&mut self, call: wire::Call, req_id: Option<ReqId>, held: Held) {
        let peer = self.peer.clone();
        if !matches!(call.request, Request::Send(_)) {
            self.tasks.spawn(async move {
                let done = peer.run_and_answer(call, req_id.as_ref()).await;
                drop(held);
                done
            });
            return;
        }
        let form = call.form;
        let send = async move {
            let line = match peer.run(call).await {
                Ok(reply) => wire::answer(&reply.head, form, req_id.as_ref(), Style::Full),
                Err(error) => wire::failure(&error, req_id.as_ref()),
            };
            drop(held);
            line
        };
        self.sends.push_back(send.boxed());
    }

    /// Waits for something else, and meanwhile goes on with what is under way.
    async fn meanwhile<T>(&mut self, other: impl Future<Output = T>) -> io::Result<T> {
        tokio::pin!(other);
        loop {
            let lines = tokio::select! {
                biased;
                done = &mut other => return Ok(done),
                lines = self.answers() => lines?,
            };
            // Outside of what may be given up: half a line would be the end of the connection.
            self.peer.writer.write(&lines).await?;
        }
    }

    /// The answers to sends that are there, at least one; an error when the peer cannot be told any more. Dropping the future
    /// loses none.
    async fn answers(&mut self) -> io::Result<String> {
        loop {
            tokio::select! {
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => done.unwrap_or(Ok(()))?,
                Some(mut lines) = self.sends.next(), if !self.sends.is_empty() => {
                    while let Some(Some(line)) = self.sends.next().now_or_never() {
                        lines.push_str(&line);
                    }
                    return Ok(lines);
                }
                else => std::future::pending().await,
            }
        }
    }

    /// Answers all that is under way.
    async fn finish(mut self) -> io::Result<()> {
        while !self.sends.is_empty() {
            let lines = self.answers().await?;
            self.peer.writer.write(&lines).await?;
        }
        while let Some(done) = self.tasks.join_next().await {
            if let Ok(Err(error)) = done {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// The peer, as its requests see it.
struct Peer<W> {
    service: Arc<Service>,
    writer: Writer<W>,
    principal: Principal,
    /// The project for which the token was proved. The connection is good for no other.
    proved_for: Option<String>,
    session: String,
    /// The connection, where other machines can call.
    caller: Option<Arc<Caller>>,
    /// Turns true when the peer will ask for nothing more. After `hello` that ends its streams.
    done: watch::Sender<bool>,
}

impl<W: AsyncWrite + Unpin + Send> Peer<W> {
    /// What a line says; nothing when there will be no more.
    async fn understood(&self, line: Line) -> io::Result<Option<Incoming>> {
        let refused = |error| Ok(Some(Incoming { req_id: None, call: Err(error) }));
        match line {
            Line::Whole(line) => {
                let incoming = wire::parse(&line);
                match &incoming.call {
                    // An agent may ask for the wrong thing; who does not speak the protocol at all is none.
                    // Nor is one that would bring messages and cannot say what they are.
                    Err(error) if !is_object(&line) || is_of_relays(&line) => self.turned_away(error.message()),
                    _ => {}
                }
                Ok(Some(incoming))
            }
            Line::TooLong => {
                let most = self.service.limits.line_bytes;
                let text = format!("the line is longer than {most} bytes, which is the most that is read");
                self.turned_away(&text);
                refused(Error::new(ErrorKind::TooLarge, text))
            }
            Line::CutOff => {
                self.turned_away("its last line has no end");
                self.refuse(&Error::invalid("the last line has no end, so it was not acted on"), None).await?;
                Ok(None)
            }
            Line::End => Ok(None),
        }
    }

    /// The request, unless it was refused.
    async fn accepted(&self, incoming: Incoming) -> io::Result<Option<(Option<ReqId>, wire::Call)>> {
        match incoming.call {
            Ok(call) => Ok(Some((incoming.req_id, call))),
            Err(error) => self.refuse(&error, incoming.req_id.as_ref()).await.map(|()| None),
        }
    }

    fn turned_away(&self, reason: &str) {
        if let Some(caller) = &self.caller {
            caller.turned_away(reason);
        }
    }

    async fn run(&self, call: wire::Call) -> Result<Reply> {
        if self.proved_for.is_some() && self.proved_for != call.project {
            return Err(Error::new(ErrorKind::Denied, "the token was proved for another project")
                .help("use a connection for each project"));
        }
        if matches!(self.principal, Principal::Peer(_))
            && !call.request.is_for_relays()
            && !matches!(call.request, Request::Hello(_))
        {
            return Err(Error::new(ErrorKind::Denied, "a paired host relays, and may ask for nothing else")
                .help("agents use the daemon of their own host"));
        }
        // A command on this machine may look for its daemon here; a host that relays is lost.
        let relays =
            call.request.is_for_relays() || matches!(&call.request, Request::Hello(hello) if hello.node.is_some());
        let client = self.service.route.client(call.project.as_deref()).await.inspect_err(|error| {
            if relays {
                self.turned_away(error.message());
            }
        })?;
        let context = Context {
            agent: call.agent,
            host: call.host,
            project: call.project,
            store: call.store,
            principal: self.principal.clone(),
            session: Some(self.session.clone()),
            deadline: None,
            overview: false,
        };
        client.call(&context, call.request).await
    }

    async fn run_and_answer(&self, call: wire::Call, req_id: Option<&ReqId>) -> io::Result<()> {
        let (form, endless) = (call.form, call.request.is_endless());
        match self.run(call).await {
            Err(error) => self.refuse(&error, req_id).await,
            Ok(reply) => {
                self.answer(&reply.head, form, req_id, Style::Full).await?;
                match reply.events {
                    Some(events) => self.stream(events, req_id, Style::Full, endless).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// Writes a stream to its end. An error is its last line; before `hello` the connection is closed behind it. When the
    /// peer has nothing more to ask, an endless stream is ended, and any other one is an answer that is owed.
    async fn stream(
        &self,
        mut events: EventStream,
        req_id: Option<&ReqId>,
        style: Style,
        endless: bool,
    ) -> io::Result<()> {
        let (mut shutdown, mut done) = (self.service.shutdown.clone(), self.done.subscribe());
        let is_ending = shutdown.clone();
        // Kept over the whole stream: a stream that has much to say is not to set a clock for every line of it.
        let (ending, over) = (raised(&mut shutdown), raised(&mut done));
        tokio::pin!(ending, over);
        let ping_after = self.service.limits.ping_after;
        let mut quiet = Box::pin(sleep(ping_after));
        let mut wrote = Instant::now();
        loop {
            let mut lines = Lines::begin();
            let said = tokio::select! {
                biased;
                said = lines.collect(&mut events, req_id, style) => said,
                () = &mut ending => Said::Failed(ending_error()),
                () = &mut over, if endless => return Ok(()),
                () = &mut quiet => {
                    // The clock was set for the last line that it knows of.
                    let due = wrote + ping_after;
                    if due <= Instant::now() {
                        self.writer.write(&wire::ping(req_id, style)).await?;
                        wrote = Instant::now();
                    }
                    quiet.as_mut().reset(wrote + ping_after);
                    continue;
                }
            };
            match said {
                Said::More => {}
                Said::Failed(error) => {
                    lines.text.push_str(&wire::failure(&error, req_id));
                    self.writer.write(&lines.text).await?;
                    return match style {
                        Style::Plain => Err(io::Error::other("the stream ended with an error")),
                        Style::Full => Ok(()),
                    };
                }
                Said::All => {
                    lines.text.push_str(&wire::end(req_id, style));
                    return self.writer.write(&lines.text).await;
                }
            }
            if !lines.text.is_empty() {
                self.writer.write(&lines.text).await?;
                wrote = Instant::now();
            }
            if *is_ending.borrow() {
                self.refuse(&ending_error(), req_id).await?;
                return Ok(());
            }
        }
    }

    /// Writes to a peer that no longer speaks, to learn whether it still listens. A Unix socket tells at once; over TCP the
    /// first write brings the news and the second one meets it.
    async fn probe(&self, req_id: Option<&ReqId>) -> io::Result<()> {
        self.writer.write(&wire::ping(req_id, Style::Plain)).await?;
        sleep(Duration::from_secs(1)).await;
        self.writer.write(&wire::ping(req_id, Style::Plain)).await?;
        std::future::pending().await
    }

    async fn answer(&self, head: &Response, form: Form, req_id: Option<&ReqId>, style: Style) -> io::Result<()> {
        self.writer.write(&wire::answer(head, form, req_id, style)).await
    }

    async fn refuse(&self, error: &Error, req_id: Option<&ReqId>) -> io::Result<()> {
        self.writer.write(&wire::failure(error, req_id)).await
    }
}

/// Whether a line asks for what only hosts that relay ask for.
fn is_of_relays(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Command {
        cmd: String,
    }
    const OF_RELAYS: [&str; 6] = ["relay", "import", "import_many", "digest", "fetch", "records"];
    serde_json::from_slice::<Command>(line).is_ok_and(|command| OF_RELAYS.contains(&command.cmd.as_str()))
}

fn is_object(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
}

/// Waits until the flag is up. Whoever could raise it is never gone before us.
pub(crate) async fn raised(flag: &mut watch::Receiver<bool>) {
    if flag.wait_for(|up| *up).await.is_err() {
        std::future::pending().await
    }
}

fn ending_error() -> Error {
    Error::new(ErrorKind::Unavailable, "the daemon is ending")
        .help("connect again with `since` set to the last message")
}
