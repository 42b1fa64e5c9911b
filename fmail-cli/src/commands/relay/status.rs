//! `fmail relay status`

use clap::Args;
use fmail_api::{Error, ErrorKind, RelayView, Request, Response, Result};
use serde_json::{Value, json};

use super::table;
use crate::connected::Daemon;
use crate::identity;
use crate::output::{Outcome, Output, Stop, advise, note};
use crate::session::{Place, now, unexpected};

#[derive(Args)]
pub(crate) struct Status {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let view = asked(place)?;
        let links = || view.relays.iter().flat_map(|relay| &relay.links);
        let up = links().all(|link| link.connected) && links().next().is_some();
        let mut output = Output::stdout();
        if self.json {
            output.json(&as_json(&view, up))?;
        } else {
            table::lines(&view, now()).iter().try_for_each(|line| output.line(line))?;
        }
        output.flush()?;
        if !self.json {
            view.notes.iter().for_each(|text| note(text));
            if let Some(strangers) = &view.strangers {
                note(&table::strangers(strangers, now()));
            }
            if links().next().is_none() {
                without_links(&view);
            }
        }
        if up { Ok(()) } else { Err(Stop::Nothing) }
    }
}

/// What the project's daemon says: nobody else knows.
fn asked(place: &Place) -> Result<RelayView> {
    let agent = identity::anyone(&place.environment)?;
    let Some(daemon) = Daemon::answering(place, &agent)? else {
        return Err(Error::new(ErrorKind::Unavailable, "no forged serves this project, so nothing is relayed")
            .help(format!("start `forged` in {}", place.project.root.display())));
    };
    let context = fmail_api::Context::local(agent);
    let asked = futures::executor::block_on(fmail_api::Client::call(&daemon, &context, Request::RelayStatus));
    match asked?.head {
        Response::RelayStatus(view) => Ok(*view),
        _ => Err(unexpected()),
    }
}

/// Says how to get a link.
fn without_links(view: &RelayView) {
    match view.relays.is_empty() {
        true => note("nothing is relayed here: no other host is paired or configured"),
        false => note("a relay runs here, and has no links"),
    }
    advise(
        "pair two hosts with `fmail relay invite` on the one and `fmail relay join` on the other; or set \
         mail.relay.enabled = true and mail.relay.peers in your own configuration (`fmail config path`)",
    );
}

/// The daemon's answer, and the one word that the exit code says.
fn as_json(view: &RelayView, up: bool) -> Value {
    let mut value = json!(view);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("up".into(), up.into());
        fields.entry("notes").or_insert_with(|| json!([]));
    }
    value
}
