//! `fmail relay revoke`

use clap::Args;
use fmail_host::pairing::{Pairings, Side};
use serde_json::json;

use crate::output::{Outcome, Output, note};
use crate::session::Place;

#[derive(Args)]
pub(crate) struct Revoke {
    /// The name of the pairing, or the beginning of its id; `fmail relay peers` lists them
    #[arg(value_name = "PEER")]
    peer: String,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Revoke {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let pairings = Pairings::of(&place.environment)?;
        let pairing = pairings.find(&self.peer)?;
        pairings.revoke(&pairing.id)?;
        let mut output = Output::stdout();
        if self.json {
            output
                .json(&json!({"revoked": true, "name": pairing.name, "id": pairing.id, "project": pairing.project}))?;
            return output.flush();
        }
        output.line(&format!("revoked: {} (project {})", pairing.name, pairing.project))?;
        output.flush()?;
        match pairing.side {
            Side::Invited { .. } => {
                note("its key opens nothing here any more; a link that is up is cut within seconds")
            }
            Side::Joined { .. } => {
                note("its key is gone from here; `fmail relay revoke` on that host ends it there too")
            }
        }
        Ok(())
    }
}
