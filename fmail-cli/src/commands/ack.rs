//! `fmail ack`

use clap::Args;
use fmail_api::Mark;

use crate::examples::{Example, example, help};
use crate::mail::Which;
use crate::output::Outcome;
use crate::session::Place;

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail ack 0042", "read and agreed to; the sender can see it"),
    example("fmail ack 0042 --token $TOKEN", "finish a message that you claimed"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Ack {
    #[command(flatten)]
    which: Which,
}

impl Ack {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        self.which.mark(place, Mark::Acknowledged, "acknowledged")
    }
}
