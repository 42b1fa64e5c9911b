//! The operations of docs/protocol.md: one object in, its answer and what follows as lines.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{Method, Response};
use fmail_plugin::futures::StreamExt;
use fmail_plugin::futures::stream::{self, BoxStream};
use fmail_plugin::tokio::time::timeout;
use fmail_plugin::{Caller, Error, ErrorKind, refusal};

use crate::connection::Link;
use crate::events::{self, Streaming};
use crate::front::{Front, not_allowed};
use crate::media;
use crate::refusal::{Form, Refusal};
use crate::{body, sessions};

/// Serves a request.
pub async fn serve(
    State(front): State<Arc<Front>>,
    Extension(link): Extension<Link>,
    request: Request,
) -> Response<Body> {
    if request.method() != Method::POST {
        return not_allowed(request.method(), "POST").answer(Form::Operation);
    }
    match asked(&front, request).await {
        Ok((caller, text)) => answer(&front, link, &caller, text),
        Err(refusal) => refusal.answer(Form::Operation),
    }
}

async fn asked(front: &Front, request: Request) -> Result<(Caller, String), Refusal> {
    let (head, body) = request.into_parts();
    let bytes = body::read(&front.config, &head.headers, body).await?;
    let text = String::from_utf8(bytes.into())
        .map_err(|error| Refusal::invalid(format!("the request is not UTF-8: {error}")))?;
    // Without a name of its own, a request is its own session.
    let session = sessions::named(&head.headers)?.unwrap_or_else(sessions::fresh);
    let caller = Caller { principal: Some(front.principal()), session: Some(session), ..Caller::default() };
    Ok((caller, text))
}

fn answer(front: &Front, link: Link, caller: &Caller, text: String) -> Response<Body> {
    let objects = front.daemon.exchange(caller, &text);
    let late = Error::new(ErrorKind::Unavailable, "the daemon is ending").help("ask again when it is back");
    Streaming {
        texts: in_time(objects, front.config.deadline, text.clone()).map(|object| object + "\n").boxed(),
        keep_alive: (front.config.keep_alive, events::PING),
        gone: link.gone,
        over: vec![front.ending.clone()],
        farewell: Some(refusal(&text, &late) + "\n"),
    }
    .answer(media::LINES)
}

/// The objects, of which the first comes within the deadline.
fn in_time(mut objects: BoxStream<'static, String>, deadline: Duration, request: String) -> BoxStream<'static, String> {
    let first = async move {
        match timeout(deadline, objects.next()).await {
            Ok(first) => stream::iter(first).chain(objects).boxed(),
            Err(_) => {
                let error = Error::new(
                    ErrorKind::Timeout,
                    format!("no answer within {} s; whether it took effect is not known", deadline.as_secs()),
                );
                stream::iter([refusal(&request, &error)]).boxed()
            }
        }
    };
    stream::once(first).flatten().boxed()
}
