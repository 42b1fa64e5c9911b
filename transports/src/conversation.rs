//! A client's connection to a daemon, without any runtime: a `send` must cost little more than its process.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fmail_api::{Context, Error, ErrorKind, Event, Hello, HelloRequest, Node, PROTOCOL_VERSION, Request, Result};
use serde_json::{Map, Value};

use crate::authentication::{Exchange, Nonce, Role, Token};
use crate::remote::{ANSWER, GREETING};
use crate::stream::{Socket, Stream, Unshaken};
use crate::tls::TlsClient;
use crate::unix::{SOCKET, SocketPath};
use crate::wire::{self, Challenge, Heard, heard, outgoing};

/// How long a connection may take. On one machine it takes microseconds or fails at once.
pub(crate) const CONNECT: Duration = Duration::from_millis(250);
/// A stream that says nothing for so long is asked whether anybody is there. A daemon says `ping` before that unless it was
/// told otherwise: a ping costs it a fraction of a question, and a thousand idle watches are to cost it next to nothing.
const QUIET: Duration = Duration::from_secs(6);
/// How long the answer to that may take: who is stopped or stuck is lost after nine seconds.
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);
/// A daemon that knows only PROTOCOL.md cannot be asked. It may say `ping`; one that says nothing for so long is lost.
const SILENCE: Duration = Duration::from_secs(60);
/// How long and how many the lines of a stranger may be before it has said who it is.
const STRANGERS_LINE: usize = 64 * 1024;
const STRANGERS_LINES: usize = 16;

/// What to do when two sides do not agree on a token.
const SAME_TOKEN: &str = "give both sides the same token: mail.tcp.token_file";
const PAIR_AGAIN: &str = "pair the hosts again: `fmail relay invite` there, `fmail relay join` here";

/// Where a daemon may be.
#[derive(Clone)]
pub enum Endpoint {
    /// The socket in this `.fmail/`.
    Unix(PathBuf),
    /// An address.
    Tcp(TcpEndpoint),
}

/// An address, and how both sides make sure of each other there. Anybody can listen on a port.
#[derive(Clone)]
pub struct TcpEndpoint {
    /// The address.
    pub address: SocketAddr,
    /// What both sides have to prove before anything else is said.
    pub token: Option<Token>,
    /// Whom we believe; without it, TLS is not spoken.
    pub tls: Option<TlsClient>,
    /// How long the connection may take.
    pub patience: Duration,
}

impl From<SocketAddr> for TcpEndpoint {
    fn from(address: SocketAddr) -> Self {
        TcpEndpoint { address, token: None, tls: None, patience: CONNECT }
    }
}

/// What stands in the line of an answer.
pub type Answer = Map<String, Value>;

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// The daemon said no, or did not prove who it is and was asked for nothing. Nothing was done.
    Refused(Error),
    /// The connection was lost, or the daemon said nothing in time: whether it did anything is not known.
    Lost(Error),
}

impl Failure {
    /// The error, whatever it means.
    pub fn into_error(self) -> Error {
        match self {
            Failure::Refused(error) | Failure::Lost(error) => error,
        }
    }
}

/// A connection to a daemon.
pub struct Conversation {
    stream: BufReader<Stream>,
    /// What has come of a line whose end has not.
    line: Vec<u8>,
    /// The line that asks whether the daemon is there, once it has shown that it can be asked several things at a time.
    question: Option<String>,
    /// Where a stranger may listen: the address, and what it has to prove.
    stranger: Option<TcpEndpoint>,
    /// How long to wait for a line.
    patience: Duration,
    /// What the daemon said of itself.
    daemon: Option<Hello>,
    /// Which host this is, for a daemon that has to know.
    node: Option<Node>,
}

impl Conversation {
    /// Connects, if anybody is there.
    pub fn open(endpoint: &Endpoint) -> Option<Conversation> {
        Conversation::connect(endpoint).ok()
    }

    /// The same, with what came in between.
    pub fn connect(endpoint: &Endpoint) -> io::Result<Conversation> {
        let (stream, stranger) = match endpoint {
            Endpoint::Unix(directory) => {
                let stream = connect_unix(directory).ok_or(io::ErrorKind::NotConnected)?;
                (Stream::Unix(stream), None)
            }
            Endpoint::Tcp(tcp) => {
                let socket = TcpStream::connect_timeout(&tcp.address, tcp.patience)?;
                socket.set_nodelay(true)?;
                let stream = match &tcp.tls {
                    Some(client) => Stream::tls(socket, tcp.address, client).map_err(io::Error::other)?,
                    None => Stream::Tcp(socket),
                };
                (stream, Some(tcp.clone()))
            }
        };
        Ok(Conversation {
            stream: BufReader::new(stream),
            line: Vec::new(),
            question: None,
            stranger,
            patience: Duration::MAX,
            daemon: None,
            node: None,
        })
    }

    /// How long to wait for a line before the daemon counts as lost.
    pub fn wait(&mut self, time: Duration) -> Result<(), Failure> {
        self.patience = time;
        self.stream.get_ref().wait(time).map_err(lost)
    }

    /// Tells the daemon which host this is, in the `hello` that comes with a proof.
    pub fn introduce(&mut self, node: Node) {
        self.node = Some(node);
    }

    /// What the daemon said of itself, when it was asked and knew an answer.
    pub fn daemon(&self) -> Option<&Hello> {
        self.daemon.as_ref()
    }

    /// Whether the daemon still has to prove who it is.
    pub fn wants_proof(&self) -> bool {
        self.stranger.as_ref().is_some_and(|stranger| stranger.token.is_some() || stranger.tls.is_some())
    }

    /// Says hello; nothing when the daemon knows only PROTOCOL.md. Where a token or TLS is wanted, the daemon has proved
    /// itself when this succeeds, and has learned nothing but the hello when it fails.
    pub fn hello(&mut self, context: &Context) -> Result<Option<Hello>, Failure> {
        let hello = match self.stranger.clone() {
            Some(stranger) => self.make_sure(context, &stranger)?,
            None => {
                self.tell(context, &Request::Hello(hello_request()), "hello")?;
                self.hear_answer().and_then(greeted).or_else(knows_only_the_document)?
            }
        };
        self.stranger = None;
        Ok(self.acquainted(context, hello))
    }

    /// Keeps what the daemon said of itself. One that knows `hello` can be asked at any time whether it is there.
    fn acquainted(&mut self, context: &Context, hello: Option<Hello>) -> Option<Hello> {
        if hello.is_some() {
            self.question = outgoing::request(context, &Request::Hello(hello_request()), "there").ok();
        }
        self.daemon = hello.clone();
        hello
    }

    fn make_sure(&mut self, context: &Context, stranger: &TcpEndpoint) -> Result<Option<Hello>, Failure> {
        self.stream.get_mut().shake_hands().map_err(|unshaken| match unshaken {
            Unshaken::Refused(error) => Failure::Refused(error),
            Unshaken::Lost(error) => lost(error),
        })?;
        match &stranger.token {
            Some(token) => self.prove(context, token, stranger.address),
            None => {
                self.tell(context, &Request::Hello(hello_request()), "hello")?;
                self.hear_stranger().and_then(greeted).or_else(knows_only_the_document)
            }
        }
    }

    /// The daemon proves the token, then we do; its hello is the answer.
    fn prove(&mut self, context: &Context, token: &Token, address: SocketAddr) -> Result<Option<Hello>, Failure> {
        let project = context.project.as_deref().unwrap_or_default();
        let otherwise = if token.name().is_some() { PAIR_AGAIN } else { SAME_TOKEN };
        let client = Nonce::fresh().map_err(Failure::Refused)?;
        let hello = HelloRequest { node: self.node.clone(), ..hello_request() };
        let line = wire::hello_with_nonce(context, hello, &client, token).map_err(Failure::Refused)?;
        self.write(&line)?;
        let mut answer = match self.hear_stranger() {
            Ok(answer) => answer,
            Err(Failure::Refused(error)) => {
                let said = Error::new(ErrorKind::Denied, format!("the daemon on {address} says: {error}"));
                return Err(Failure::Refused(said.help(error.help_text().unwrap_or(otherwise))));
            }
            Err(lost) => return Err(lost),
        };
        let Some((challenge, server)) = Challenge::within(&mut answer) else {
            return Err(unproved(address, "does not prove that it knows our token", otherwise));
        };
        let exchange = Exchange { client: &client, server: &server, project };
        if !token.is_proved_by(&challenge.proof, Role::Server, &exchange) {
            return Err(unproved(address, "has another token than we have", otherwise));
        }
        self.write(&wire::auth(&token.proof(Role::Client, &exchange)))?;
        self.hear_answer().and_then(greeted)
    }

    /// Asks after a hello, in one write and so in one round trip. The answer may be a refusal; who refused it is known.
    /// The daemon has to greet at once, and may take longer over what it was asked.
    ///
    /// A stranger is made sure of first, which takes its round trips.
    pub fn hello_and_ask(
        &mut self,
        context: &Context,
        request: &Request,
    ) -> Result<(Option<Hello>, Result<Answer>), Failure> {
        self.wait(GREETING)?;
        let hello = if self.stranger.is_some() {
            let hello = self.hello(context)?;
            self.tell(context, request, "1")?;
            hello
        } else {
            let refused = Failure::Refused;
            let hello = Request::Hello(hello_request());
            let mut lines = outgoing::request(context, &hello, "hello").map_err(refused)?;
            lines.push_str(&outgoing::request(context, request, "1").map_err(refused)?);
            self.write(&lines)?;
            let hello = self.hear_answer().and_then(greeted).or_else(knows_only_the_document)?;
            self.acquainted(context, hello)
        };
        self.wait(ANSWER)?;
        match self.hear_answer() {
            Ok(answer) => Ok((hello, Ok(answer))),
            Err(Failure::Refused(error)) => Ok((hello, Err(error))),
            Err(lost) => Err(lost),
        }
    }

    /// Asks, and waits for the answer. A stranger is made sure of first.
    pub fn ask(&mut self, context: &Context, request: &Request) -> Result<Answer, Failure> {
        if self.stranger.is_some() {
            self.hello(context)?;
        }
        self.tell(context, request, "1")?;
        self.hear_answer()
    }

    /// Asks, and waits for the answer as long as the daemon shows that it is there: for who has nobody else to ask. A
    /// stranger is made sure of first.
    pub fn ask_at_length(&mut self, context: &Context, request: &Request) -> Result<Answer, Failure> {
        if self.stranger.is_some() {
            self.hello(context)?;
        }
        self.tell(context, request, "1")?;
        self.listen()?;
        loop {
            match self.hear_or_ask()? {
                // The answer to our question whether it is there is not the one that we wait for.
                Heard::Answer(answer) if answer.get("req_id").is_none_or(|req_id| req_id != "there") => {
                    return Ok(answer);
                }
                Heard::Refused(error) => return Err(Failure::Refused(error)),
                Heard::Answer(_) | Heard::Event(_) | Heard::End | Heard::Other => {}
            }
        }
    }

    /// From here on a stream is heard, which may have nothing to say for a long time.
    pub fn listen(&mut self) -> Result<(), Failure> {
        self.wait(if self.question.is_some() { QUIET } else { SILENCE })
    }

    /// The next event of a stream; nothing at its end.
    pub fn next_event(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            match self.hear_or_ask()? {
                Heard::Event(event) => return Ok(Some(event)),
                Heard::End => return Ok(None),
                Heard::Refused(error) => return Err(Failure::Refused(error)),
                Heard::Answer(_) | Heard::Other => {}
            }
        }
    }

    /// A handle that ends the connection from another thread.
    pub fn hangup(&self) -> Option<Hangup> {
        self.stream.get_ref().socket().ok().map(Hangup)
    }

    fn hear_answer(&mut self) -> Result<Answer, Failure> {
        loop {
            match self.hear()? {
                Heard::Answer(answer) => return Ok(answer),
                Heard::Refused(error) => return Err(Failure::Refused(error)),
                Heard::Event(_) | Heard::End | Heard::Other => {}
            }
        }
    }

    fn hear(&mut self) -> Result<Heard, Failure> {
        let line = self.read_line().map_err(lost)?;
        heard(&line).map_err(Failure::Lost)
    }

    /// The next line of a stream. After some silence the daemon is asked whether it is there; whatever it says then will do.
    fn hear_or_ask(&mut self) -> Result<Heard, Failure> {
        let line = match (self.read_line(), self.question.clone()) {
            (Err(error), Some(question)) if is_silence(&error) => {
                self.wait(SIGN_OF_LIFE)?;
                self.write(&question)?;
                let line = self.read_line().map_err(lost)?;
                self.listen()?;
                line
            }
            (line, _) => line.map_err(lost)?,
        };
        heard(&line).map_err(Failure::Lost)
    }

    /// A line without its end. When the time is over in the middle of one, the next call goes on with it.
    fn read_line(&mut self) -> io::Result<Vec<u8>> {
        self.stream.read_until(b'\n', &mut self.line)?;
        let mut line = std::mem::take(&mut self.line);
        match line.pop() {
            Some(b'\n') => Ok(line),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// The answer of somebody who may be anybody: within our patience in all, in a line of bounded length, and without more
    /// than a few lines before it. Otherwise a stranger could hold us for ever, one byte at a time.
    fn hear_stranger(&mut self) -> Result<Answer, Failure> {
        let end = Instant::now().checked_add(self.patience);
        for _ in 0..STRANGERS_LINES {
            match heard(&self.stranger_line(end)?).map_err(Failure::Lost)? {
                Heard::Answer(answer) => {
                    self.wait(self.patience)?;
                    return Ok(answer);
                }
                Heard::Refused(error) => return Err(Failure::Refused(tamed(&error))),
                Heard::Event(_) | Heard::End | Heard::Other => {}
            }
        }
        Err(lost(io::Error::other("it says everything but an answer")))
    }

    fn stranger_line(&mut self, end: Option<Instant>) -> Result<Vec<u8>, Failure> {
        let mut line = Vec::new();
        loop {
            if let Some(end) = end {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(lost(io::ErrorKind::TimedOut.into()));
                }
                self.stream.get_ref().wait(left).map_err(lost)?;
            }
            let read = self.stream.fill_buf().map_err(lost)?;
            let (count, whole) = match read.iter().position(|byte| *byte == b'\n') {
                Some(place) => (place + 1, true),
                None => (read.len(), false),
            };
            if count == 0 {
                return Err(lost(io::ErrorKind::UnexpectedEof.into()));
            }
            line.extend_from_slice(&read[..count]);
            self.stream.consume(count);
            if whole {
                line.pop();
                return Ok(line);
            }
            if line.len() > STRANGERS_LINE {
                return Err(lost(io::Error::other("its answer is too long")));
            }
        }
    }

    fn tell(&mut self, context: &Context, request: &Request, req_id: &str) -> Result<(), Failure> {
        let line = outgoing::request(context, request, req_id).map_err(Failure::Refused)?;
        self.write(&line)
    }

    fn write(&mut self, lines: &str) -> Result<(), Failure> {
        let stream = self.stream.get_mut();
        stream.write_all(lines.as_bytes()).and_then(|()| stream.flush()).map_err(lost)
    }
}

/// Ends a connection that another thread reads, when dropped.
pub struct Hangup(Socket);

impl Drop for Hangup {
    fn drop(&mut self) {
        // A connection that is gone already needs no end.
        let _ = self.0.shut_down();
    }
}

/// Asks for the file first: where there is none, nobody can listen, and that is the common case.
fn connect_unix(directory: &Path) -> Option<UnixStream> {
    if !directory.join(SOCKET).exists() {
        return None;
    }
    SocketPath::within(directory).and_then(|socket| socket.connect()).ok()
}

fn hello_request() -> HelloRequest {
    let version = Some(env!("CARGO_PKG_VERSION").to_string());
    HelloRequest { version, protocol: Some(PROTOCOL_VERSION), ..HelloRequest::default() }
}

/// The hello in an answer.
fn greeted(mut answer: Answer) -> Result<Option<Hello>, Failure> {
    let hello = answer.remove("hello").and_then(|hello| serde_json::from_value(hello).ok());
    hello.map(Some).ok_or_else(|| lost(io::Error::other("its `hello` cannot be understood")))
}

/// An unknown command: a daemon that knows PROTOCOL.md and nothing else.
fn knows_only_the_document(failure: Failure) -> Result<Option<Hello>, Failure> {
    match failure {
        Failure::Refused(error) if error.kind() == ErrorKind::InvalidRequest => Ok(None),
        other => Err(other),
    }
}

/// A listener that may be anybody's. It gets nothing.
fn unproved(address: SocketAddr, what: &str, help: &str) -> Failure {
    let error = Error::new(ErrorKind::Denied, format!("the daemon on {address} {what}"));
    Failure::Refused(error.help(help))
}

/// What a stranger says is shown to people: at most a few lines of it, and nothing that a terminal would act on.
fn tamed(error: &Error) -> Error {
    let harmless = |c: char| if c.is_control() { '?' } else { c };
    let tame = |text: &str| text.chars().take(300).map(harmless).collect::<String>();
    let tamed = Error::new(error.kind(), tame(error.message()));
    match error.help_text() {
        Some(help) => tamed.help(tame(help)),
        None => tamed,
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn lost(error: io::Error) -> Failure {
    let why = match error.kind() {
        _ if is_silence(&error) => "it did not answer in time".to_string(),
        io::ErrorKind::UnexpectedEof => "it closed the connection".to_string(),
        _ => error.to_string(),
    };
    Failure::Lost(Error::new(ErrorKind::Unavailable, format!("the connection to forged was lost: {why}")))
}
