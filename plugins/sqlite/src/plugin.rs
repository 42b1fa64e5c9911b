//! The store as a plugin.

use fmail_plugin::{Envelope, Result, tokio};

use serde_json::Value;

use crate::{CAPABILITIES, CONFIG_SCHEMA, SqliteOptions, SqliteStore};

fmail_plugin::store! {
    name: "sqlite",
    open: open,
    capabilities: CAPABILITIES,
    config_schema: CONFIG_SCHEMA,
}

/// Opens the database off the caller's thread: it may have to be created or recovered.
async fn open(envelope: Envelope) -> Result<SqliteStore> {
    let config: Value = envelope.config()?;
    let mut options = SqliteOptions::from_config(&config, &envelope.data_dir)?;
    if let Some(limit) = envelope.max_message_bytes {
        options.max_message_bytes = limit;
    }
    match tokio::task::spawn_blocking(move || SqliteStore::open(options)).await {
        Ok(store) => store,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
