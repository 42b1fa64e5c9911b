//! `fmail check` and `fmail count`

use clap::Args;
use fmail_api::{AgentName, MailCount, Request, Response};
use serde_json::json;

use crate::examples::{Example, example, help};
use crate::identity;
use crate::inject::{self, HookAgent};
use crate::output::{Outcome, Output, Stop, notice};
use crate::session::{Place, unexpected};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail check && fmail inbox", "exit 0 with unread mail, 1 without, another code on failure"),
    example("fmail check --inject", "new mail as text for an agent's context; `fmail hook install` sets it up"),
];

pub(crate) const COUNT_EXAMPLES: &[Example] = &[example("fmail count", "how much open mail you have")];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Check {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print previews of mail that is new to this session, fenced, for an agent's context; nothing when there is none
    ///
    /// For hooks: always exits with 0, marks nothing, and says on one line when mail is unavailable. A session is told of a
    /// message once. Without FMAIL_AGENT it prints nothing. docs/hooks.md has it all.
    #[arg(long, conflicts_with = "json")]
    inject: bool,

    /// Print it in the form that the hooks of this agent take; without it as plain text
    #[arg(long = "for", value_name = "AGENT", requires = "inject")]
    hook_of: Option<HookAgent>,

    /// Whose mail it is in a session without FMAIL_AGENT
    #[arg(long, value_name = "NAME", requires = "inject")]
    agent: Option<String>,

    /// Which session is told; the hook's input names it otherwise
    #[arg(long, value_name = "ID", requires = "inject")]
    session: Option<String>,

    /// What happened in the session, as its agent calls it; the hook's input names it otherwise
    #[arg(long, value_name = "EVENT", requires = "inject")]
    event: Option<String>,

    /// How long looking for mail may take before it counts as unavailable
    #[arg(long, value_name = "TIME", default_value = inject::DEADLINE, requires = "inject")]
    deadline: String,
}

#[derive(Args)]
#[command(after_help = help(COUNT_EXAMPLES))]
pub(crate) struct Count {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    /// What a hook asks for, if a hook asks.
    pub(crate) fn injection(&self) -> Option<inject::Options> {
        self.inject.then(|| inject::Options {
            hook_of: self.hook_of,
            agent: self.agent.clone(),
            session: self.session.clone(),
            event: self.event.clone(),
            deadline: self.deadline.clone(),
        })
    }

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
    let Response::Counted { count, notices } = session.call(Request::Count)?.head else {
        return Err(unexpected().into());
    };
    notices.iter().for_each(notice);
    if count.total == 0 {
        place.note_uncopied(&session);
    }
    Ok((agent, count))
}
