//! `fmail register`

use clap::Args;
use fmail_api::{AgentName, Error, RegisterRequest, Registered, Request, Response};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, Stop, note};
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
        match print(&registered, self.json) {
            Err(Stop::Failed(error)) => return Err(not_printed(&registered.name, &error).into()),
            Ok(()) | Err(Stop::ReaderGone | Stop::Nothing) => {}
        }
        if identity::named(&place.environment)?.is_none_or(|agent| agent != registered.name) {
            note(&format!("the name is yours; export FMAIL_AGENT={} to act under it", registered.name));
        }
        Ok(())
    }
}

fn print(registered: &Registered, json: bool) -> Outcome {
    let mut output = Output::stdout();
    if json {
        output.json(registered)?;
    } else {
        output.line(registered.name.as_str())?;
    }
    output.flush()
}

/// The name is claimed although it could not be printed. Whoever tries again what failed would claim another one, or be
/// told that this one is taken, so this is no failure that may pass.
fn not_printed(name: &AgentName, error: &Error) -> Error {
    Error::internal(format!("the name `{name}` is yours, but {error}; do not register again"))
        .help(format!("export FMAIL_AGENT={name}, and repair where standard output leads to"))
}
