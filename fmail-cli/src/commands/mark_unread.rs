//! `fmail mark-unread`

use clap::Args;
use fmail_api::Mark;

use crate::examples::{Example, example, help};
use crate::mail::Which;
use crate::output::Outcome;
use crate::session::Place;

pub(crate) const EXAMPLES: &[Example] = &[example("fmail mark-unread 0042", "it is in your inbox again")];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct MarkUnread {
    #[command(flatten)]
    which: Which,
}

impl MarkUnread {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        self.which.mark(place, Mark::Unread, "unread")
    }
}
