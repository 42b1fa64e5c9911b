//! `fmail status`

use clap::Args;
use fmail_api::{Request, Response, StatusChange, StatusRequest};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note};
use crate::session::{Place, unexpected};
use crate::{identity, render};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail status \"working on auth\"", "say it; `fmail who` shows it"),
    example("fmail status", "show what you said"),
    example("fmail status --clear", "say nothing any more"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Status {
    /// What you are doing; without it, your status is shown
    #[arg(conflicts_with = "clear")]
    text: Option<String>,

    /// Have no status
    #[arg(long)]
    clear: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let agent = identity::required(&place.environment, "a status")?;
        let change = match (self.text, self.clear) {
            (Some(text), _) => Some(StatusChange::Set(text)),
            (None, true) => Some(StatusChange::Clear),
            (None, false) => None,
        };
        let shown = change.is_none();
        let Response::Status(view) = place.session(agent)?.call(Request::Status(StatusRequest { change }))?.head else {
            return Err(unexpected().into());
        };
        let mut output = Output::stdout();
        match &view.status {
            _ if self.json => output.json(&view)?,
            Some(text) if shown && output.is_terminal() => output.line(&render::visible(text))?,
            Some(text) if shown => output.line(text)?,
            None if shown => note(&format!("{} has no status", view.name)),
            _ => {}
        }
        output.flush()
    }
}
