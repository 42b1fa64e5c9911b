//! `fmail register`

use clap::Args;
use fmail_api::{RegisterRequest, Request, Response};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note};
use crate::session::{Place, unexpected};
use crate::{identity, names};

pub(crate) const EXAMPLES: &[Example] = &[
    example("export FMAIL_AGENT=$(fmail register)", "a generated name"),
    example("fmail register agent-42", "this name, or an error when it is taken"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Register {
    /// The name; without it, one is generated
    name: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Register {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let name = self.name.as_deref().map(names::agent).transpose()?;
        let session = place.session(identity::anyone(&place.environment)?)?;
        let request = Request::Register(RegisterRequest { name, ..RegisterRequest::default() });
        let Response::Registered(registered) = session.call(request)?.head else {
            return Err(unexpected().into());
        };
        let mut output = Output::stdout();
        if self.json {
            output.json(&registered)?;
        } else {
            output.line(registered.name.as_str())?;
        }
        output.flush()?;
        if identity::named(&place.environment)?.is_none_or(|agent| agent != registered.name) {
            note(&format!("the name is yours; export FMAIL_AGENT={} to act under it", registered.name));
        }
        Ok(())
    }
}
