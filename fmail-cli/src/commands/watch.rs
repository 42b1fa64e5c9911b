//! `fmail watch`

use clap::Args;
use fmail_api::{Request, WatchRequest, parse_duration};

use crate::examples::{Example, example, help};
use crate::follow::Follow;
use crate::output::{Outcome, Output};
use crate::render::Style;
use crate::session::{Place, now};
use crate::{identity, names, since};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail watch", "all topics and your own mailbox"),
    example("fmail watch task", "one topic"),
    example("fmail watch @$FMAIL_AGENT --count 1 --timeout 2m", "wait for the next direct message"),
    example("fmail watch @$FMAIL_AGENT --since $ID -c 1 --json", "the next one; an answer has reply_to $ID"),
    example("fmail watch --timeout 5m --json", "JSON lines for five minutes"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Watch {
    /// A topic, or @ and your own name; without it, all topics and your own mailbox
    #[arg(value_name = "TOPIC|@AGENT")]
    target: Option<String>,

    /// End after this time (90s, 5m, 1h); without it, never
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,

    /// End after this many messages
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// First print what is stored since then: 5m, a time, now, or a message id
    #[arg(long, value_name = "TIME|ID")]
    since: Option<String>,

    /// Watch the mailbox of another agent
    #[arg(long)]
    allow_other_dm: bool,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Watch {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let target = self.target.as_deref().map(names::target).transpose()?;
        let timeout = self.timeout.as_deref().map(parse_duration).transpose()?;
        // A watch starts now by itself. As a time, `now` would include what was sent earlier in the same second.
        let since = self.since.as_deref().filter(|text| !since::is_now(text));
        let since = since.map(|text| since::parse(text, now())).transpose()?;
        let agent = identity::reader(&place.environment, target.is_none())?;
        let session = place.reading_session(agent, target.as_ref(), self.allow_other_dm)?;
        let request = Request::Watch(WatchRequest { target, since, allow_other_dm: self.allow_other_dm });
        let mut output = Output::stdout();
        let style = Style::choose(self.json, output.is_terminal(), |name| place.environment.var(name).map(Into::into));
        // A made-up name ends with this process: nobody waits to see it renewed, or asks what reached it.
        let present = identity::named(&place.environment)?.is_some();
        Follow { place, session: &session, style, timeout, count: self.count, present }.run(
            request,
            &mut output,
            |_| (),
        )
    }
}
