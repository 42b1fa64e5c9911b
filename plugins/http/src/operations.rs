//! The operations of docs/protocol.md: one object in, its answer and what follows as lines.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, Response};
use fmail_plugin::futures::stream::{self, BoxStream};
use fmail_plugin::futures::{FutureExt, StreamExt};
use fmail_plugin::tokio::time::sleep;
use fmail_plugin::{Caller, Error, ErrorKind, refusal, tokio};

use crate::config::GRACE;
use crate::connection::Link;
use crate::events::{self, Streaming};
use crate::flag::raised;
use crate::front::{Front, not_allowed};
use crate::media;
use crate::refusal::{Form, Refusal};
use crate::{body, sessions};

/// So long a stream may go on when the daemon ends; most come to their own end in that time.
const REST: Duration = Duration::from_millis(500);

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
        Ok((caller, text)) => answer(&front, link, &caller, text).await,
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

async fn answer(front: &Front, link: Link, caller: &Caller, text: String) -> Response<Body> {
    let ending = Error::new(ErrorKind::Unavailable, "the daemon is ending").help("ask again when it is back");
    let farewell = refusal(&text, &ending) + "\n";
    let mut objects = front.daemon.exchange(caller, &text);
    let first = match first(front, &mut objects).await {
        Ok(first) => first + "\n",
        Err(error) => return whole(refusal(&text, &error) + "\n"),
    };
    // Most operations have one answer, and then the stream has ended already.
    match objects.next().now_or_never() {
        Some(None) => return whole(first),
        Some(Some(next)) => objects = stream::iter([next]).chain(objects).boxed(),
        None => {}
    }
    Streaming {
        texts: stream::iter([first]).chain(objects.map(|object| object + "\n")).boxed(),
        keep_alive: (front.config.keep_alive, events::PING),
        gone: link.gone,
        ending: front.ending.clone(),
        rest: REST,
        farewell: Some(farewell),
    }
    .answer(media::LINES)
}

/// The first object, within the deadline, and before the daemon has ended.
async fn first(front: &Front, objects: &mut BoxStream<'static, String>) -> Result<String, Error> {
    let mut ending = front.ending.clone();
    let ends = async {
        raised(&mut ending).await;
        sleep(GRACE).await;
    };
    let deadline = front.config.deadline;
    tokio::select! {
        first = objects.next() => first.ok_or_else(|| Error::internal("the daemon gave no answer")),
        () = sleep(deadline) => Err(Error::new(
            ErrorKind::Timeout,
            format!("no answer within {} s; whether it took effect is not known", deadline.as_secs()),
        )),
        () = ends => Err(Error::new(
            ErrorKind::Unavailable,
            "the daemon is ending, and there was no answer in time; whether it took effect is not known",
        )),
    }
}

/// An answer that is all there.
fn whole(lines: String) -> Response<Body> {
    let mut response = Response::new(Body::from(lines));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media::LINES));
    response
}
