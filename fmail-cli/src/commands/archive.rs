//! `fmail archive`

use clap::Args;
use fmail_api::Mark;

use crate::examples::{Example, example, help};
use crate::mail::Which;
use crate::output::Outcome;
use crate::session::Place;

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail archive 0042", "done with it"),
    example("fmail archive --older-than 7d --from ci", "all that fit"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Archive {
    #[command(flatten)]
    which: Which,
}

impl Archive {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        self.which.mark(place, Mark::Archived, "archived")
    }
}
