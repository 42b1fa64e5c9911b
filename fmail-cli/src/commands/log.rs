//! `fmail log`

use clap::Args;
use fmail_api::{Event, LogRequest, Reply, Request, Response, Target, Topic};
use fmail_core::near_names;
use futures::StreamExt;
use futures::executor::block_on;

use crate::examples::{Example, example, help};
use crate::follow::Follow;
use crate::output::{Outcome, Output, note, notice};
use crate::render::{self, Style};
use crate::session::{Place, Session, now, unexpected};
use crate::{identity, names, since};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail log", "topics and your own mailbox"),
    example("fmail log task -n 5", "the last 5 of a topic"),
    example("fmail log --since 1h", "the last hour"),
    example("fmail log @$FMAIL_AGENT", "your inbox"),
    example("fmail log task --follow", "and what arrives from now on"),
];

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Log {
    /// A topic, or @ and your own name; without it, all topics and your own mailbox
    #[arg(value_name = "TOPIC|@AGENT")]
    target: Option<String>,

    /// At most this many, the newest
    #[arg(short = 'n', long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// Only since then: 1h, 30m, 2026-01-10, an RFC 3339 time, now, or a message id
    #[arg(long, value_name = "TIME|ID")]
    since: Option<String>,

    /// Only from this sender
    #[arg(long, value_name = "AGENT")]
    from: Option<String>,

    /// Go on with what arrives, until interrupted
    #[arg(short, long)]
    follow: bool,

    /// Read the mailbox of another agent
    #[arg(long)]
    allow_other_dm: bool,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Log {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let target = self.target.as_deref().map(names::target).transpose()?;
        let agent = identity::reader(&place.environment, target.is_none())?;
        let request = Request::Log(LogRequest {
            target: target.clone(),
            limit: if self.nothing_stored() { Some(0) } else { usize::try_from(self.limit).ok() },
            since: self
                .since
                .as_deref()
                .filter(|_| !self.nothing_stored())
                .map(|text| since::parse(text, now()))
                .transpose()?,
            from: self.from.as_deref().map(names::agent).transpose()?,
            follow: self.follow,
            allow_other_dm: self.allow_other_dm,
        });
        let session = place.reading_session(agent, target.as_ref(), self.allow_other_dm)?;
        let mut output = Output::stdout();
        let style = Style::choose(self.json, output.is_terminal(), |name| place.environment.var(name).map(Into::into));
        if self.follow {
            let follow = Follow { place, session: &session, style, timeout: None, count: None, present: false };
            return follow.run(request, &mut output, |head| self.tell_more(head));
        }
        let reply = session.call(request)?;
        self.tell_more(&reply.head);
        let empty = print(reply, style, &mut output)?;
        output.flush()?;
        match target {
            Some(Target::Topic(topic)) if empty && self.since.is_none() && self.from.is_none() => {
                tell_empty(&session, &topic);
            }
            // A person wonders about an empty screen; a script tests for empty output.
            _ if empty && output.is_terminal() => note("no message matches"),
            _ => {}
        }
        if empty {
            place.note_uncopied(&session);
        }
        Ok(())
    }

    /// `--since now`: only what follows, with `--follow`.
    fn nothing_stored(&self) -> bool {
        self.since.as_deref().is_some_and(since::is_now)
    }

    fn tell_more(&self, head: &Response) {
        if let Response::Log { more: true } = head
            && !self.nothing_stored()
        {
            note(&format!("older messages match too; these are the newest {} (-n shows more)", self.limit));
        }
    }
}

/// Says that a topic holds nothing, and which topics may have been meant: a wrong name looks just like silence.
fn tell_empty(session: &Session, topic: &Topic) {
    // The suggestion is an extra: without the topics there is none.
    let known = match session.call(Request::Topics).map(|reply| reply.head) {
        Ok(Response::Topics(topics)) => topics.into_iter().map(|topic| topic.name).collect(),
        _ => Vec::new(),
    };
    let near = near_names(&topic.to_string(), known);
    let meant = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) };
    note(&format!("no messages in `{topic}`{meant}"));
}

/// Prints what is stored; whether there was nothing.
pub(crate) fn print(reply: Reply, style: Style, output: &mut Output) -> Outcome<bool> {
    let mut events = reply.events.ok_or_else(unexpected)?;
    let now = now();
    let mut empty = true;
    while let Some(event) = block_on(events.next()) {
        match event? {
            Event::Message(delivery) => {
                empty = false;
                output.line(&render::message(&delivery.message, style, now))?;
            }
            Event::Notice(told) => notice(&told),
            _ => {}
        }
    }
    Ok(empty)
}
