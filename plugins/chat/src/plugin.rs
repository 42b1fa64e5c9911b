//! The store as a plugin.

use fmail_plugin::{Envelope, Error, Result};
use serde_json::Value;

use crate::{CAPABILITIES, CONFIG_SCHEMA, ChatOptions, ChatStore};

fmail_plugin::store! {
    name: "chat",
    open: open,
    capabilities: CAPABILITIES,
    config_schema: CONFIG_SCHEMA,
}

/// Opens the store. Nothing is read or made by that.
async fn open(envelope: Envelope) -> Result<ChatStore> {
    let config: Value = envelope.config()?;
    let project =
        envelope.project.ok_or_else(|| Error::invalid("a chat store is for a project, and none was named"))?;
    let mut options = ChatOptions::from_config(&config, &project.root)?;
    if let Some(limit) = envelope.max_message_bytes {
        options.max_message_bytes = limit;
    }
    ChatStore::open(options)
}
