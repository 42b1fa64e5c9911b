//! `fmail reserve`

use clap::Args;
use fmail_api::{LeaseConflict, Request, ReserveRequest, Reserved, Response, Result};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note};
use crate::render::on_one_line;
use crate::session::{Place, now, unexpected};
use crate::{identity, leases, paths};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail reserve 'src/auth/**' --exclusive --reason \"new login\"", "nobody else gets these for an hour"),
    example("fmail reserve Cargo.toml docs --ttl 30m", "shared: only those who want them alone are refused"),
    example("fmail reserve src/a.rs --exclusive --json", "what was granted, and who stands in the way"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Reserve {
    /// Paths or patterns (*, **, ?, [a-z], {a,b}) relative to the current directory; a directory covers what is below it
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,

    /// For how long, from 1s to 7d
    #[arg(long, value_name = "TIME", default_value = "1h")]
    ttl: String,

    /// Alone: nobody else may hold anything that overlaps
    #[arg(long)]
    exclusive: bool,

    /// Why, for those who want the same
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Reserve {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let agent = identity::required(&place.environment, "a reservation")?;
        let request = ReserveRequest {
            paths: self.paths.iter().map(|text| paths::pattern(place, text)).collect::<Result<_>>()?,
            ttl_seconds: leases::seconds(&self.ttl)?,
            exclusive: self.exclusive,
            reason: self.reason,
        };
        let Response::Reserved(answer) = place.session(agent)?.call(Request::Reserve(request))?.head else {
            return Err(unexpected().into());
        };
        let mut output = Output::stdout();
        if self.json {
            output.json(&answer)?;
        } else {
            answer.granted.iter().try_for_each(|lease| output.line(&leases::line(lease)))?;
        }
        output.flush()?;
        told(&answer)
    }
}

/// Says what was not granted, and who stands in the way.
///
/// What is held on another host was granted all the same: between hosts conflicts are shown, not prevented. It is a conflict
/// for whoever asked, so that `fmail reserve X && edit X` stops there.
fn told(answer: &Reserved) -> Outcome {
    let granted = |conflict: &&LeaseConflict| answer.granted.iter().any(|lease| lease.pattern == conflict.path);
    let (elsewhere, refused): (Vec<_>, Vec<_>) = answer.conflicts.iter().partition(granted);
    refused.iter().for_each(|conflict| in_the_way(conflict, "is"));
    elsewhere.iter().for_each(|conflict| in_the_way(conflict, "was granted to you here, and is"));
    let all = refused.len() + answer.granted.len();
    match (refused.len(), elsewhere.len()) {
        (0, 0) => Ok(()),
        (0, both) => {
            let what = format!("{both} of {all} patterns were granted here, and are held on another host too");
            Err(leases::refused(what, ELSEWHERE).into())
        }
        (refused, 0) => Err(leases::refused(format!("{refused} of {all} patterns were not granted"), HERE).into()),
        (refused, both) => {
            let what = format!(
                "{refused} of {all} patterns were not granted, and {both} were granted here and are held on another host too"
            );
            Err(leases::refused(what, ELSEWHERE).into())
        }
    }
}

const HERE: &str = "ask the holder (fmail send @NAME …), wait, or reserve paths that do not overlap";
const ELSEWHERE: &str = "ask the holder (fmail send @NAME …); give yours back with `fmail release PATH`; or go ahead knowing \
                         that both work there";

fn in_the_way(conflict: &LeaseConflict, held: &str) {
    let now = now();
    for (place, lease) in conflict.holders.iter().enumerate() {
        let example = conflict.example.as_deref().filter(|_| place == 0);
        let example = example.map(|path| format!("; both cover {}", on_one_line(path))).unwrap_or_default();
        note(&format!("{} {held} held by {}{example}", on_one_line(&conflict.path), leases::holder(lease, now)));
    }
}
