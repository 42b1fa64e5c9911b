//! What is served where.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::header::{HeaderValue, SERVER};
use axum::http::{Method, Response, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{any, get};
use fmail_mcp::{Options, Server};
use fmail_plugin::futures::FutureExt;
use fmail_plugin::serde_json::json;
use fmail_plugin::{Error, Principal};

use crate::backend::{Backend, Daemon};
use crate::config::{Config, OPERATIONS};
use crate::connection::Link;
use crate::flag::Flag;
use crate::refusal::{Form, Refusal, code, in_json};
use crate::sessions::Sessions;
use crate::{door, health, operations, post, sessions};

/// What we call ourselves.
const OURSELVES: &str = concat!("fmail/", env!("CARGO_PKG_VERSION"));

/// What all requests share.
pub struct Front {
    pub config: Arc<Config>,
    pub daemon: Arc<dyn Daemon>,
    pub server: Server,
    pub sessions: Sessions,
    /// Goes up when the daemon ends.
    pub ending: Flag,
}

impl Front {
    /// A front of this daemon.
    pub fn new(config: Arc<Config>, daemon: Arc<dyn Daemon>, ending: Flag) -> Arc<Front> {
        let server = Server::new(Arc::new(Backend(daemon.clone())), Options { profile: config.profile });
        Arc::new(Front { config, daemon, server, sessions: Sessions::default(), ending })
    }

    /// How every client that came in has proved who it is.
    pub fn principal(&self) -> Principal {
        match self.config.token {
            Some(_) => Principal::Token("http".into()),
            None => Principal::Anonymous,
        }
    }

    /// Everything that is served.
    pub fn router(self: &Arc<Self>) -> Router {
        let mut router = Router::new()
            .route("/health/liveness", get(health::liveness))
            .route("/health/readiness", get(health::readiness))
            .route("/.well-known/{*path}", any(no_oauth))
            .route(OPERATIONS, any(operations::serve))
            .route(OPERATIONS.trim_end_matches('/'), any(operations::serve));
        for place in self.config.places() {
            router = router.route(place, any(mcp)).route(&format!("{place}/"), any(mcp));
        }
        router
            .fallback(nothing_here)
            .method_not_allowed_fallback(only_get)
            .layer(from_fn_with_state(self.clone(), door::keep))
            .layer(from_fn_with_state(self.clone(), isolate))
            .with_state(self.clone())
    }
}

/// MCP, by the method of HTTP.
async fn mcp(State(front): State<Arc<Front>>, Extension(link): Extension<Link>, request: Request) -> Response<Body> {
    match *request.method() {
        Method::POST => post::serve(&front, link, request).await,
        Method::GET => sessions::listen(&front, link, &request),
        Method::DELETE => sessions::end(&front, &request),
        _ => not_allowed(request.method(), "GET, POST, DELETE").answer(Form::JsonRpc),
    }
}

/// A method that a place does not have.
pub fn not_allowed(method: &Method, allowed: &'static str) -> Refusal {
    let error = Error::invalid(format!("{method} is not served here")).help(format!("use one of {allowed}"));
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, code::REFUSED, error)
        .header(axum::http::header::ALLOW, HeaderValue::from_static(allowed))
}

async fn only_get(request: Request) -> Response<Body> {
    not_allowed(request.method(), "GET, HEAD").answer(Form::Plain)
}

async fn nothing_here(State(front): State<Arc<Front>>, request: Request) -> Response<Body> {
    let help = format!("MCP is served at {}, health at /health/readiness", front.config.path);
    let error = Error::not_found(format!("Not Found: there is nothing at {}", request.uri().path())).help(help);
    Refusal::new(StatusCode::NOT_FOUND, code::REFUSED, error).answer(Form::Plain)
}

/// Clients look here for a server that gives out tokens. There is none.
async fn no_oauth() -> Response<Body> {
    in_json(StatusCode::NOT_FOUND, &json!({"detail": "Not Found: there is no OAuth here", "mcp_oauth": false}))
}

/// A request that panics is answered, and the others go on.
async fn isolate(State(front): State<Arc<Front>>, request: Request, next: Next) -> Response<Body> {
    let form = Form::of(&front.config, request.uri().path());
    let served = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    // The panic itself is in the daemon's log, with its place.
    let mut response = served.unwrap_or_else(|_| {
        let error = Error::internal("the request made the server panic; whether it took effect is not known")
            .help("forged's log has the place; please report it");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, code::INTERNAL, error).answer(form)
    });
    response.headers_mut().insert(SERVER, HeaderValue::from_static(OURSELVES));
    response
}
