//! A client's connection to a daemon, without any runtime: a `send` must cost little more than its process.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fmail_api::{Context, Error, ErrorKind, Event, Hello, HelloRequest, PROTOCOL_VERSION, Request, Result};
use serde_json::{Map, Value};

use crate::remote::{ANSWER, GREETING};
use crate::unix::{SOCKET, SocketPath};
use crate::wire::{Heard, heard, outgoing};

/// How long a connection may take. On one machine it takes microseconds or fails at once.
pub(crate) const CONNECT: Duration = Duration::from_millis(250);
/// A stream that says nothing for so long is asked whether anybody is there. A daemon says `ping` before that unless it was
/// told otherwise: a ping costs it a fraction of a question, and a thousand idle watches are to cost it next to nothing.
const QUIET: Duration = Duration::from_secs(6);
/// How long the answer to that may take: who is stopped or stuck is lost after nine seconds.
const SIGN_OF_LIFE: Duration = Duration::from_secs(3);
/// A daemon that knows only PROTOCOL.md cannot be asked. It may say `ping`; one that says nothing for so long is lost.
const SILENCE: Duration = Duration::from_secs(60);

/// Where a daemon may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// The socket in this `.fmail/`.
    Unix(PathBuf),
    /// This address.
    Tcp(SocketAddr),
}

/// What stands in the line of an answer.
pub type Answer = Map<String, Value>;

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// The daemon said no. Nothing was done.
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
}

impl Conversation {
    /// Connects, if anybody is there.
    pub fn open(endpoint: &Endpoint) -> Option<Conversation> {
        let stream = match endpoint {
            Endpoint::Unix(directory) => Stream::Unix(connect_unix(directory)?),
            Endpoint::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, CONNECT).ok()?;
                stream.set_nodelay(true).ok()?;
                Stream::Tcp(stream)
            }
        };
        Some(Conversation { stream: BufReader::new(stream), line: Vec::new(), question: None })
    }

    /// How long to wait for a line before the daemon counts as lost.
    pub fn wait(&mut self, time: Duration) -> Result<(), Failure> {
        let stream = self.stream.get_ref();
        match stream {
            Stream::Unix(stream) => stream.set_read_timeout(Some(time)).and(stream.set_write_timeout(Some(time))),
            Stream::Tcp(stream) => stream.set_read_timeout(Some(time)).and(stream.set_write_timeout(Some(time))),
        }
        .map_err(lost)
    }

    /// Says hello; nothing when the daemon knows only PROTOCOL.md.
    pub fn hello(&mut self, context: &Context) -> Result<Option<Hello>, Failure> {
        self.tell(context, &hello_request(), "hello")?;
        self.hear_hello(context)
    }

    /// Asks after a hello, in one write and so in one round trip. The answer may be a refusal; who refused it is known.
    /// The daemon has to greet at once, and may take longer over what it was asked.
    pub fn hello_and_ask(
        &mut self,
        context: &Context,
        request: &Request,
    ) -> Result<(Option<Hello>, Result<Answer>), Failure> {
        let refused = Failure::Refused;
        let mut lines = outgoing::request(context, &hello_request(), "hello").map_err(refused)?;
        lines.push_str(&outgoing::request(context, request, "1").map_err(refused)?);
        self.wait(GREETING)?;
        self.write(&lines)?;
        let hello = self.hear_hello(context)?;
        self.wait(ANSWER)?;
        match self.hear_answer() {
            Ok(answer) => Ok((hello, Ok(answer))),
            Err(Failure::Refused(error)) => Ok((hello, Err(error))),
            Err(lost) => Err(lost),
        }
    }

    /// Asks, and waits for the answer.
    pub fn ask(&mut self, context: &Context, request: &Request) -> Result<Answer, Failure> {
        self.tell(context, request, "1")?;
        self.hear_answer()
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
        self.stream.get_ref().try_clone().ok().map(Hangup)
    }

    fn hear_hello(&mut self, context: &Context) -> Result<Option<Hello>, Failure> {
        match self.hear_answer() {
            Ok(mut answer) => {
                let hello = answer.remove("hello").and_then(|hello| serde_json::from_value(hello).ok());
                let hello = hello.ok_or_else(|| lost(io::Error::other("its `hello` cannot be understood")))?;
                self.question = outgoing::request(context, &hello_request(), "there").ok();
                Ok(Some(hello))
            }
            // An unknown command: a daemon that knows PROTOCOL.md and nothing else.
            Err(Failure::Refused(error)) if error.kind() == ErrorKind::InvalidRequest => Ok(None),
            Err(other) => Err(other),
        }
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

    fn tell(&mut self, context: &Context, request: &Request, req_id: &str) -> Result<(), Failure> {
        let line = outgoing::request(context, request, req_id).map_err(Failure::Refused)?;
        self.write(&line)
    }

    fn write(&mut self, lines: &str) -> Result<(), Failure> {
        self.stream.get_mut().write_all(lines.as_bytes()).map_err(lost)
    }
}

/// Ends a connection that another thread reads, when dropped.
pub struct Hangup(Stream);

impl Drop for Hangup {
    fn drop(&mut self) {
        // A connection that is gone already needs no end.
        let _ = match &self.0 {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

/// Asks for the file first: where there is none, nobody can listen, and that is the common case.
fn connect_unix(directory: &Path) -> Option<UnixStream> {
    if !directory.join(SOCKET).exists() {
        return None;
    }
    SocketPath::within(directory).and_then(|socket| socket.connect()).ok()
}

fn hello_request() -> Request {
    let version = Some(env!("CARGO_PKG_VERSION").to_string());
    Request::Hello(HelloRequest { version, protocol: Some(PROTOCOL_VERSION) })
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

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn try_clone(&self) -> io::Result<Stream> {
        match self {
            Stream::Unix(stream) => stream.try_clone().map(Stream::Unix),
            Stream::Tcp(stream) => stream.try_clone().map(Stream::Tcp),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(buffer),
            Stream::Tcp(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
