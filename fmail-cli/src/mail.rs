//! Mail as people and programs read it, and what commands on mail have in common.

use clap::Args;
use fmail_api::{
    Bulk, Claim, Error, Event, Mail, Mark, MarkRequest, Marked, Reply, Request, Response, Result, Standing, Timestamp,
    parse_duration,
};
use futures::StreamExt;
use futures::executor::block_on;
use serde_json::{Value, json};

use crate::output::{Outcome, Output, note, notice, report};
use crate::render::{self, Style};
use crate::session::{Place, now, unexpected};
use crate::{identity, names};

// Which messages a command is about. (Not a doc comment: clap would show it as the description of the command.)
#[derive(Args)]
pub(crate) struct Which {
    /// The ids of messages, or the ends of them
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    /// Every message in your mailbox that this would change
    #[arg(long, conflicts_with = "ids")]
    all: bool,

    /// Those sent longer ago than this (90s, 30m, 2d)
    #[arg(long, value_name = "TIME", conflicts_with = "ids")]
    older_than: Option<String>,

    /// Those from this agent
    #[arg(long, value_name = "AGENT", conflicts_with = "ids")]
    from: Option<String>,

    /// The token under which the messages were claimed
    #[arg(long)]
    token: Option<String>,

    /// Only print what would be changed
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Which {
    /// Notes something about the messages and prints the id of each that changed. `done` is the word for it.
    pub(crate) fn mark(self, place: &Place, mark: Mark, done: &str) -> Outcome {
        let agent = identity::required(&place.environment, "a mailbox")?;
        let request = MarkRequest { mark, bulk: self.bulk()?, ids: self.ids, token: self.token, dry_run: self.dry_run };
        let Response::Marked(marked) = place.session(agent)?.call(Request::Mark(request))?.head else {
            return Err(unexpected().into());
        };
        let mut output = Output::stdout();
        for one in marked.iter().filter(|_| self.json) {
            output.json(one)?;
        }
        for one in marked.iter().filter(|one| !self.json && one.error.is_none()) {
            output.line(&one.id)?;
        }
        output.flush()?;
        told(&marked, done, self.dry_run)
    }

    fn bulk(&self) -> Result<Option<Bulk>> {
        let before = self.older_than.as_deref().map(parse_duration).transpose()?.map(|ago| now().before(ago));
        let from = self.from.as_deref().map(names::agent).transpose()?;
        let any = self.all || before.is_some() || from.is_some();
        Ok(any.then_some(Bulk { all: self.all, before, from }))
    }
}

/// Says what happened beside the ids: what was so already, what was unread, and what failed. The first failure decides
/// how the command ends.
fn told(marked: &[Marked], done: &str, dry_run: bool) -> Outcome {
    for one in marked.iter().filter(|one| one.already) {
        note(&format!("{} is already {done}", one.id));
    }
    let changed: Vec<&Marked> = marked.iter().filter(|one| one.error.is_none() && !one.already).collect();
    let unread = changed.iter().filter(|one| one.was_unread).count();
    if changed.len() > 1 {
        let verb = if dry_run { "would be " } else { "" };
        let unread = if unread == 0 { String::new() } else { format!(", {unread} of them unread") };
        note(&format!("{} messages {verb}{done}{unread}", changed.len()));
    }
    let mut errors: Vec<&Error> = marked.iter().filter_map(|one| one.error.as_ref()).collect();
    let last = errors.pop();
    errors.into_iter().for_each(report);
    last.map_or(Ok(()), |error| Err(error.clone().into()))
}

/// Prints the mail of an answer; how much there was, and the claim on it. Messages that are claimed together share one.
pub(crate) fn print(reply: Reply, style: Style, output: &mut Output) -> Outcome<(u64, Option<Claim>)> {
    let mut events = reply.events.ok_or_else(unexpected)?;
    let (now, mut count, mut claim) = (now(), 0, None);
    while let Some(event) = block_on(events.next()) {
        match event? {
            Event::Mail(mail) => {
                count += 1;
                output.line(&shown(&mail, style, now))?;
                claim = mail.state.claim.or(claim);
            }
            Event::Notice(told) => notice(&told),
            _ => {}
        }
    }
    Ok((count, claim))
}

/// One message with its state.
pub(crate) fn shown(mail: &Mail, style: Style, now: Timestamp) -> String {
    match style {
        Style::Json => as_json(mail).to_string(),
        _ => {
            let claimed = mail.state.live_claim(now).map(|claim| format!("claimed until {}", claim.until));
            let standing = mail.standing.filter(|standing| *standing != Standing::Unread).map(word);
            let marks: Vec<String> = standing.map(String::from).into_iter().chain(claimed).collect();
            let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
            render::message_with(&mail.message, style, now, &marks)
        }
    }
}

/// The message's own JSON with its state beside it.
pub(crate) fn as_json(mail: &Mail) -> Value {
    let mut value = json!(*mail.message);
    let mut state = json!(mail.state);
    if let (Some(state), Some(standing)) = (state.as_object_mut(), mail.standing) {
        state.insert("standing".into(), json!(standing));
    }
    if let Some(fields) = value.as_object_mut() {
        fields.insert("mail".into(), state);
    }
    value
}

/// What a message's state is called.
pub(crate) fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Unread => "unread",
        Standing::Expired => "expired",
        Standing::Read => "read",
        Standing::Acknowledged => "acknowledged",
        Standing::Archived => "archived",
        Standing::Deleted => "deleted",
    }
}
