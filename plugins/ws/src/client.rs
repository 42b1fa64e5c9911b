//! The other side: one request at a daemon that serves this transport.

use ::tokio::net::TcpStream;
use fmail_plugin::futures::stream::{self, BoxStream};
use fmail_plugin::futures::{SinkExt, StreamExt};
use fmail_plugin::serde_json::{self, Value, json};
use fmail_plugin::tokio::time::timeout;
use fmail_plugin::{Caller, Error, ErrorKind, Operation, Reply, Result};
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
    let text = for_project(caller, request)?;
    socket.send(Message::text(text)).await.map_err(|error| unavailable(config, error))?;
    let head = next(config, &mut socket).await?;
    let value: Value = parsed(&head)?;
    match value.get("ok").and_then(Value::as_bool) {
        // Who waits for a plain answer takes no stream.
        Some(true) if !streams(request)? => Ok(Reply { head, events: None }),
        Some(true) => Ok(Reply { head, events: Some(events(config.clone(), socket)) }),
        // What is stored but perhaps not durable is told by the answer itself.
        Some(false) if value.get("id").is_some() => Ok(Reply { head, events: None }),
        _ => Err(serde_json::from_value(value["error"].clone())
            .unwrap_or_else(|_| Error::internal("the daemon's answer cannot be understood"))),
    }
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

/// The request, which names its project as on any shared address.
fn for_project(caller: &Caller, request: &str) -> Result<String> {
    let mut value: Value = parsed(request)?;
    if let (Some(id), Some(fields)) = (&caller.project, value.as_object_mut()) {
        fields.entry("project_id").or_insert_with(|| json!(id));
    }
    Ok(value.to_string())
}

/// Whether a stream follows the answer to a request.
fn streams(request: &str) -> Result<bool> {
    let value: Value = parsed(request)?;
    Ok(Operation::ALL.iter().any(|operation| value["cmd"] == operation.as_str() && operation.streams()))
}

/// What follows an answer, until its end.
fn events(config: Config, socket: Socket) -> BoxStream<'static, Result<String>> {
    stream::unfold(Some((config, socket)), |open| async {
        let (config, mut socket) = open?;
        let text = match next(&config, &mut socket).await {
            Ok(text) => text,
            Err(error) => return Some((Err(error), None)),
        };
        let value: Value = match parsed(&text) {
            Ok(value) => value,
            Err(error) => return Some((Err(error), None)),
        };
        if value["event"] == "end" {
            return None;
        }
        match value.get("ok").and_then(Value::as_bool) {
            Some(false) => {
                let error = serde_json::from_value(value["error"].clone())
                    .unwrap_or_else(|_| Error::internal("the daemon's answer cannot be understood"));
                Some((Err(error), None))
            }
            _ => Some((Ok(text), Some((config, socket)))),
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

fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| Error::internal(format!("not a JSON object: {error}")))
}

fn unavailable(config: &Config, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unavailable, format!("no daemon answers at ws://{}: {why}", config.address))
        .help("start forged with `ws` in mail.transports, or name its address")
}
