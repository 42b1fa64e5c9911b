//! `fmail read` and `fmail peek`

use clap::Args;
use fmail_api::{Error, Mark, MarkRequest, ReadRequest, Request, Response};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output};
use crate::render::Style;
use crate::session::{Place, Session, unexpected};
use crate::{identity, mail};

pub(crate) const EXAMPLES: &[Example] =
    &[example("fmail read 0042", "the end of an id is enough"), example("fmail read 0042 --json", "with its state")];

pub(crate) const PEEK_EXAMPLES: &[Example] = &[example("fmail peek 0042", "look, and leave it unread")];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Read {
    #[command(flatten)]
    named: Named,

    /// The token under which the messages were claimed
    #[arg(long)]
    token: Option<String>,
}

#[derive(Args)]
#[command(after_help = help(PEEK_EXAMPLES))]
pub(crate) struct Peek {
    #[command(flatten)]
    named: Named,
}

#[derive(Args)]
struct Named {
    /// The ids of messages, or the ends of them
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Named {
    /// Prints the messages. Nothing changes by that.
    fn show(&self, place: &Place, session: &Session) -> Outcome {
        let request = ReadRequest { ids: self.ids.clone(), peek: true, token: None };
        let reply = session.call(Request::Read(request))?;
        let mut output = Output::stdout();
        let style = Style::choose(self.json, output.is_terminal(), |name| place.environment.var(name).map(Into::into));
        mail::print(reply, style, &mut output)?;
        output.flush()
    }
}

impl Peek {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let agent = identity::required(&place.environment, "a mailbox")?;
        self.named.show(place, &place.session(agent)?)
    }
}

impl Read {
    /// A message becomes read when it has been printed: what nobody could see is still unread.
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let agent = identity::required(&place.environment, "a mailbox")?;
        let session = place.session(agent)?;
        self.named.show(place, &session)?;
        let (ids, token) = (self.named.ids, self.token);
        let request = MarkRequest { mark: Mark::Read, ids, bulk: None, token, dry_run: false };
        let Response::Marked(marked) = session.call(Request::Mark(request))?.head else {
            return Err(unexpected().into());
        };
        // What one sent to others is shown, and it is theirs to read.
        let failed = |error: &Error| error.kind() != fmail_api::ErrorKind::Denied;
        match marked.into_iter().filter_map(|one| one.error).find(failed) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}
