//! `fmail receipt`

use clap::Args;
use fmail_api::{Receipt as Told, ReceiptRequest, Request, Response};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note};
use crate::session::{Place, unexpected};
use crate::{identity, mail, names, table};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail receipt 0042", "who has retrieved, read and acknowledged it, and when"),
    example("fmail receipt 0042 --json | jq -r .recipients[].standing", "for a script"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Receipt {
    /// The message: its id, or the end of its id
    id: String,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Receipt {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let agent = identity::reader(&place.environment, true)?;
        let request = Request::Receipt(ReceiptRequest { id: self.id });
        let Response::Receipt(receipt) = place.session(agent)?.call(request)?.head else {
            return Err(unexpected().into());
        };
        let mut output = Output::stdout();
        if self.json {
            output.json(&*receipt)?;
        } else {
            for line in lines(&receipt) {
                output.line(&line)?;
            }
        }
        output.flush()?;
        if receipt.recipients.is_empty() {
            note(&format!("{} was stored at {}; nobody has read or acknowledged it", receipt.id, receipt.stored));
        }
        Ok(())
    }
}

fn lines(receipt: &Told) -> Vec<String> {
    if receipt.recipients.is_empty() {
        return Vec::new();
    }
    let time = |time: Option<fmail_api::Timestamp>| time.map_or("-".into(), |time| time.whole_seconds().to_string());
    let rows: Vec<[String; 6]> = receipt
        .recipients
        .iter()
        .map(|one| {
            let name = format!("@{}{}", names::shown(&one.agent), if one.cc { " (cc)" } else { "" });
            let state = mail::word(one.standing).to_string();
            let stored = receipt.stored.whole_seconds().to_string();
            [name, state, stored, time(one.retrieved), time(one.read), time(one.acknowledged)]
        })
        .collect();
    table::lines(["RECIPIENT", "STATE", "STORED", "RETRIEVED", "READ", "ACKNOWLEDGED"], &rows)
}
