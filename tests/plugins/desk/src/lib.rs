//! A store that keeps the states of mail itself, as a mail script does: messages in memory, and for each agent what it has
//! done with them. `config.fault` names a rule to break.

mod desk;
mod fault;
mod mailbox;

pub use desk::Desk;
pub use fault::Fault;

use fmail_plugin::{Envelope, Result, serde};

fmail_plugin::store! {
    name: "desk",
    open: open,
    capabilities: &["import", "remove", "filter.scope", "filter.ids", "filter.from", "filter.thread", "filter.time", "filter.limit", "filter.order", "mailbox"],
    max_message_bytes: 1_048_576,
    config_schema: r#"{"type":"object","properties":{"fault":{"type":"string","description":"the rule to break"}}}"#,
}

#[derive(serde::Deserialize)]
#[serde(crate = "fmail_plugin::serde")]
struct Config {
    #[serde(default)]
    fault: Fault,
}

async fn open(envelope: Envelope) -> Result<Desk> {
    let config: Config = envelope.config()?;
    Ok(Desk::new(config.fault))
}
