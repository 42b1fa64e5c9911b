//! `fmail search`

use clap::Args;
use fmail_api::{Request, Response, SearchRequest};

use super::log::print;
use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note};
use crate::render::Style;
use crate::session::{Place, now, unexpected};
use crate::{identity, since};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail search parser timeout", "both words, anywhere in subject, body or tags"),
    example("fmail search '\"tests failed\" OR timeout*'", "a phrase, or words that begin so"),
    example("fmail search 'from:build-bot topic:ci NOT flaky' --since 1d", "by sender and topic"),
    example("fmail search -n 100 --json subject:release", "the newest 100, as JSON lines"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Search {
    /// What to look for: words, "a phrase", begin*, from:name, and AND, OR, NOT; several arguments are one query
    #[arg(value_name = "QUERY", required = true)]
    query: Vec<String>,

    /// At most this many, the newest
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// Only since then: 1h, 30m, 2026-01-10, an RFC 3339 time, or a message id
    #[arg(long, value_name = "TIME|ID")]
    since: Option<String>,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Search {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let request = SearchRequest {
            query: self.query.join(" "),
            limit: usize::try_from(self.limit).ok(),
            since: self.since.as_deref().map(|text| since::parse(text, now())).transpose()?,
        };
        let agent = identity::reader(&place.environment, true)?;
        let reply = place.session(agent)?.call(Request::Search(request))?;
        let Response::Found { more } = reply.head else { return Err(unexpected().into()) };
        let mut output = Output::stdout();
        let style = Style::choose(self.json, output.is_terminal(), |name| place.environment.var(name).map(Into::into));
        let empty = print(reply, style, &mut output)?;
        output.flush()?;
        if more {
            note(&format!("older messages match too; these are the newest {} (-n shows more)", self.limit));
        }
        // A person wonders about an empty screen; a script tests for empty output.
        if empty && output.is_terminal() {
            note("no message matches");
        }
        Ok(())
    }
}
