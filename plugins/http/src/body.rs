//! Reading a request: of the right kind, within the limit, in time.

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use fmail_plugin::tokio::time::timeout;
use fmail_plugin::{Error, ErrorKind};
use http_body_util::BodyExt;

use crate::config::Config;
use crate::media;
use crate::refusal::{Refusal, code};

/// The body of a request.
pub async fn read(config: &Config, headers: &HeaderMap, body: Body) -> Result<Bytes, Refusal> {
    check_type(headers)?;
    let limit = config.max_body_bytes;
    let announced: Option<u64> =
        headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()).and_then(|length| length.parse().ok());
    if let Some(length) = announced.filter(|length| usize::try_from(*length).unwrap_or(usize::MAX) > limit) {
        return Err(too_large(&format!("the request has {length} bytes"), limit));
    }
    match timeout(config.patience, collected(body, limit)).await {
        Ok(read) => read,
        Err(_) => Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            code::REFUSED,
            Error::new(
                ErrorKind::Timeout,
                format!("the request was not sent within {} s, so nothing was done", config.patience.as_secs()),
            ),
        )
        .closing()),
    }
}

async fn collected(mut body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::invalid(format!("the request breaks off: {error}")).closing())?;
        // What else comes in a body are trailers, which nobody asks for.
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(too_large(&format!("the request has more than {limit} bytes"), limit));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.into())
}

fn check_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let unsupported = |message: String, help: &str| {
        let error = Error::new(ErrorKind::InvalidRequest, message).help(help);
        Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, code::INVALID_REQUEST, error)
    };
    let shown = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    if !media::is_json(headers) {
        let found = shown(CONTENT_TYPE).unwrap_or_default();
        return Err(unsupported(
            format!("the request has the Content-Type {found:?}"),
            "send application/json, or no Content-Type",
        ));
    }
    match shown(CONTENT_ENCODING) {
        Some(encoding) if !encoding.eq_ignore_ascii_case("identity") => Err(unsupported(
            format!("the request has the Content-Encoding {encoding:?}"),
            "send it as it is, without compression",
        )),
        _ => Ok(()),
    }
}

fn too_large(what: &str, limit: usize) -> Refusal {
    let error = Error::new(ErrorKind::TooLarge, format!("{what}, and at most {limit} are read"))
        .help("send less, or set a larger `max_body_bytes` in the section of the plugin `http`");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, code::REFUSED, error).closing()
}
