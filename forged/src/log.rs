//! Where the daemon says what happens: standard error, one line each, with its fields.

use std::sync::Arc;

use fmail_api::{NoticeKind, Reporter};
use tracing::Level;

/// Starts the log. A second start in the same process changes nothing.
pub fn start(level: Level) {
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .try_init();
}

/// What a store has to say goes to the log, with the project that it is about.
pub fn reporter(root: String) -> Reporter {
    Arc::new(move |notice| match notice.kind {
        NoticeKind::Broken | NoticeKind::Mismatch => tracing::warn!(root, "{}", notice.text),
        _ => tracing::info!(root, "{}", notice.text),
    })
}
