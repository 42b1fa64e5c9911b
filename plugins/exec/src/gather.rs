//! Collects what a scan or a watch delivers: mailbox by mailbox, as a script is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fmail_api::{
    AgentName, Delivery, Error, ErrorKind, Event, Expect, Folder, Message, MessageId, Notice, NoticeKind, Order, Query,
    RecordKey, Result, Scan, Scope, Since, Target,
};
use futures::{StreamExt, stream};
use serde_json::json;

use crate::arrivals::number_of;
use crate::store::Inner;
use crate::translate::Told;

/// Where it is noted which mailboxes were used.
const MAILBOXES: &str = "sidecar/mailboxes";

/// What stands in some mailboxes.
pub(crate) struct Gathered {
    /// By their places in the order of arrival.
    pub messages: BTreeMap<u64, Arc<Message>>,
    pub notices: Vec<Notice>,
    /// Everything up to here was looked at.
    pub end: u64,
}

impl Inner {
    /// The mailboxes of a scope. A script can only be asked by mailbox, so that all of them are those that fmail knows of.
    pub(crate) async fn mailboxes(&self, scope: &Scope) -> Result<Vec<AgentName>> {
        match scope {
            Scope::Topics => Ok(Vec::new()),
            Scope::Visible(agent) | Scope::Target(Target::Agent(agent)) => Ok(vec![agent.clone()]),
            Scope::Target(Target::Topic(topic)) => Err(no_topics(topic.as_str())),
            Scope::All => {
                let mut names = BTreeSet::new();
                for (prefix, segment) in [("agents", 1), (MAILBOXES, 2)] {
                    let mut records = self.records.list(prefix).await?;
                    while let Some(record) = records.next().await {
                        // A record that cannot be read hides a name, and the name is in its key; the error is not.
                        let name = record.ok().and_then(|record| record.key.segments().nth(segment)?.parse().ok());
                        names.extend(name);
                    }
                }
                Ok(names.into_iter().collect())
            }
        }
    }

    /// Remembers that a mailbox is in use.
    pub(crate) async fn know(&self, mailbox: &AgentName) -> Result<()> {
        if !self.is_new(mailbox) {
            return Ok(());
        }
        let key: RecordKey = format!("{MAILBOXES}/{mailbox}").parse()?;
        match self.records.put(&key, Expect::Absent, json!({}), false).await {
            Err(error) if error.kind() != ErrorKind::Conflict => Err(error),
            _ => Ok(()),
        }
    }

    /// What stands in the mailboxes now, and what has arrived there behind a place and is closed already.
    pub(crate) async fn gather(&self, scope: &Scope, behind: u64) -> Result<Gathered> {
        let mailboxes = self.mailboxes(scope).await?;
        let (mut found, mut notices) = (Vec::new(), Vec::new());
        for mailbox in &mailboxes {
            let listed = self.backend.list(&mailbox.foreign(), Folder::Open).await?;
            let (told, left_out) = self.translated(listed, Some(mailbox)).await?;
            found.extend(told.into_iter().map(|told| told.message));
            notices.extend(left_out);
        }
        let (arrived, end) = self.arrivals.behind(behind.min(self.arrivals.end()?))?;
        let listed: BTreeSet<MessageId> = found.iter().map(|message| message.id).collect();
        let numbers: BTreeSet<u64> = mailboxes.iter().map(number_of).collect();
        for (_, arrival) in arrived {
            if !numbers.contains(&arrival.mailbox) || listed.contains(&arrival.id) {
                continue;
            }
            match self.fetch(None, arrival.id).await {
                Ok(told) => found.extend(told.map(|told| told.message)),
                Err(error) if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Cancelled) => return Err(error),
                // The script has just listed its mail, so that it is well: it does not give what is closed.
                Err(error) => {
                    let text = format!("{} has arrived and is not in the mailbox any more: {error}", arrival.id);
                    notices.push(Notice::new(NoticeKind::Other, text));
                }
            }
        }
        let mut messages = BTreeMap::new();
        for message in found {
            if let Some(place) = self.arrivals.place_of(message.id)?.filter(|place| *place <= end) {
                messages.insert(place, message);
            }
        }
        Ok(Gathered { messages, notices, end })
    }

    /// A message by its id; nothing when the script has none of that name.
    pub(crate) async fn fetch(&self, reader: Option<&AgentName>, id: MessageId) -> Result<Option<Told>> {
        let Some(foreign) = self.translator.ids.foreign_of(id).await? else { return Ok(None) };
        let reader = reader.map(AgentName::foreign);
        match self.backend.get(reader.as_deref(), &foreign).await {
            Ok(message) => {
                self.check_same(&foreign, &message.id)?;
                self.one(message, None).await.map(Some)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Answers a scan.
    pub(crate) async fn scan(&self, query: Query) -> Result<Scan> {
        let since = self.since(&query)?;
        let gathered = match query.ids.is_empty() && query.id_suffix.is_none() {
            true => self.gather(&query.scope, self.arrivals.end()?).await?,
            false => self.named(&query).await?,
        };
        let mut notices = gathered.notices;
        if query.scope == Scope::All && query.ids.is_empty() && query.id_suffix.is_none() {
            notices.push(Notice::new(NoticeKind::Other, self.told_mailboxes().await?));
        }
        let fits = |(place, message): &(u64, Arc<Message>)| since.accepts(*place, message.id) && query.accepts(message);
        let mut found: Vec<(u64, Arc<Message>)> = gathered.messages.into_iter().filter(fits).collect();
        let total = found.len();
        let mut end = gathered.end;
        if query.order == Order::Arrival {
            if let Some(limit) = query.limit.filter(|limit| *limit < total) {
                found.truncate(limit);
                end = found.last().map_or(since.place, |(place, _)| *place);
            }
        } else {
            found.sort_by_key(|(_, message)| std::cmp::Reverse(message.id));
            found.truncate(query.limit.unwrap_or(usize::MAX));
            if query.order == Order::Ascending {
                found.reverse();
            }
        }
        let more = found.len() < total;
        let mut events: Vec<Result<Event>> = notices.into_iter().map(|notice| Ok(Event::Notice(notice))).collect();
        for (place, message) in found {
            events.push(Ok(Event::Message(Delivery::new(message, self.arrivals.cursor(place)?))));
        }
        Ok(Scan { cursor: self.arrivals.cursor(end)?, more, messages: stream::iter(events).boxed() })
    }

    /// The messages that a query names by id.
    async fn named(&self, query: &Query) -> Result<Gathered> {
        if let Scope::Target(Target::Topic(topic)) = &query.scope {
            return Err(no_topics(topic.as_str()));
        }
        let mut ids = query.ids.clone();
        if let Some(suffix) = query.id_suffix.as_ref().filter(|_| ids.is_empty()) {
            ids.extend(self.arrivals.ending(suffix)?);
        }
        let end = self.arrivals.end()?;
        let mut messages = BTreeMap::new();
        for id in ids {
            let Some(told) = self.fetch(None, id).await? else { continue };
            if told.message.targets().iter().any(|target| query.scope.contains(target)) {
                messages.insert(self.arrivals.place_of(id)?.unwrap_or_default(), told.message);
            }
        }
        Ok(Gathered { messages, notices: Vec::new(), end })
    }

    async fn told_mailboxes(&self) -> Result<String> {
        let names: Vec<String> = self.mailboxes(&Scope::All).await?.iter().map(ToString::to_string).collect();
        Ok(match names.len() {
            0 => "a mail script tells its mail by mailbox, and no mailbox is known yet".into(),
            _ => format!("a mail script tells its mail by mailbox; only these are known: {}", names.join(", ")),
        })
    }

    pub(crate) fn since(&self, query: &Query) -> Result<Behind> {
        Ok(match &query.since {
            Some(Since::Cursor(cursor)) => Behind { place: self.arrivals.place(cursor)?, or_above: None },
            Some(Since::Id(id)) => {
                Behind { place: self.arrivals.place_of(*id)?.unwrap_or(u64::MAX), or_above: Some(*id) }
            }
            _ => Behind { place: 0, or_above: None },
        })
    }
}

/// Behind which place messages are wanted, or above which id.
pub(crate) struct Behind {
    pub place: u64,
    or_above: Option<MessageId>,
}

impl Behind {
    pub(crate) fn accepts(&self, place: u64, id: MessageId) -> bool {
        place > self.place || self.or_above.is_some_and(|above| id > above)
    }
}

fn no_topics(topic: &str) -> Error {
    Error::unsupported(format!("hold topics such as `{topic}`: a mail script knows mailboxes and nothing else"))
        .help("write @name for an agent's mailbox, or choose another store")
}
