//! `fmail gc`

use clap::Args;
use fmail_api::{Event, GcRequest, Request, Response};
use futures::StreamExt;
use futures::executor::block_on;

use crate::examples::{Example, example, help};
use crate::identity;
use crate::output::{Outcome, Output, note, notice};
use crate::session::{Place, unexpected};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail gc", "messages older than 7 days"),
    example("fmail gc --days 1", "messages older than a day"),
    example("fmail gc --dry-run", "show what would be removed"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Gc {
    /// Older than this many days; 0 means all but future-dated ones; without it, mail.gc.days (7)
    #[arg(long, value_name = "N")]
    days: Option<u32>,

    /// Print what would be removed, one path below .fmail a line, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

impl Gc {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let days = self.days.unwrap_or(place.settings.mail.gc.days);
        let session = place.session(identity::anyone(&place.environment)?)?;
        let reply = session.call(Request::Gc(GcRequest { days, dry_run: self.dry_run }))?;
        let (Response::Collecting(report), Some(mut events)) = (reply.head, reply.events) else {
            return Err(unexpected().into());
        };
        let mut output = Output::stdout();
        let mut count: u64 = 0;
        let mut failed = None;
        while let Some(event) = block_on(events.next()) {
            match event {
                Ok(Event::Swept(removed)) => {
                    count += 1;
                    if report.dry_run {
                        output.line(&removed.place)?;
                    }
                }
                Ok(Event::Notice(told)) => notice(&told),
                Ok(_) => {}
                // What went is told even when the rest did not.
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        output.flush()?;
        let verb = if report.dry_run { "would remove" } else { "removed" };
        let messages = if count == 1 { "message" } else { "messages" };
        note(&format!("{verb} {count} {messages} from before {} ({days} days)", report.before.whole_seconds()));
        failed.map_or(Ok(()), |error| Err(error.into()))
    }
}
