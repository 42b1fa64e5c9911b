//! `fetch_inbox`: an agent's mail, the newest first. Nothing changes, not even that it was seen.

use fmail_api::Timestamp;
use futures::{StreamExt, TryStreamExt};
use serde_json::json;

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::Result;
use crate::names::{self, Directory};
use crate::rows::{Rows, is_urgent};
use crate::tool::{AGENT, Answer, Effect, Listed, PROJECT, Parameter, Takes, Tool};
use crate::visit::{Letter, Project, Visit};
use crate::{ids, threads};

/// The most messages in an answer.
pub(crate) const MOST: u64 = 1000;

pub(super) static TOOL: Tool = Tool {
    name: "fetch_inbox",
    about: "An agent's messages, newest first; changes nothing.",
    offered: Profile::Minimal,
    effect: Effect::Reads,
    parameters: &[
        PROJECT,
        AGENT,
        Parameter::optional("limit", Takes::Number(1, MOST)).about("Default 20."),
        Parameter::optional("unread_only", Takes::Flag),
        Parameter::optional("urgent_only", Takes::Flag).about("Needs acknowledgement, or high importance."),
        Parameter::optional("include_bodies", Takes::Flag),
        Parameter::optional("since_ts", Takes::Text).about("ISO-8601."),
        Parameter::optional("thread_id", Takes::Text),
    ],
    ignored: &[],
    refused: &[("topic", "An inbox has no topics; use thread_id.")],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let wanted = Wanted {
        agent: arguments.required("agent_name")?,
        limit: arguments.number("limit").unwrap_or(20),
        unread_only: arguments.flag("unread_only").unwrap_or_default(),
        urgent_only: arguments.flag("urgent_only").unwrap_or_default(),
        bodies: arguments.flag("include_bodies").unwrap_or_default(),
        since: arguments.time("since_ts")?,
        thread: arguments.words("thread_id"),
    };
    Ok(Answer::List(wanted.fetch(&project).await?.list))
}

/// Which mail is wanted.
pub(crate) struct Wanted<'a> {
    /// Whose.
    pub(crate) agent: &'a str,
    /// At most so many.
    pub(crate) limit: u64,
    /// Only what is unread.
    pub(crate) unread_only: bool,
    /// Only what should be looked at first.
    pub(crate) urgent_only: bool,
    /// With the texts.
    pub(crate) bodies: bool,
    /// Only what was sent after this.
    pub(crate) since: Option<Timestamp>,
    /// Only of this thread.
    pub(crate) thread: Option<&'a str>,
}

/// An agent's mail.
pub(crate) struct Fetched {
    /// The agent, as it is shown.
    pub(crate) agent: String,
    /// Its messages.
    pub(crate) list: Listed,
}

impl Wanted<'_> {
    /// Looks into the mailbox.
    pub(crate) async fn fetch(&self, project: &Project) -> Result<Fetched> {
        let agent = names::agent("agent_name", self.agent)?;
        let thread = match self.thread {
            Some(text) => Some(threads::named(project, text).await?),
            None => None,
        };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        // What is left out below cannot be left out by the operation, so that it is not told the limit then. One more than
        // is shown tells that there are more.
        let filtered = self.urgent_only || self.since.is_some();
        let request = json!({
            "folder": if self.unread_only { "unread" } else { "open" },
            "newest": true,
            "thread": thread,
            "since": self.since,
            "limit": Some(limit.saturating_add(1)).filter(|_| !filtered),
        });
        let letters = project.desk(&agent).mail("check", request).await?.1;
        let fits = letters.try_filter(|letter| std::future::ready(self.fits(letter)));
        let mut letters: Vec<Letter> = fits.take(limit.saturating_add(1)).try_collect().await?;
        let more = letters.len() > limit;
        letters.truncate(limit);
        let senders = letters.iter().map(|letter| &letter.message.from);
        let directory = Directory::of(project, senders.chain([&agent])).await?;
        if !directory.knows(&agent) {
            return Err(names::not_found(project, self.agent).await);
        }
        let shown = directory.shown(&agent);
        let rows = Rows::new(project, directory);
        let rows = letters.iter().map(|letter| rows.letter(&agent, letter, self.bodies).into()).collect();
        Ok(Fetched { agent: shown, list: Listed { rows, more, note: None } })
    }

    /// Times of messages have whole seconds, and the operation keeps the whole second in which `since` lies.
    fn fits(&self, letter: &Letter) -> bool {
        let sent = ids::sent(letter.message.id, letter.message.time);
        self.since.is_none_or(|since| sent > since) && (!self.urgent_only || is_urgent(&letter.message))
    }
}
