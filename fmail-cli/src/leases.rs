//! Reservations as people and programs read them, and what the commands on them have in common.

use std::time::Duration;

use clap::Args;
use fmail_api::{
    Error, ErrorKind, Lease, LeaseSelection, LeasesChanged, Request, Response, Result, Timestamp, parse_duration,
};

use crate::output::{Outcome, Output, note};
use crate::render::on_one_line;
use crate::session::{Place, unexpected};
use crate::{identity, names, paths};

// Which of your reservations a command is about. No documentation: clap would take it for the command's.
#[derive(Args)]
pub(crate) struct Which {
    /// The paths or patterns, relative to the current directory, as they were reserved
    #[arg(value_name = "PATH")]
    paths: Vec<String>,

    /// The one with this number; can be given several times
    #[arg(long, value_name = "N")]
    id: Vec<u64>,

    /// All that you hold
    #[arg(long, conflicts_with_all = ["paths", "id"])]
    all: bool,
}

impl Which {
    fn selection(self, place: &Place) -> Result<LeaseSelection> {
        let paths = self.paths.iter().map(|text| paths::pattern(place, text)).collect::<Result<_>>()?;
        Ok(LeaseSelection { paths, ids: self.id, all: self.all })
    }

    /// Runs a request about these reservations and prints what changed, each as `shown` says. What was named and is not
    /// held is told, and is a failure.
    pub(crate) fn change(
        self,
        place: &Place,
        request: impl FnOnce(LeaseSelection) -> Request,
        json: bool,
        shown: impl Fn(&Lease) -> String,
    ) -> Outcome<LeasesChanged> {
        let agent = identity::required(&place.environment, "a reservation")?;
        let request = request(self.selection(place)?);
        let Response::LeasesChanged(answer) = place.session(agent)?.call(request)?.head else {
            return Err(unexpected().into());
        };
        let mut output = Output::stdout();
        if json {
            output.json(&answer)?;
        } else {
            answer.changed.iter().try_for_each(|lease| output.line(&shown(lease)))?;
        }
        output.flush()?;
        for skipped in &answer.skipped {
            note(&format!("{}: {}", on_one_line(&skipped.named), on_one_line(&skipped.reason)));
        }
        if answer.skipped.is_empty() {
            return Ok(answer);
        }
        let named = answer.skipped.len() + answer.changed.len();
        Err(Error::not_found(format!("{} of {named} reservations are not yours to change", answer.skipped.len()))
            .help("`fmail reservations --mine` lists what you hold")
            .into())
    }
}

/// How long a reservation shall last. Parts of a second are refused and not rounded: it would last shorter than said.
pub(crate) fn seconds(text: &str) -> Result<u64> {
    let time = parse_duration(text)?;
    if time.subsec_nanos() > 0 {
        return Err(Error::invalid(format!("`{text}` is not a whole number of seconds"))
            .help("a reservation lasts from 1s to 7d"));
    }
    Ok(time.as_secs())
}

/// `7 src/** until 2026-01-10T16:30:00Z`
pub(crate) fn line(lease: &Lease) -> String {
    format!("{} {} until {}", lease.id, on_one_line(&lease.pattern), lease.until.whole_seconds())
}

/// Who holds a lease, how, until when and why: `@bob (src/**, exclusive, until 2026-01-10T16:30:00Z, 42m left): auth`; with
/// the host behind the name, if it is another one.
pub(crate) fn holder(lease: &Lease, now: Timestamp) -> String {
    held_by(lease, names::holder_elsewhere(lease), now)
}

/// The same, where hosts are told apart: also this one is named.
pub(crate) fn holder_on_host(lease: &Lease, now: Timestamp) -> String {
    held_by(lease, names::holder_elsewhere(lease).or_else(|| Some("this host".into())), now)
}

fn held_by(lease: &Lease, host: Option<String>, now: Timestamp) -> String {
    let elsewhere = host.map(|host| format!(" on {host}")).unwrap_or_default();
    let (agent, pattern, until) = (&lease.agent, on_one_line(&lease.pattern), lease.until.whole_seconds());
    let reason = lease.reason.as_deref().map(|reason| format!(": {}", on_one_line(reason))).unwrap_or_default();
    format!("@{agent}{elsewhere} ({pattern}, {}, until {until}, {}){reason}", mode(lease), left(lease.until.since(now)))
}

/// Whether others may share it.
pub(crate) fn mode(lease: &Lease) -> &'static str {
    if lease.exclusive { "exclusive" } else { "shared" }
}

/// How long it still holds, in the largest unit that fits, never more than it is.
pub(crate) fn left(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=59 => format!("{seconds}s left"),
        seconds @ 60..=3_599 => format!("{}m left", seconds / 60),
        seconds @ 3_600..=86_399 => format!("{}h left", seconds / 3_600),
        seconds => format!("{}d left", seconds / 86_400),
    }
}

/// The failure of a command that did not get everything.
pub(crate) fn refused(what: String, help: &str) -> Error {
    Error::new(ErrorKind::Conflict, what).help(help)
}
