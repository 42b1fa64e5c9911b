//! The chat store of a file, opened beside the project's own.

use std::path::Path;
use std::sync::Arc;

use fmail_api::{Result, Store};
use fmail_host::{Settings, open_named};

use crate::output::reporter;
use crate::session::{Place, overrides};

/// The name of the plugin.
const CHAT: &str = "chat";

/// Opens the store over this file, as `mail.store = "chat"` with `file` set to it would.
pub(super) fn open(place: &Place, set: &[String], file: &Path) -> Result<Arc<dyn Store>> {
    let mut overrides = overrides(set)?;
    overrides.push(("mail.store".into(), CHAT.into()));
    overrides.push((format!("mail.plugin.{CHAT}.config.file"), file.display().to_string()));
    let settings = Settings::load(&place.environment, Some(&place.project), &overrides)?;
    open_named(&place.project, &settings, CHAT, reporter())
}
