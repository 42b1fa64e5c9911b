//! Reaching a peer: connecting, making sure of it, and saying hello.

use std::sync::Arc;
use std::time::Duration;

use fmail_api::{Context, Error, ErrorKind, Hello, Node, Request, Result};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::{HostPort, PeerAddress};
use super::counted::Counted;
use super::end::hello;
use super::link::{Link, brief};
use super::status::Traffic;
use crate::authentication::{Exchange, Nonce, Role, Token};
use crate::conversation::Answer;
use crate::tls::handshake_problem;
use crate::wire::{self, Challenge, Heard, Line, LineReader, heard, outgoing};

/// How many lines a stranger may say before its answer, and how long they may be.
const STRANGERS_LINES: usize = 16;
const STRANGERS_LINE: usize = 64 * 1024;

/// A peer that was reached.
pub enum Dialled {
    /// It knows `hello`, and many requests at a time.
    Greeted(Arc<Link>, Box<Hello>),
    /// It seems to know PROTOCOL.md and nothing else. What it was asked had to be given up, so this is another connection.
    Plain(PlainConnection, Sign),
}

/// By what a peer shows that it does not know `hello`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It said so.
    Refused,
    /// It closed the connection. So does one that is ended or cut off at that moment, and a proxy before one that is not there.
    Closed,
}

/// What came of a hello.
enum Greeting {
    Greeted(Arc<Link>, Box<Hello>),
    Unknown(Sign),
}

/// A connection to a peer that knows PROTOCOL.md and nothing else. Nothing was said on it yet.
pub struct PlainConnection {
    pub lines: LineReader<Reader>,
    pub writer: Writer,
}

pub type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Who dials, and how.
pub struct Dialling<'a> {
    pub to: &'a PeerAddress,
    pub node: &'a Node,
    pub context: &'a Context,
    /// How long it may take until the peer has said hello.
    pub time: Duration,
    /// The longest line that is read.
    pub line_bytes: usize,
    pub traffic: Arc<Traffic>,
}

impl Dialling<'_> {
    /// Connects and says hello.
    pub async fn dial(&self) -> Result<Dialled> {
        let address = &self.to.address;
        let late = || {
            let text = format!("{address} has not answered within {} ms", self.time.as_millis());
            Error::new(ErrorKind::Timeout, text)
        };
        match timeout(self.time, self.greet()).await.map_err(|_| late())?? {
            Greeting::Greeted(link, hello) => Ok(Dialled::Greeted(link, hello)),
            // Where a token is wanted, who does not prove it gets nothing.
            Greeting::Unknown(_) if self.to.token.is_some() => {
                Err(unproved(address, "does not prove that it knows our token"))
            }
            Greeting::Unknown(sign) => {
                let connection = timeout(self.time, self.connect()).await.map_err(|_| late())??;
                Ok(Dialled::Plain(connection, sign))
            }
        }
    }

    /// Says hello, which the peer may not know.
    async fn greet(&self) -> Result<Greeting> {
        let PlainConnection { mut lines, mut writer } = self.connect().await?;
        let usual = lines.limit(STRANGERS_LINE);
        let answer = match &self.to.token {
            Some(token) => self.prove(token, &mut lines, &mut writer).await?,
            None => {
                let line = outgoing::request(self.context, &Request::Hello(hello(self.node)), "hello")?;
                say(&mut writer, &line).await?;
                match hear(&mut lines).await? {
                    Said::Answer(answer) => answer,
                    Said::Refused(error) if error.kind() == ErrorKind::InvalidRequest => {
                        return Ok(Greeting::Unknown(Sign::Refused));
                    }
                    Said::Refused(error) => return Err(self.says(&error)),
                    Said::Closed => return Ok(Greeting::Unknown(Sign::Closed)),
                }
            }
        };
        lines.limit(usual);
        let hello = { answer }.remove("hello").and_then(|hello| serde_json::from_value(hello).ok());
        let hello: Hello = hello.ok_or_else(|| Error::invalid("the peer's `hello` cannot be understood"))?;
        Ok(Greeting::Greeted(Arc::new(Link::new(lines, writer)), Box::new(hello)))
    }

    async fn connect(&self) -> Result<PlainConnection> {
        let address = &self.to.address;
        let unreachable =
            |error: std::io::Error| Error::new(ErrorKind::Unavailable, format!("{address} cannot be reached: {error}"));
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let stream = Counted::new(stream, self.traffic.clone());
        let (reader, writer): (Reader, Writer) = match &self.to.tls {
            Some(believed) => {
                let connector = TlsConnector::from(believed.client()?.0);
                let tls = connector.connect(address.server_name()?, stream).await;
                let tls = tls.map_err(|error| handshake_problem(&address.to_string(), error))?;
                let (reader, writer) = tokio::io::split(tls);
                (Box::new(reader), Box::new(writer))
            }
            None => {
                let (reader, writer) = tokio::io::split(stream);
                (Box::new(reader), Box::new(writer))
            }
        };
        Ok(PlainConnection { lines: LineReader::new(reader, self.line_bytes), writer })
    }

    /// The peer proves the token, then we do; its hello is in the answer.
    async fn prove(&self, token: &Token, lines: &mut LineReader<Reader>, writer: &mut Writer) -> Result<Answer> {
        let address = &self.to.address;
        let project = self.context.project.as_deref().unwrap_or_default();
        let client = Nonce::fresh()?;
        say(writer, &wire::hello_with_nonce(self.context, hello(self.node), &client, token)?).await?;
        let mut answer = match hear(lines).await? {
            Said::Answer(answer) => answer,
            Said::Refused(error) => return Err(self.says(&error)),
            Said::Closed => return Err(closed()),
        };
        let Some((challenge, server)) = Challenge::within(&mut answer) else {
            return Err(unproved(address, "does not prove that it knows our token"));
        };
        let exchange = Exchange { client: &client, server: &server, project };
        if !token.is_proved_by(&challenge.proof, Role::Server, &exchange) {
            return Err(unproved(address, "has another token than we have"));
        }
        say(writer, &wire::auth(&token.proof(Role::Client, &exchange))).await?;
        match hear(lines).await? {
            Said::Answer(answer) => Ok(answer),
            Said::Refused(error) => Err(self.says(&error)),
            Said::Closed => Err(closed()),
        }
    }

    /// What the peer said, with its kind.
    fn says(&self, error: &Error) -> Error {
        Error::new(error.kind(), format!("{} says: {}", self.to.address, brief(error)))
    }
}

enum Said {
    Answer(Answer),
    Refused(Error),
    Closed,
}

/// The answer of somebody who may be anybody.
async fn hear(lines: &mut LineReader<Reader>) -> Result<Said> {
    for _ in 0..STRANGERS_LINES {
        let line = lines
            .next()
            .await
            .map_err(|error| Error::new(ErrorKind::Unavailable, format!("the connection is lost: {error}")));
        match line {
            Ok(Line::Whole(line)) => match heard(&line) {
                Ok(Heard::Answer(answer)) => return Ok(Said::Answer(answer)),
                Ok(Heard::Refused(error)) => return Ok(Said::Refused(error)),
                Ok(_) => {}
                Err(_) => return Err(Error::invalid("the peer sends what is no line of the protocol")),
            },
            Ok(Line::TooLong) => return Err(Error::invalid("the peer sends a line that is longer than the limit")),
            Ok(Line::CutOff | Line::End) | Err(_) => return Ok(Said::Closed),
        }
    }
    Err(Error::invalid("the peer says everything but an answer"))
}

pub(super) async fn say(writer: &mut Writer, line: &str) -> Result<()> {
    let said = async {
        writer.write_all(line.as_bytes()).await?;
        writer.flush().await
    };
    said.await.map_err(|error| Error::new(ErrorKind::Unavailable, format!("the connection is lost: {error}")))
}

fn unproved(address: &HostPort, what: &str) -> Error {
    Error::new(ErrorKind::Denied, format!("{address} {what}"))
        .help("give both sides the same token, or pair them again")
}

fn closed() -> Error {
    Error::new(ErrorKind::Unavailable, "the peer closed the connection")
}
