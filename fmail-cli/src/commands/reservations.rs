//! `fmail reservations`

use clap::Args;
use fmail_api::{Lease, Request, ReservationsRequest, Response};

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
            rows(&held).iter().try_for_each(|line| output.line(line))?;
        }
        output.flush()
    }
}

fn rows(held: &[Lease]) -> Vec<String> {
    let now = now();
    let row = |lease: &Lease| {
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
    table::lines(["PATTERN", "ID", "AGENT", "MODE", "UNTIL", "REASON"], &rows)
}
