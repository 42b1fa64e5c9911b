//! `fmail mark-read`

use clap::Args;
use fmail_api::Mark;

use crate::examples::{Example, example, help};
use crate::mail::Which;
use crate::output::Outcome;
use crate::session::Place;

pub(crate) const EXAMPLES: &[Example] =
    &[example("fmail mark-read 0042", "without printing it"), example("fmail mark-read --all", "everything")];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct MarkRead {
    #[command(flatten)]
    which: Which,
}

impl MarkRead {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        self.which.mark(place, Mark::Read, "read")
    }
}
