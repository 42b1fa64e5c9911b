//! The other side: one request at a daemon that serves this transport.

use std::net::SocketAddr;
use std::time::Duration;

use ::tokio::net::TcpStream;
use axum::body::Bytes;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, SERVER};
use axum::http::{Request, Response, StatusCode};
use fmail_plugin::futures::StreamExt;
use fmail_plugin::futures::stream::{self, BoxStream};
use fmail_plugin::serde_json::{self, Value};
use fmail_plugin::tokio;
use fmail_plugin::tokio::task::JoinHandle;
use fmail_plugin::tokio::time::timeout;
use fmail_plugin::{Caller, Error, ErrorKind, Reply, Result};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::config::{CONNECTING, Config, OPERATIONS};
use crate::{events, media};

/// So much is read of an answer that is a refusal.
const REFUSAL_BYTES: usize = 64 * 1024;

/// Runs one operation on a connection of its own.
pub async fn request(config: &Config, caller: &Caller, request: &str) -> Result<Reply> {
    let lost = Lost(config.address);
    let body = Full::new(Bytes::from(caller.addressed(request)?));
    let mut asking = Request::post(OPERATIONS).header(CONTENT_TYPE, media::JSON);
    if let Some(token) = &config.token {
        asking = asking.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let host = config.address.to_string();
    let asking = asking.header(HOST, host).body(body).map_err(|_| {
        Error::new(ErrorKind::InvalidConfig, "the token of the plugin `http` has characters that cannot be sent")
    })?;
    let connection = Connection::open(config.address).await?;
    let (answer, connection) = connection.ask(asking).await?;
    if answer.status() != StatusCode::OK {
        return Err(refused(&lost, answer).await);
    }
    Reply::heard(request, lines(answer.into_body(), connection, lost, 3 * config.keep_alive)).await
}

/// What a server that listens here calls itself; nothing when it does not speak HTTP.
pub async fn server_at(address: SocketAddr) -> Option<String> {
    let asking = Request::get("/health/liveness").header(HOST, address.to_string()).body(Full::default()).ok()?;
    let asked = async { Connection::open(address).await.ok()?.ask(asking).await.ok() };
    let (answer, _connection) = timeout(Duration::from_secs(1), asked).await.ok()??;
    let name = answer.headers().get(SERVER).and_then(|name| name.to_str().ok()).unwrap_or("HTTP");
    Some(name.chars().take(80).collect())
}

/// A connection, and the task that drives it; both end when this is dropped.
struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driving: Driving,
    lost: Lost,
}

struct Driving(JoinHandle<()>);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Connection> {
        let lost = Lost(address);
        let stream = match timeout(CONNECTING, TcpStream::connect(address)).await {
            Ok(connected) => connected.map_err(|error| lost.because(error))?,
            Err(_) => return Err(lost.because("no answer in time")),
        };
        let _ = stream.set_nodelay(true);
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| lost.because(error))?;
        let driving = Driving(tokio::spawn(async move { drop(connection.await) }));
        Ok(Connection { sender, driving, lost })
    }

    async fn ask(mut self, request: Request<Full<Bytes>>) -> Result<(Response<Incoming>, Driving)> {
        let answer = self.sender.send_request(request).await.map_err(|error| self.lost.because(error))?;
        Ok((answer, self.driving))
    }
}

/// The lines of an answer, until it ends or is lost. A daemon that says nothing for longer than it should is lost too.
fn lines(body: Incoming, driving: Driving, lost: Lost, silence: Duration) -> BoxStream<'static, Result<String>> {
    let reading = Reading { body, text: Vec::new(), lost, silence, _driving: driving };
    stream::unfold(Some(reading), |open| async {
        let mut reading = open?;
        match reading.line().await {
            Ok(Some(line)) => Some((Ok(line), Some(reading))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}

struct Reading {
    body: Incoming,
    text: Vec<u8>,
    lost: Lost,
    silence: Duration,
    _driving: Driving,
}

impl Reading {
    /// The next line; signs of life are passed over. Nothing at the end.
    async fn line(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let rest = self.text.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.text, rest);
                line.pop();
                if line != events::PING.trim_end().as_bytes() {
                    return String::from_utf8(line).map(Some).map_err(|error| self.lost.because(error));
                }
                continue;
            }
            match timeout(self.silence, self.body.frame()).await {
                Ok(Some(Ok(frame))) => self.text.extend(frame.into_data().unwrap_or_default()),
                Ok(Some(Err(error))) => return Err(self.lost.because(error)),
                Ok(None) => return Ok(None),
                Err(_) => return Err(self.lost.because("no sign of life")),
            }
        }
    }
}

/// Why the daemon did not serve us: in its own words, if it has any.
async fn refused(lost: &Lost, answer: Response<Incoming>) -> Error {
    let status = answer.status();
    let body = Limited::new(answer.into_body(), REFUSAL_BYTES).collect();
    let body = timeout(CONNECTING, body).await.ok().and_then(std::result::Result::ok);
    let object: Option<Value> = body.and_then(|body| serde_json::from_slice(&body.to_bytes()).ok());
    let told: Option<Error> = object.and_then(|mut object| serde_json::from_value(object["error"].take()).ok());
    match told {
        Some(error) => error,
        None => lost.because(format_args!("it answers {status}, as no forged does")),
    }
}

/// The daemon that is missing.
#[derive(Clone, Copy)]
struct Lost(SocketAddr);

impl Lost {
    fn because(&self, why: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Unavailable, format!("no daemon answers at http://{}: {why}", self.0))
            .help("start forged with `http` in mail.transports, or name its address")
    }
}
