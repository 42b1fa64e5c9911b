//! Who may come in: looks at the headers of a request before anything else does.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, HOST,
    HeaderName, HeaderValue, ORIGIN, VARY, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri};
use axum::middleware::Next;
use fmail_plugin::tracing;

use crate::config::Config;
use crate::connection::Link;
use crate::front::Front;
use crate::host_name::HostName;
use crate::origin::Origin;
use crate::refusal::{Form, Refusal, quoted};
use crate::token::{self, Wrong};

/// What a page may send beside what every page may.
const HEADERS: &str =
    "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name";
/// What a page may read beside what every page may.
const EXPOSED: &str = "mcp-session-id, www-authenticate";
const METHODS: &str = "GET, POST, DELETE";
/// A page asks whether it may ask a machine of a private network.
const PRIVATE_ASKED: HeaderName = HeaderName::from_static("access-control-request-private-network");
const PRIVATE_ALLOWED: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Lets a request in, or answers it.
pub async fn keep(
    State(front): State<Arc<Front>>,
    Extension(link): Extension<Link>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let config = &front.config;
    let path = request.uri().path();
    let form = Form::of(config, path);
    let checked = host(config, &link, request.uri(), request.headers()).and_then(|()| page(config, request.headers()));
    let page = match checked {
        Ok(page) => page,
        Err(refusal) => return refused(refusal, form),
    };
    if let Some(page) = &page
        && request.method() == Method::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    {
        return preflight(page, request.headers());
    }
    let mut response = match proved(config, path, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refused(refusal, form),
    };
    if let Some(page) = page {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, page);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        headers.append(VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// Whether the request is for us: who is at the other end of a name that means this machine has no other way to show it.
fn host(config: &Config, link: &Link, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(first), None) = (hosts.next(), hosts.next()) else {
        return Err(Refusal::invalid("a request has one Host header"));
    };
    // A whole URL in the first line counts beside the header.
    let named = [first.to_str().ok(), uri.authority().map(|authority| authority.as_str())];
    for text in named.into_iter().flatten() {
        let known = HostName::parse(text).is_some_and(|host| config.serves(&host, link.local));
        if !known {
            return Err(Refusal::denied(
                StatusCode::FORBIDDEN,
                &format!("the request is for the host {}, which is not served here", quoted(text)),
                "use localhost or the address itself, or put the name into `hosts` in the section of the plugin `http`",
            ));
        }
    }
    match first.to_str() {
        Ok(_) => Ok(()),
        Err(_) => Err(Refusal::invalid("the Host header has characters that no host has")),
    }
}

/// The page that asks, if it may. Programs are none.
fn page(config: &Config, headers: &HeaderMap) -> Result<Option<HeaderValue>, Refusal> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let Some(first) = origins.next() else { return Ok(None) };
    let origin = first.to_str().ok().and_then(Origin::parse);
    if origins.next().is_none() && origin.is_some_and(|origin| config.origins.contains(&origin)) {
        return Ok(Some(first.clone()));
    }
    let shown = quoted(&String::from_utf8_lossy(first.as_bytes()));
    Err(Refusal::denied(
        StatusCode::FORBIDDEN,
        &format!("the page {shown} may not ask here"),
        "put its origin into `origins` in the section of the plugin `http`",
    ))
}

/// Answers a page that asks whether it may ask.
fn preflight(page: &HeaderValue, asked: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, page.clone());
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(HEADERS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    headers.insert(VARY, HeaderValue::from_static("origin"));
    if asked.contains_key(PRIVATE_ASKED) {
        headers.insert(PRIVATE_ALLOWED, HeaderValue::from_static("true"));
    }
    response
}

/// Whether the client knows the token, where it needs to.
fn proved(config: &Config, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(token) = &config.token else { return Ok(()) };
    // Health tells nothing of the mail, and who looks for OAuth has no token yet.
    if path.starts_with("/health/") || path.starts_with("/.well-known/") {
        return Ok(());
    }
    let shown = headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes);
    let (message, challenge) = match token::check(token, shown) {
        Ok(()) => return Ok(()),
        Err(Wrong::Missing) => ("a token is needed", r#"Bearer realm="fmail""#),
        Err(Wrong::Form) => (
            "the header Authorization is not `Bearer` and a token, once",
            r#"Bearer realm="fmail", error="invalid_token""#,
        ),
        Err(Wrong::Other) => {
            ("the token is not the one that is configured", r#"Bearer realm="fmail", error="invalid_token""#)
        }
    };
    let help =
        "send the header `Authorization: Bearer <token>`, with the `token` from the section of the plugin `http`";
    Err(Refusal::denied(StatusCode::UNAUTHORIZED, message, help)
        .header(WWW_AUTHENTICATE, HeaderValue::from_static(challenge)))
}

fn refused(refusal: Refusal, form: Form) -> Response<Body> {
    tracing::warn!(why = refusal.reason(), "a request was refused");
    refusal.answer(form)
}
