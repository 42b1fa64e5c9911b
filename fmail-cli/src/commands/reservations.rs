//! `fmail reservations`

use clap::Args;
use fmail_api::{HeldLease, Request, ReservationsRequest, Response, Timestamp};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note};
use crate::render::on_one_line;
use crate::session::{Place, now, unexpected};
use crate::{identity, leases, names, paths, table};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail reservations", "who holds what, and until when"),
    example("fmail reservations --path src/a.rs", "only what overlaps with this"),
    example("fmail reservations --mine --json", "a JSON array of your own"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Reservations {
    /// Only of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,

    /// Only those that overlap with this path or pattern
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// Only your own
    #[arg(long, conflicts_with = "agent")]
    mine: bool,

    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

impl Reservations {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let agent = match self.mine {
            true => Some(identity::required(&place.environment, "a reservation")?),
            false => self.agent.as_deref().map(names::agent).transpose()?,
        };
        let path = self.path.as_deref().map(|text| paths::pattern(place, text)).transpose()?;
        let session = place.session(identity::anyone(&place.environment)?)?;
        let request = Request::Reservations(ReservationsRequest { agent, path });
        let Response::Reservations(held) = session.call(request)?.head else {
            return Err(unexpected().into());
        };
        let mut output = Output::stdout();
        if self.json {
            output.json(&held)?;
        } else if held.is_empty() {
            note("nothing is reserved that fits");
        } else {
            rows(&held, now()).iter().try_for_each(|line| output.line(line))?;
        }
        output.flush()
    }
}

/// A table; below each reservation stands what is in conflict with it on other hosts.
fn rows(held: &[HeldLease], now: Timestamp) -> Vec<String> {
    let row = |HeldLease { lease, .. }: &HeldLease| {
        [
            on_one_line(&lease.pattern),
            lease.id.to_string(),
            match names::holder_elsewhere(lease) {
                Some(host) => format!("@{} on {host}", names::shown(&lease.agent)),
                None => format!("@{}", names::shown(&lease.agent)),
            },
            leases::mode(lease).to_string(),
            format!("{} ({})", lease.until.whole_seconds(), leases::left(lease.until.since(now))),
            lease.reason.as_deref().map(on_one_line).unwrap_or_default(),
        ]
    };
    let rows: Vec<[String; 6]> = held.iter().map(row).collect();
    let mut lines = table::lines(["PATTERN", "ID", "AGENT", "MODE", "UNTIL", "REASON"], &rows).into_iter();
    let mut shown: Vec<String> = lines.next().into_iter().collect();
    for (line, HeldLease { conflicts, .. }) in lines.zip(held) {
        shown.push(line);
        shown.extend(conflicts.iter().map(|other| format!("  conflicts with {}", leases::holder_on_host(other, now))));
    }
    shown
}

#[cfg(test)]
mod tests {
    use fmail_api::Lease;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_in_conflict_on_another_host_stands_below_with_its_holder_and_host() {
        let now: Timestamp = "2026-01-10T15:30:00Z".parse().unwrap();
        let lease = |agent: &str, pattern: &str, more: serde_json::Value| -> Lease {
            let mut value = json!({"id": 3, "agent": agent, "pattern": pattern, "exclusive": true,
                "since": "2026-01-10T15:00:00Z", "until": "2026-01-10T16:30:00Z"});
            value.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            serde_json::from_value(value).unwrap()
        };
        let elsewhere = json!({"host": "host-b.invalid", "node": "000000000000000000000000000000ff"});
        let (here, there) = (lease("alice", "src/a.rs", json!({})), lease("bob", "src/**", elsewhere));
        let held = [
            lease("carol", "docs", json!({})).into(),
            HeldLease { lease: here.clone(), conflicts: vec![there.clone()] },
            HeldLease { lease: there, conflicts: vec![here] },
        ];
        let lines = rows(&held, now);
        assert_eq!(lines.len(), 6, "{lines:#?}");
        assert!(lines[1].starts_with("docs") && lines[2].starts_with("src/a.rs"), "{lines:#?}");
        assert_eq!(
            lines[3],
            "  conflicts with @bob on host-b.invalid (src/**, exclusive, until 2026-01-10T16:30:00Z, 1h left)"
        );
        assert!(lines[5].starts_with("  conflicts with @alice on this host (src/a.rs,"), "{lines:#?}");
    }
}
