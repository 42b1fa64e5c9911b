//! The store as a plugin.

use fmail_core::Sidecar;
use fmail_plugin::{Envelope, Result, tokio};
use serde_json::Value;

use crate::{CAPABILITIES, CONFIG_SCHEMA, ExecOptions};

fmail_plugin::store! {
    name: "exec",
    open: open,
    capabilities: CAPABILITIES,
    config_schema: CONFIG_SCHEMA,
}

/// Opens the store off the caller's thread: its records may have to be created or recovered. The script is not run yet.
async fn open(envelope: Envelope) -> Result<Sidecar> {
    let config: Value = envelope.config()?;
    let mut options = ExecOptions::from_config(&config, &envelope.data_dir)?;
    if let Some(limit) = envelope.max_message_bytes {
        options.max_message_bytes = limit;
    }
    options.directory = envelope.project.as_ref().map(|project| project.root.clone());
    match tokio::task::spawn_blocking(move || crate::open(options)).await {
        Ok(store) => store,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
