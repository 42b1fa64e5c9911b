//! `fmail delete`

use clap::Args;
use fmail_api::Mark;

use crate::examples::{Example, example, help};
use crate::mail::Which;
use crate::output::Outcome;
use crate::session::Place;

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail delete 0042", "gone for good, for you"),
    example("fmail delete --older-than 30d --dry-run", "show what would go"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Delete {
    #[command(flatten)]
    which: Which,
}

impl Delete {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        self.which.mark(place, Mark::Deleted, "deleted")
    }
}
