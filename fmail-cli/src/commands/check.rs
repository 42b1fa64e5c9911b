//! `fmail check` and `fmail count`

use clap::Args;
use fmail_api::{AgentName, MailCount, Request, Response};
use serde_json::json;

use crate::examples::{Example, example, help};
use crate::identity;
use crate::output::{Outcome, Output, Stop};
use crate::session::{Place, unexpected};

pub(crate) const EXAMPLES: &[Example] =
    &[example("fmail check && fmail inbox", "exit 0 with unread mail, 1 without, another code on failure")];

pub(crate) const COUNT_EXAMPLES: &[Example] = &[example("fmail count", "how much open mail you have")];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Check {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[command(after_help = help(COUNT_EXAMPLES))]
pub(crate) struct Count {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let (agent, count) = counted(place)?;
        let mut output = Output::stdout();
        if self.json {
            output.json(&json!({"agent": agent, "unread": count.unread, "total": count.total}))?;
        } else if count.unread > 0 {
            let messages = if count.unread == 1 { "message" } else { "messages" };
            output.line(&format!("{} unread {messages} for @{agent}", count.unread))?;
        }
        output.flush()?;
        if count.unread > 0 { Ok(()) } else { Err(Stop::Nothing) }
    }
}

impl Count {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let (agent, count) = counted(place)?;
        let mut output = Output::stdout();
        if self.json {
            output.json(&json!({"agent": agent, "unread": count.unread, "total": count.total}))?;
        } else {
            output.line(&format!("{} total, {} unread for @{agent}", count.total, count.unread))?;
        }
        output.flush()
    }
}

fn counted(place: &Place) -> Outcome<(AgentName, MailCount)> {
    let agent = identity::required(&place.environment, "an inbox")?;
    let session = place.session(agent.clone())?;
    let Response::Counted(count) = session.call(Request::Count)?.head else { return Err(unexpected().into()) };
    if count.total == 0 {
        place.note_uncopied(&session);
    }
    Ok((agent, count))
}
