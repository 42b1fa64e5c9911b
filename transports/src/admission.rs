//! Letting in who proves the token, before anything else is heard.

use std::io;
use std::time::Duration;

use fmail_api::{Error, ErrorKind, Request, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::authentication::{Exchange, Nonce, Role, Token};
use crate::connection::raised;
use crate::wire::{self, Call, Line, LineReader, Opening, ReqId};
use crate::writer::Writer;

/// The longest line of somebody who has proved nothing yet.
const LINE_BYTES: usize = 16 * 1024;

/// A peer that has proved the token: its `hello`, which is answered now.
pub struct Admitted {
    pub req_id: Option<ReqId>,
    pub call: Call,
}

/// Hears a peer until it has proved the token. Nothing when it goes, when the time is over or when the program ends.
///
/// Everything but `hello` and `auth` is refused, line by line, so that a client of PROTOCOL.md gets its error as it would
/// get any other.
pub async fn admit<R, W>(
    lines: &mut LineReader<R>,
    writer: &Writer<W>,
    token: &Token,
    time: Duration,
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<Option<Admitted>>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let usual = lines.limit(LINE_BYTES);
    let mut door = Door { token, asked: None };
    let heard = async {
        loop {
            let said = match lines.next().await? {
                Line::Whole(line) => door.hear(&line),
                Line::TooLong => Said::Answer(wire::failure(&wanted(), None)),
                Line::CutOff | Line::End => return Ok(None),
            };
            match said {
                Said::Answer(line) => writer.write(line).await?,
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
            writer.write(wire::failure(&error, None)).await?;
            Ok(None)
        }
    }
}

/// What is known of a peer that has proved nothing yet.
struct Door<'a> {
    token: &'a Token,
    asked: Option<Asked>,
}

/// A `hello` that got its challenge.
struct Asked {
    call: Call,
    project: String,
    client: Nonce,
    server: Nonce,
}

enum Said {
    Answer(String),
    Proved(Box<Admitted>),
}

impl Door<'_> {
    fn hear(&mut self, line: &[u8]) -> Said {
        let Opening { req_id, nonce, key: _, proof, call } = wire::opening(line);
        let answer = match (call, proof) {
            (_, Some(proof)) => match self.proved(&proof) {
                Some(call) => return Said::Proved(Box::new(Admitted { req_id, call })),
                None => Err(wrong()),
            },
            (Ok(call @ Call { request: Request::Hello(_), .. }), None) => match nonce {
                Some(nonce) => self.challenge(call, nonce),
                None => Err(wanted()),
            },
            _ => Err(wanted()),
        };
        Said::Answer(match answer {
            Ok(challenge) => wire::challenge(&challenge, req_id.as_ref()),
            Err(error) => wire::failure(&error, req_id.as_ref()),
        })
    }

    /// Proves the token to the peer, and asks for its own proof. Which projects are served is not told before that.
    fn challenge(&mut self, call: Call, client: Nonce) -> Result<wire::Challenge> {
        let project = call.project.clone().ok_or_else(|| Error::invalid("missing project_id"))?;
        let server = Nonce::fresh()?;
        let exchange = Exchange { client: &client, server: &server, project: &project };
        let challenge = wire::Challenge::new(server.clone(), self.token.proof(Role::Server, &exchange));
        self.asked = Some(Asked { call, project, client, server });
        Ok(challenge)
    }

    /// The `hello` of who proved the token. One challenge is good for one attempt.
    fn proved(&mut self, proof: &str) -> Option<Call> {
        let Asked { call, project, client, server } = self.asked.take()?;
        let exchange = Exchange { client: &client, server: &server, project: &project };
        self.token.is_proved_by(proof, Role::Client, &exchange).then_some(call)
    }
}

fn wanted() -> Error {
    Error::new(ErrorKind::Denied, "this daemon wants a token before anything else")
        .help("set mail.tcp.token_file to a file with the daemon's token")
}

fn wrong() -> Error {
    Error::new(ErrorKind::Denied, "this is not the proof of the daemon's token")
        .help("set mail.tcp.token_file to a file with the daemon's token, and say hello again")
}
