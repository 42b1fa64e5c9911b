//! `fmail unarchive`

use clap::Args;
use fmail_api::Mark;

use crate::examples::{Example, example, help};
use crate::mail::Which;
use crate::output::Outcome;
use crate::session::Place;

pub(crate) const EXAMPLES: &[Example] = &[example("fmail unarchive 0042", "not done with it after all")];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Unarchive {
    #[command(flatten)]
    which: Which,
}

impl Unarchive {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        self.which.mark(place, Mark::Unarchived, "open")
    }
}
