//! `wait_for_message`: returns when there is mail that the agent has not been told about.
//!
//! That is, unless the call says from where on: mail that is unread and was not retrieved, by an earlier wait, by
//! `fmail inbox` or by a watch. What is returned counts as retrieved from then on, so that the next wait waits; it stays
//! unread. `fetch_inbox` leaves no such trace, and what it has shown is told once more.
//!
//! With `after_id` or `since_ts` it is the mail that came behind that message, or was sent after that time, told or not.
//!
//! The watch is opened before the mailbox is looked at: whatever arrives in between is in the one or in the other. A nudge
//! ends the wait, too. Nothing polls.

use std::time::{Duration, Instant};

use fmail_api::{AgentName, MessageId, Nudge, Timestamp};
use futures::future::{Either, select};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use futures_timer::Delay;
use serde_json::{Value, json};

use crate::Profile;
use crate::arguments::Arguments;
use crate::errors::{Failure, Result};
use crate::ids;
use crate::names::{self, Directory};
use crate::rows::Rows;
use crate::tool::{AGENT, Answer, Effect, PROJECT, Parameter, Takes, Tool};
use crate::visit::{Letter, Project, Visit, letter};

/// The longest wait, in seconds.
const LONGEST: u64 = 600;
/// So much of the time that the client waits is kept for the answer.
const MARGIN: Duration = Duration::from_millis(500);
/// At most so many messages are told at once, the oldest. The next wait tells the others, and the answer says so.
const MOST: usize = 100;

pub(super) static TOOL: Tool = Tool {
    name: "wait_for_message",
    about: "Wait until there is mail that the agent was not told about, at most timeout_seconds; returns it with bodies, or \
            `timed_out`. Marks nothing as read.",
    offered: Profile::Standard,
    effect: Effect::Settles,
    parameters: &[
        PROJECT,
        AGENT,
        Parameter::optional("timeout_seconds", Takes::Number(0, LONGEST)).about("Default 60."),
        Parameter::optional("after_id", Takes::Message).about("Any mail behind this message, told or not."),
        Parameter::optional("since_ts", Takes::Text).or(&["since"]),
    ],
    ignored: &[],
    refused: &[],
    run: |visit, arguments| Box::pin(run(visit, arguments)),
};

async fn run(visit: &Visit, arguments: Arguments) -> Result<Answer> {
    let project = visit.project(arguments.required("project_key")?).await?;
    let agent = names::known(&project, "agent_name", arguments.required("agent_name")?).await?.name;
    let after = arguments.text("after_id").map(|_| arguments.message("after_id")).transpose()?;
    let from = match (after, arguments.time("since_ts")?) {
        (Some(_), Some(_)) => {
            return Err(Failure::argument("after_id and since_ts exclude each other. Give one of them."));
        }
        (Some(id), None) => From::Message(id),
        (None, Some(time)) => From::Time(time),
        (None, None) => From::WhatWasTold,
    };
    let asked = Duration::from_secs(arguments.number("timeout_seconds").unwrap_or(60));
    let allowed = visit.peer.deadline.map_or(asked, |deadline| deadline.saturating_sub(MARGIN).min(asked));
    let waiting = Waiting { project: &project, agent: &agent, from };
    let begun = Instant::now();
    let woken = waiting.until(Delay::new(allowed), allowed.is_zero()).await?;
    let mut answer = waiting.answer(woken, begun.elapsed()).await?;
    if allowed < asked && answer["timed_out"] == true {
        answer["note"] = format!(
            "{} seconds were asked for, and this server answers a request after {} at the latest; call again to go on \
             waiting.",
            asked.as_secs(),
            allowed.as_secs_f64()
        )
        .into();
    }
    Ok(Answer::Object(answer))
}

/// From where on mail counts.
enum From {
    /// What the agent was told about does not.
    WhatWasTold,
    /// What came behind this message.
    Message(MessageId),
    /// What was sent after this.
    Time(Timestamp),
}

struct Waiting<'a> {
    project: &'a Project,
    agent: &'a AgentName,
    from: From,
}

/// Why a wait ended.
#[derive(Default)]
struct Woken {
    letters: Vec<Letter>,
    nudge: Option<Nudge>,
}

impl Waiting<'_> {
    async fn until(&self, timeout: Delay, at_once: bool) -> Result<Woken> {
        let target = format!("@{}", self.agent);
        let desk = self.project.desk(self.agent);
        let mut events = desk.answer("watch", json!({"topic": target})).await?.1;
        let letters = self.look().await?;
        if !letters.is_empty() || at_once {
            return Ok(Woken { letters, nudge: None });
        }
        let woken = {
            let arrival = std::pin::pin!(self.arrival(&mut events));
            match select(arrival, timeout).await {
                Either::Left((arrived, _)) => arrived?,
                Either::Right(_) => return Ok(Woken::default()),
            }
        };
        // What else has come meanwhile is told with it. The message that ended the wait is told in any case: another wait
        // for the same agent may have noted it already.
        let mut letters = self.look().await?;
        if let Some(arrived) = woken.letters.into_iter().next()
            && !letters.iter().any(|letter| letter.message.id == arrived.message.id)
        {
            letters.push(arrived);
        }
        Ok(Woken { letters, nudge: woken.nudge })
    }

    /// The mail that counts, the oldest first.
    async fn look(&self) -> Result<Vec<Letter>> {
        let request = match &self.from {
            From::WhatWasTold => json!({"folder": "unread"}),
            From::Message(id) => json!({"folder": "open", "since": id}),
            From::Time(time) => json!({"folder": "open", "since": time}),
        };
        let letters = self.project.desk(self.agent).mail("check", request).await?.1;
        let counted = letters.try_filter(|letter| std::future::ready(self.counts(letter)));
        Ok(counted.take(MOST + 1).try_collect().await?)
    }

    fn counts(&self, letter: &Letter) -> bool {
        match &self.from {
            From::WhatWasTold => letter.state.retrieved.is_none(),
            From::Message(id) => letter.message.id != *id,
            From::Time(time) => ids::sent(letter.message.id, letter.message.time) > *time,
        }
    }

    /// The next thing that ends the wait.
    async fn arrival(&self, events: &mut BoxStream<'static, Result<Value, fmail_api::Error>>) -> Result<Woken> {
        while let Some(event) = events.next().await {
            let mut event = event?;
            if event.get("msg").is_some() {
                let arrived = letter(&mut event)?;
                if self.counts(&arrived) {
                    return Ok(Woken { letters: vec![arrived], nudge: None });
                }
            } else if let Some(nudge) = event.get_mut("nudge").map(Value::take) {
                let nudge = serde_json::from_value(nudge).ok();
                return Ok(Woken { letters: Vec::new(), nudge });
            }
        }
        Err(fmail_api::Error::new(fmail_api::ErrorKind::Unavailable, "the server is ending; wait again later").into())
    }

    /// Notes that the agent was told. Mail that cannot be noted is still mail, and is told.
    async fn note(&self, letters: &[Letter]) -> Result<(), fmail_api::Error> {
        let ids: Vec<MessageId> = letters.iter().map(|letter| letter.message.id).collect();
        self.project.desk(self.agent).run("retrieved", json!({"ids": ids})).await.map(drop)
    }

    async fn answer(&self, woken: Woken, waited: Duration) -> Result<Value> {
        let Woken { mut letters, nudge } = woken;
        let more = letters.len() > MOST;
        letters.truncate(MOST);
        let noted = match letters.is_empty() {
            true => Ok(()),
            false => self.note(&letters).await,
        };
        let senders = letters.iter().map(|letter| &letter.message.from);
        let directory = Directory::of(self.project, senders.chain(nudge.iter().map(|nudge| &nudge.from))).await?;
        let mut answer = json!({
            "count": letters.len(),
            "timed_out": letters.is_empty() && nudge.is_none(),
            "waited_seconds": (waited.as_secs_f64() * 1000.0).round() / 1000.0,
        });
        if more {
            answer["more"] = true.into();
        }
        if let Err(error) = noted {
            answer["warning"] =
                format!("it could not be noted that these were told; the next wait tells them again: {error}").into();
        }
        if let Some(nudge) = nudge {
            answer["nudge"] =
                json!({"from": directory.shown(&nudge.from), "text": nudge.text, "created_ts": ids::time(nudge.time)});
        }
        let rows = Rows::new(self.project, directory);
        let rows = letters.iter().map(|letter| Value::from(rows.letter(self.agent, letter, true)));
        answer["messages"] = rows.collect::<Vec<_>>().into();
        Ok(answer)
    }
}
