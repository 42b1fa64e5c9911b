//! `fmail mcp read`

use clap::Args;
use fmail_host::Environment;
use serde_json::Value;

use crate::agent_mail::{Address, Client, PatienceFlag, ServerFlags};
use crate::output::{Outcome, Output};
use crate::render::visible;

#[derive(Args)]
pub(crate) struct Read {
    /// The resource, such as resource://inbox/GreenDog?project=%2Fsrc%2Fapp; values in it are URL-encoded
    uri: String,

    #[command(flatten)]
    server: ServerFlags,

    #[command(flatten)]
    patience: PatienceFlag,

    /// Print the resource as one line of JSON; what is no JSON as the server gives it
    #[arg(long)]
    json: bool,
}

impl Read {
    pub(crate) fn run(self, environment: &Environment, set: &[String]) -> Outcome {
        let address = Address::of(&self.server, environment, set)?;
        let mut client = Client::new(address, self.patience.time()?)?;
        let contents = client.read(&self.uri)?;
        let only = match &contents[..] {
            [only] => only["text"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()),
            _ => None,
        };
        let mut output = Output::stdout();
        if self.json {
            output.json(&only.unwrap_or(Value::Array(contents)))?;
            return output.flush();
        }
        let text = match only {
            Some(value) => format!("{value:#}"),
            None => contents.iter().map(shown).collect::<Vec<_>>().join("\n"),
        };
        output.line(if output.is_terminal() { visible(&text) } else { text }.trim_end())?;
        output.flush()
    }
}

/// A text as it is; what is not text as the server gives it.
fn shown(content: &Value) -> String {
    match content["text"].as_str() {
        Some(text) => text.to_string(),
        None => content.to_string(),
    }
}
