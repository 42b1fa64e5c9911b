//! `fmail renew`

use clap::Args;
use fmail_api::{Error, RenewRequest, Request};

use crate::examples::{Example, example, help};
use crate::leases::{self, Which};
use crate::output::Outcome;
use crate::session::Place;

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail renew --all", "everything that you hold, for an hour from now"),
    example("fmail renew 'src/auth/**' --ttl 2h", "one of them"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Renew {
    #[command(flatten)]
    which: Which,

    /// For how long from now, from 1s to 7d
    #[arg(long, value_name = "TIME", default_value = "1h")]
    ttl: String,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Renew {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let ttl_seconds = leases::seconds(&self.ttl)?;
        let request = |which| Request::Renew(RenewRequest { which, ttl_seconds, at_least: false });
        let answer = self.which.change(place, request, self.json, leases::line)?;
        if answer.changed.is_empty() {
            // Who renews relies on holding something.
            return Err(Error::not_found("you hold no reservation, so that nothing was renewed")
                .help("reserve the paths again with `fmail reserve`")
                .into());
        }
        Ok(())
    }
}
