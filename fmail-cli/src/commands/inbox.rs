//! `fmail inbox`

use clap::Args;
use fmail_api::{Folder, InboxRequest, Request, Response, parse_duration};

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note};
use crate::render::Style;
use crate::session::{Place, unexpected};
use crate::{identity, mail, names};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail inbox", "what you have not read, the oldest first"),
    example("fmail inbox --all --json", "everything that is not archived"),
    example("fmail inbox --claim 5m -n 1 --json", "take one message for yourself; finish it with `fmail ack --token`"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Inbox {
    /// Also what has been read; without what is archived
    #[arg(long)]
    all: bool,

    /// What is archived
    #[arg(long, conflicts_with = "all")]
    archived: bool,

    /// Only from this agent
    #[arg(long, value_name = "AGENT")]
    from: Option<String>,

    /// At most this many, the oldest
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// Take messages that nobody works on, for this long (5m, 1h): other readers skip them until then
    #[arg(long, value_name = "TIME", conflicts_with_all = ["all", "archived"])]
    claim: Option<String>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Inbox {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let agent = identity::required(&place.environment, "an inbox")?;
        let request = InboxRequest {
            folder: match (self.all, self.archived) {
                (true, _) => Folder::Open,
                (_, true) => Folder::Archived,
                _ => Folder::Unread,
            },
            from: self.from.as_deref().map(names::agent).transpose()?,
            limit: usize::try_from(self.limit).ok(),
            // A part of a second is rounded up: whoever asks for a claim gets at least that long.
            claim_seconds: self
                .claim
                .as_deref()
                .map(parse_duration)
                .transpose()?
                .map(|time| time.as_millis().div_ceil(1000) as u64),
            ..InboxRequest::default()
        };
        let name = agent.clone();
        let session = place.session(agent)?;
        let reply = session.call(Request::Inbox(request))?;
        let Response::Mail { more } = reply.head else { return Err(unexpected().into()) };
        let mut output = Output::stdout();
        let style = Style::choose(self.json, output.is_terminal(), |name| place.environment.var(name).map(Into::into));
        let (count, claim) = mail::print(reply, style, &mut output)?;
        output.flush()?;
        if let Some(claim) = claim.filter(|_| self.claim.is_some() && !self.json) {
            note(&format!("claimed until {}; finish with `fmail ack ID --token {}`", claim.until, claim.token));
        }
        if more > 0 && self.claim.is_none() {
            note(&format!("{more} more, newer; -n shows more"));
        }
        if count == 0 && output.is_terminal() {
            note(&format!("nothing for @{name}"));
        }
        if count == 0 {
            place.note_uncopied(&session);
        }
        Ok(())
    }
}
