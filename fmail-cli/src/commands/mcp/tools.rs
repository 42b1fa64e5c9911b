//! `fmail mcp tools`

use clap::Args;
use fmail_host::Environment;
use serde_json::Value;

use crate::agent_mail::{Address, Client, PatienceFlag, ServerFlags};
use crate::output::{Outcome, Output};
use crate::render::on_one_line;
use crate::table;

#[derive(Args)]
pub(crate) struct Tools {
    #[command(flatten)]
    server: ServerFlags,

    #[command(flatten)]
    patience: PatienceFlag,

    /// Print JSON: the definitions as the server gives them
    #[arg(long)]
    json: bool,
}

impl Tools {
    pub(crate) fn run(self, environment: &Environment, set: &[String]) -> Outcome {
        let address = Address::of(&self.server, environment, set)?;
        let mut client = Client::new(address, self.patience.time()?)?;
        let tools = client.tools()?;
        let mut output = Output::stdout();
        if self.json {
            output.json(&tools)?;
        } else {
            for line in table::lines(["TOOL", "WHAT IT DOES"], &tools.iter().map(row).collect::<Vec<_>>()) {
                output.line(&line)?;
            }
        }
        output.flush()
    }
}

/// A tool by its name and the first sentence about it.
fn row(tool: &Value) -> [String; 2] {
    let text = |key: &str| tool[key].as_str().unwrap_or_default();
    let description = text("description").trim();
    let line = description.lines().next().unwrap_or_default();
    let sentence = line.split_inclusive(". ").next().unwrap_or_default().trim_end_matches(['.', ' ']);
    [on_one_line(text("name")), on_one_line(sentence)]
}
