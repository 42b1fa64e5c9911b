//! Whether this lives, and whether it can serve.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use fmail_plugin::serde_json::json;
use fmail_plugin::tokio::time::timeout;
use fmail_plugin::{Caller, Error, ErrorKind, Result};

use crate::backend::Daemon;
use crate::front::Front;
use crate::refusal::{in_json, sentence};

/// So long the daemon may take to show that it can serve.
const SOON: Duration = Duration::from_secs(5);
/// Counts the mail of nobody: reads the store, and changes nothing.
const QUESTION: &str = r#"{"cmd":"count","agent":"readiness"}"#;

/// It answers, so it lives.
pub async fn liveness() -> Response<Body> {
    in_json(StatusCode::OK, &json!({"status": "alive"}))
}

/// Whether every project that is served answers.
pub async fn readiness(State(front): State<Arc<Front>>) -> Response<Body> {
    let asked = timeout(SOON, ask_all(&*front.daemon)).await;
    let late = || Err(Error::new(ErrorKind::Timeout, format!("no answer within {} s", SOON.as_secs())));
    match asked.unwrap_or_else(|_| late()) {
        Ok(()) => in_json(StatusCode::OK, &json!({"status": "ready"})),
        Err(error) => {
            in_json(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "unavailable", "detail": sentence(&error)}))
        }
    }
}

async fn ask_all(daemon: &dyn Daemon) -> Result<()> {
    for project in daemon.projects().await? {
        let caller = Caller::in_project(project.clone());
        daemon.request(&caller, QUESTION).await.map_err(|error| {
            let told = Error::new(error.kind(), format!("the project {project}: {}", error.message()));
            match error.help_text() {
                Some(help) => told.help(help),
                None => told,
            }
        })?;
    }
    Ok(())
}
