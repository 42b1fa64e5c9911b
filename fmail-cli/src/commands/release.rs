//! `fmail release`

use clap::Args;
use fmail_api::{Lease, ReleaseRequest, Request};

use crate::examples::{Example, example, help};
use crate::leases::Which;
use crate::output::{Outcome, note};
use crate::render::on_one_line;
use crate::session::Place;

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail release 'src/auth/**'", "give back what was reserved with this pattern"),
    example("fmail release --id 7 --id 8", "by their numbers"),
    example("fmail release --all", "everything that you hold"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Release {
    #[command(flatten)]
    which: Which,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Release {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let request = |which| Request::Release(ReleaseRequest { which });
        let shown = |lease: &Lease| format!("{} {}", lease.id, on_one_line(&lease.pattern));
        let answer = self.which.change(place, request, self.json, shown)?;
        if answer.changed.is_empty() {
            note("you hold no reservation");
        }
        Ok(())
    }
}
