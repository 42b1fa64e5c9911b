//! The other side: one request at a daemon that serves this transport.

use ::tokio::net::TcpStream;
use fmail_plugin::futures::stream::{self, BoxStream};
use fmail_plugin::futures::{SinkExt, StreamExt};
use fmail_plugin::tokio::time::timeout;
use fmail_plugin::{Caller, Error, ErrorKind, Reply, Result};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::config::{Config, PATIENCE};

type Socket = WebSocketStream<TcpStream>;

/// Runs one operation on a connection of its own.
pub async fn request(config: &Config, caller: &Caller, request: &str) -> Result<Reply> {
    let mut socket = match timeout(PATIENCE, connect(config)).await {
        Ok(connected) => connected?,
        Err(_) => return Err(unavailable(config, "no answer in time")),
    };
    socket.send(Message::text(caller.addressed(request)?)).await.map_err(|error| unavailable(config, error))?;
    Reply::heard(request, objects(config.clone(), socket)).await
}

async fn connect(config: &Config) -> Result<Socket> {
    let stream = TcpStream::connect(config.address).await.map_err(|error| unavailable(config, error))?;
    let mut request = format!("ws://{}/", config.address)
        .into_client_request()
        .map_err(|error| Error::internal(format!("the address has no URL: {error}")))?;
    if let Some(token) = &config.token {
        let value = HeaderValue::from_str(&format!("Bearer {token}"))
            .map_err(|_| Error::new(ErrorKind::InvalidConfig, "the token has characters that cannot be sent"))?;
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    let limits = WebSocketConfig::default()
        .max_message_size(Some(config.max_frame_bytes))
        .max_frame_size(Some(config.max_frame_bytes));
    let (socket, _) =
        client_async_with_config(request, stream, Some(limits)).await.map_err(|error| refused(config, error))?;
    Ok(socket)
}

/// Why the daemon did not let us in: in its own words, if it has any.
fn refused(config: &Config, error: WsError) -> Error {
    let WsError::Http(answer) = &error else { return unavailable(config, error) };
    let why = answer.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    if !matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return unavailable(config, format_args!("{error} {why}"));
    }
    Error::new(
        ErrorKind::Denied,
        format!("the daemon at ws://{} lets nobody in who has no right: {why}", config.address),
    )
    .help("set `token` in the section of this plugin to the one that the daemon has")
}

/// What the daemon says, until it is lost.
fn objects(config: Config, socket: Socket) -> BoxStream<'static, Result<String>> {
    stream::unfold(Some((config, socket)), |open| async {
        let (config, mut socket) = open?;
        match next(&config, &mut socket).await {
            Ok(text) => Some((Ok(text), Some((config, socket)))),
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}

async fn next(config: &Config, socket: &mut Socket) -> Result<String> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
            Some(Ok(Message::Close(frame))) => {
                let why = frame.map_or_else(|| "closed".to_string(), |frame| frame.reason.to_string());
                return Err(unavailable(config, why));
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(unavailable(config, error)),
            None => return Err(unavailable(config, "closed")),
        }
    }
}

fn unavailable(config: &Config, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unavailable, format!("no daemon answers at ws://{}: {why}", config.address))
        .help("start forged with `ws` in mail.transports, or name its address")
}
