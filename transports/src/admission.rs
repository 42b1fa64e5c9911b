//! Letting in who proves a token, before anything else is heard.
//!
//! A listener may know one token that everybody proves, and a [`Keyring`] of named ones: those of the hosts that were
//! paired with this one. Which of them a client will prove it tells by the name, in its `hello`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fmail_api::{Error, ErrorKind, NodeId, Principal, Request, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::authentication::{Exchange, Nonce, Role, Token};
use crate::callers::Caller;
use crate::connection::raised;
use crate::wire::{self, Call, Line, LineReader, Opening, ReqId};
use crate::writer::Writer;

/// The longest line of somebody who has proved nothing yet.
const LINE_BYTES: usize = 16 * 1024;

/// The named tokens that a daemon knows. What it says is asked anew for each connection, so that a token which is made or
/// withdrawn counts at once.
#[async_trait]
pub trait Keyring: Send + Sync {
    /// The token with this name, for this project; or why it opens nothing.
    async fn token(&self, key: &str, project: &str) -> Result<Token>;
    /// The token was proved by a host that calls itself so, and says that it has this id. Gives the peer's name here; an error
    /// refuses it all the same.
    async fn proved(&self, key: &str, host: Option<&str>, node: Option<NodeId>) -> Result<String>;
    /// Resolves when the token opens nothing any more: who proved it is cut.
    async fn ended(&self, key: &str);
}

/// Whom a listener lets in.
#[derive(Clone, Default)]
pub struct Admission {
    /// What everybody proves who has no key.
    pub token: Option<Token>,
    /// What paired hosts prove.
    pub keys: Option<Arc<dyn Keyring>>,
}

impl Admission {
    /// Whether nobody is heard who has proved nothing.
    pub fn wants_proof(&self) -> bool {
        self.token.is_some() || self.keys.is_some()
    }
}

/// A peer that has proved a token: its `hello`, which is answered now.
pub struct Admitted {
    pub req_id: Option<ReqId>,
    pub call: Call,
    pub principal: Principal,
    /// The name of its token, if it has one.
    pub key: Option<String>,
}

/// Hears a peer until it has proved a token. Nothing when it goes, when the time is over or when the program ends.
///
/// Everything but `hello` and `auth` is refused, line by line, so that a client of PROTOCOL.md gets its error as it would
/// get any other.
pub async fn admit<R, W>(
    lines: &mut LineReader<R>,
    writer: &Writer<W>,
    mut door: Door<'_>,
    time: Duration,
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<Option<Admitted>>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let usual = lines.limit(LINE_BYTES);
    let heard = async {
        loop {
            let said = match lines.next().await? {
                Line::Whole(line) => door.hear(&line).await,
                Line::TooLong => Said::Answer(wire::failure(&door.refused(door.wanted()), None)),
                Line::CutOff | Line::End => return Ok(None),
            };
            match said {
                Said::Answer(line) => writer.write(&line).await?,
                Said::Proved(admitted) => return Ok(Some(*admitted)),
            }
        }
    };
    let admitted = tokio::select! {
        heard = timeout(time, heard) => heard,
        () = raised(&mut shutdown) => return Ok(None),
    };
    lines.limit(usual);
    match admitted {
        Ok(admitted) => admitted,
        Err(_) => {
            let error = Error::new(ErrorKind::Denied, format!("the token was not proved within {} s", time.as_secs()));
            writer.write(&wire::failure(&error, None)).await?;
            Ok(None)
        }
    }
}

/// What is known of a peer that has proved nothing yet.
pub struct Door<'a> {
    admission: &'a Admission,
    caller: Option<&'a Caller>,
    asked: Option<Asked>,
}

/// A `hello` that got its challenge.
struct Asked {
    call: Call,
    project: String,
    token: Token,
    client: Nonce,
    server: Nonce,
}

enum Said {
    Answer(String),
    Proved(Box<Admitted>),
}

impl<'a> Door<'a> {
    pub fn new(admission: &'a Admission, caller: Option<&'a Caller>) -> Self {
        Door { admission, caller, asked: None }
    }

    /// Somebody who proves nothing is refused; that is noted.
    fn refused(&self, error: Error) -> Error {
        if let Some(caller) = self.caller {
            caller.turned_away(error.message());
        }
        error
    }

    async fn hear(&mut self, line: &[u8]) -> Said {
        let Opening { req_id, nonce, key, proof, call } = wire::opening(line);
        let answer = match (call, proof) {
            (_, Some(proof)) => match self.proved(&proof).await {
                Ok((call, principal, key)) => {
                    return Said::Proved(Box::new(Admitted { req_id, call, principal, key }));
                }
                Err(error) => Err(error),
            },
            (Ok(call @ Call { request: Request::Hello(_), .. }), None) => match nonce {
                Some(nonce) => self.challenge(call, nonce, key).await,
                None => Err(self.wanted()),
            },
            _ => Err(self.wanted()),
        };
        Said::Answer(match answer {
            Ok(challenge) => wire::challenge(&challenge, req_id.as_ref()),
            Err(error) => wire::failure(&self.refused(error), req_id.as_ref()),
        })
    }

    /// Proves the token to the peer, and asks for its own proof. Which projects are served is not told before that.
    async fn challenge(&mut self, call: Call, client: Nonce, key: Option<String>) -> Result<wire::Challenge> {
        let project = call.project.clone().ok_or_else(|| Error::invalid("missing project_id"))?;
        let token = match (key, &self.admission.keys) {
            (Some(key), Some(keys)) => keys.token(&key, &project).await?,
            (Some(_), None) => return Err(unpaired()),
            (None, _) => self.admission.token.clone().ok_or_else(|| self.wanted())?,
        };
        let server = Nonce::fresh()?;
        let exchange = Exchange { client: &client, server: &server, project: &project };
        let challenge = wire::Challenge::new(server.clone(), token.proof(Role::Server, &exchange));
        self.asked = Some(Asked { call, project, token, client, server });
        Ok(challenge)
    }

    /// The `hello` of who proved the token, and who that is. One challenge is good for one attempt.
    async fn proved(&mut self, proof: &str) -> Result<(Call, Principal, Option<String>)> {
        let Asked { call, project, token, client, server } = self.asked.take().ok_or_else(wrong)?;
        let exchange = Exchange { client: &client, server: &server, project: &project };
        if !token.is_proved_by(proof, Role::Client, &exchange) {
            return Err(wrong());
        }
        match (token.name(), &self.admission.keys) {
            (Some(key), Some(keys)) => {
                let node = match &call.request {
                    Request::Hello(hello) => hello.node.as_ref().map(|node| node.id),
                    _ => None,
                };
                let name = keys.proved(key, call.host.as_deref(), node).await?;
                Ok((call, Principal::Peer(name), Some(key.to_string())))
            }
            _ => Ok((call, Principal::Token("tcp".into()), None)),
        }
    }

    fn wanted(&self) -> Error {
        if self.admission.token.is_some() {
            return Error::new(ErrorKind::Denied, "this daemon wants a token before anything else")
                .help("set mail.tcp.token_file to a file with the daemon's token");
        }
        Error::new(ErrorKind::Denied, "only hosts that were paired with this one are served here")
            .help("run `fmail relay invite` on that host, and `fmail relay join` on this one")
    }
}

fn unpaired() -> Error {
    Error::new(ErrorKind::Denied, "this daemon was paired with no other host")
        .help("run `fmail relay invite` on the daemon's host, and `fmail relay join` here")
}

fn wrong() -> Error {
    Error::new(ErrorKind::Denied, "this is not the proof of the daemon's token")
        .help("set mail.tcp.token_file to a file with the daemon's token, and say hello again")
}
