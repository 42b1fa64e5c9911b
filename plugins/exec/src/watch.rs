//! Watching: the script is asked now and then, and at once when fmail has noted something new.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fmail_api::{Cursor, Delivery, Event, EventStream, Notice, NoticeKind, Query, Result};
use futures::{StreamExt, stream};
use futures_timer::Delay;

use crate::arrivals::number_of;
use crate::store::Inner;

/// How often is looked whether another process has noted an arrival: the end of a small file.
const LOOK: Duration = Duration::from_millis(100);
/// The longest pause between two tries of a script that fails.
const LONGEST: Duration = Duration::from_secs(30);

/// One reader's stream.
struct Watch {
    inner: Arc<Inner>,
    query: Query,
    /// Everything up to here was looked at.
    place: u64,
    events: VecDeque<Event>,
    /// When the script is asked next, whatever happens.
    ask_at: Instant,
    /// What the reader was told once and need not be told with every look.
    told: BTreeSet<String>,
    /// How often in a row the script has failed.
    failures: u32,
}

/// Answers a watch.
pub(crate) async fn watch(inner: Arc<Inner>, query: Query, from: Cursor) -> Result<EventStream> {
    let place = inner.arrivals.place(&from)?;
    // What cannot be watched is refused now and not with the first event.
    inner.mailboxes(&query.scope).await?;
    let watch = Watch {
        inner,
        query,
        place,
        events: VecDeque::new(),
        ask_at: Instant::now(),
        told: BTreeSet::new(),
        failures: 0,
    };
    Ok(stream::unfold(Some(watch), |watch| async {
        let mut watch = watch?;
        match watch.next().await {
            Ok(event) => Some((Ok(event), Some(watch))),
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed())
}

impl Watch {
    async fn next(&mut self) -> Result<Event> {
        loop {
            self.inner.check_open()?;
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            if Instant::now() >= self.ask_at || (self.failures == 0 && self.has_news().await?) {
                self.ask().await?;
            } else {
                let left = self.ask_at.saturating_duration_since(Instant::now());
                Delay::new(left.min(LOOK)).await;
            }
        }
    }

    /// Whether something was noted in the mailboxes that are watched.
    async fn has_news(&mut self) -> Result<bool> {
        let (arrived, end) = self.inner.arrivals.behind(self.place)?;
        if arrived.is_empty() {
            return Ok(false);
        }
        let mailboxes = self.inner.mailboxes(&self.query.scope).await?;
        let numbers: BTreeSet<u64> = mailboxes.iter().map(number_of).collect();
        let news = arrived.iter().any(|(_, arrival)| numbers.contains(&arrival.mailbox));
        if !news {
            self.place = end;
            self.events.push_back(Event::Progress(self.inner.arrivals.cursor(end)?));
        }
        Ok(news)
    }

    /// Asks the script. A script that does not answer for now is told once and asked again: an outage is not the end of a
    /// watch, and not silence either.
    async fn ask(&mut self) -> Result<()> {
        let gathered = match self.inner.gather(&self.query.scope, self.place).await {
            Ok(gathered) => gathered,
            Err(error) if error.retryable() => {
                self.failures += 1;
                let pause = self.inner.options.poll.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
                self.ask_at = Instant::now() + pause;
                if self.failures == 1 {
                    let text = format!("mail is unavailable, trying again: {error}");
                    self.events.push_back(Event::Notice(Notice::new(NoticeKind::Other, text)));
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if std::mem::take(&mut self.failures) > 0 {
            self.events.push_back(Event::Notice(Notice::new(NoticeKind::Other, "mail is available again")));
        }
        self.ask_at = Instant::now() + self.inner.options.poll;
        for notice in gathered.notices {
            if self.told.insert(notice.text.clone()) {
                self.events.push_back(Event::Notice(notice));
            }
        }
        let since = self.inner.since(&self.query)?;
        for (place, message) in gathered.messages.range(self.place + 1..) {
            if since.accepts(*place, message.id) && self.query.accepts(message) {
                let cursor = self.inner.arrivals.cursor(*place)?;
                self.events.push_back(Event::Message(Delivery::new(message.clone(), cursor)));
            }
        }
        if gathered.end > self.place {
            self.place = gathered.end;
            self.events.push_back(Event::Progress(self.inner.arrivals.cursor(gathered.end)?));
        }
        Ok(())
    }
}
