//! `fmail relay peers`

use clap::Args;
use fmail_api::Timestamp;
use fmail_host::pairing::{Pairing, Pairings, Side};
use serde_json::{Value, json};

use crate::output::{Outcome, Output, advise, note, report};
use crate::session::{Place, now};
use crate::table;

#[derive(Args)]
pub(crate) struct Peers {
    /// The pairings of all projects of this user, not only of this one
    #[arg(long)]
    all: bool,

    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// A peer, as it is shown.
struct Row {
    name: String,
    kind: &'static str,
    address: String,
    state: String,
    json: Value,
}

impl Peers {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let listed = Pairings::of(&place.environment)?.all()?;
        listed.problems.iter().for_each(report);
        let root = std::fs::canonicalize(&place.project.root).unwrap_or_else(|_| place.project.root.clone());
        let own = listed.pairings.iter().filter(|pairing| self.all || pairing.root == root);
        let now = now();
        let row = |pairing| with_later(paired(pairing, now), pairing, &listed.pairings);
        let rows: Vec<Row> = own.map(row).chain(configured(place)).collect();
        let mut output = Output::stdout();
        if self.json {
            output.json(&rows.iter().map(|row| &row.json).collect::<Vec<_>>())?;
        } else if rows.is_empty() {
            note("this host was paired with no other one for this project");
            advise("`fmail relay invite` makes an invitation, `fmail relay join` accepts one");
        } else {
            let shown: Vec<[String; 4]> =
                rows.into_iter().map(|row| [row.name, row.kind.to_string(), row.address, row.state]).collect();
            for line in table::lines(["PEER", "KIND", "ADDRESS", "STATE"], &shown) {
                output.line(&line)?;
            }
        }
        output.flush()
    }
}

fn paired(pairing: &Pairing, now: Timestamp) -> Row {
    let address = pairing.address.to_string();
    let root = pairing.root.display().to_string();
    let mut json = json!({"name": pairing.name, "id": pairing.id, "project": pairing.project, "root": root,
        "address": address, "made": pairing.made});
    let (kind, word, state) = match &pairing.side {
        Side::Invited { accepted: Some(accepted), .. } => {
            json["accepted"] = json!(accepted.at);
            json["host"] = json!(accepted.host);
            ("invited", "paired", format!("paired since {}", accepted.at.whole_seconds()))
        }
        Side::Invited { expires, .. } => {
            json["expires"] = json!(expires);
            match *expires <= now {
                true => ("invited", "expired", format!("expired at {}", expires.whole_seconds())),
                false => ("invited", "waiting", format!("can be accepted until {}", expires.whole_seconds())),
            }
        }
        Side::Joined { confirmed: Some(_), .. } => {
            ("joined", "paired", format!("paired since {}", pairing.made.whole_seconds()))
        }
        Side::Joined { confirmed: None, .. } => (
            "joined",
            "waiting",
            format!("not answered yet; the invitation was kept at {}", pairing.made.whole_seconds()),
        ),
    };
    json["kind"] = kind.into();
    json["state"] = word.into();
    if let Side::Invited { listen, .. } = &pairing.side {
        json["listen"] = json!(listen);
    }
    Row { name: pairing.name.clone(), kind, address, state, json }
}

/// The same, with the name of a later pairing of the same host, by which it comes.
fn with_later(mut row: Row, pairing: &Pairing, all: &[Pairing]) -> Row {
    let Some((node, at)) = pairing.accepted_by() else { return row };
    let of_project = |other: &&Pairing| (&other.project, &other.root) == (&pairing.project, &pairing.root);
    let later = |other: &&Pairing| other.accepted_by().is_some_and(|(other, since)| other == node && since > at);
    if let Some(other) = all.iter().filter(of_project).find(later) {
        row.state = format!("{}; the same host as {}", row.state, other.name);
        row.json["same_host"] = json!(other.name);
    }
    row
}

/// The peers that the configuration names.
fn configured(place: &Place) -> Vec<Row> {
    let (relay, untrusted) = (&place.settings.mail.relay, place.settings.untrusted());
    let trusted = !untrusted.iter().any(|key| matches!(*key, "mail.relay.peers" | "mail.relay.enabled"));
    let (word, state) = match (trusted, relay.enabled) {
        (false, _) => ("untrusted", "not dialled: the project's own file says so, and it is not trusted"),
        (true, false) => ("disabled", "not dialled: mail.relay.enabled is false"),
        (true, true) => ("dialled", "dialled"),
    };
    let row = |peer: &String| Row {
        name: peer.clone(),
        kind: "configured",
        address: peer.clone(),
        state: state.to_string(),
        json: json!({"name": peer, "address": peer, "kind": "configured", "state": word}),
    };
    relay.peers.iter().map(row).collect()
}
