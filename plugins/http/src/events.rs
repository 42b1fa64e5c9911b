//! Answers that go on: events for MCP, lines for the operations.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Response;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use fmail_plugin::futures::future::select_all;
use fmail_plugin::futures::stream::{self, BoxStream};
use fmail_plugin::futures::{FutureExt, StreamExt};
use fmail_plugin::serde_json::Value;
use fmail_plugin::tokio;
use fmail_plugin::tokio::time::sleep;

use crate::flag::{Flag, raised};
use crate::media;

/// Tells proxies not to hold events back.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A stream of texts that ends with its client and with the daemon.
pub struct Streaming {
    /// What is sent.
    pub texts: BoxStream<'static, String>,
    /// What is sent when there was nothing to send for so long.
    pub keep_alive: (Duration, &'static str),
    /// Goes up when the client has closed its side.
    pub gone: Flag,
    /// Goes up when the daemon ends, or the session.
    pub over: Vec<Flag>,
    /// What is sent last then.
    pub farewell: Option<String>,
}

impl Streaming {
    /// As the body of an answer of this type.
    pub fn answer(self, kind: &'static str) -> Response<Body> {
        let texts = stream::unfold(Some(self), |open| async {
            let mut open = open?;
            // A panic ends this stream and nothing else.
            let next = AssertUnwindSafe(open.next()).catch_unwind().await.unwrap_or(Next::End(None));
            match next {
                Next::Text(text) => Some((text, Some(open))),
                Next::End(Some(text)) => Some((text, None)),
                Next::End(None) => None,
            }
        });
        let mut response = Response::new(Body::from_stream(texts.map(|text| Ok::<_, Infallible>(Bytes::from(text)))));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
        headers.insert(BUFFERING, HeaderValue::from_static("no"));
        response
    }

    async fn next(&mut self) -> Next {
        let (time, sign) = self.keep_alive;
        tokio::select! {
            biased;
            () = raised(&mut self.gone) => Next::End(None),
            () = any_raised(&mut self.over) => Next::End(self.farewell.take()),
            text = self.texts.next() => text.map_or(Next::End(None), Next::Text),
            () = sleep(time) => Next::Text(sign.to_string()),
        }
    }
}

enum Next {
    Text(String),
    End(Option<String>),
}

/// Waits until one of the flags is up.
async fn any_raised(flags: &mut [Flag]) {
    select_all(flags.iter_mut().map(|flag| raised(flag).boxed())).await;
}

/// A message as one event.
pub fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

/// A sign of life between events, which nobody sees.
pub const COMMENT: &str = ": still here\n\n";
/// A sign of life between lines.
pub const PING: &str = "{\"event\":\"ping\"}\n";

/// One message as a stream of one event.
pub fn single(message: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(event(message)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media::EVENTS));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    response
}
