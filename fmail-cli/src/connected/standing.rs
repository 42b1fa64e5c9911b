//! Where a watch stands, so that it can go on elsewhere.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use fmail_api::{Cursor, Delivery, Message, MessageId, Since, Timestamp};

/// How many shown messages are remembered: about a megabyte.
const REMEMBERED: usize = 65_536;

/// How far a watch has come.
///
/// Daemon and files share one order of arrival, so a cursor is all that either needs. Only where a cursor cannot be
/// used (the index was rebuilt while nobody watched, or a daemon gives none) does a stream repeat what was shown; that is
/// what the remembered messages are for.
pub(super) struct Standing {
    /// What the watch was asked for.
    asked: Option<Since>,
    /// The same; for a watch that asked for nothing, all ids from its start on.
    start: Since,
    cursor: Option<Since>,
    shown: BTreeSet<(MessageId, u64)>,
    /// The highest id that is no longer remembered.
    forgotten: Option<MessageId>,
}

impl Standing {
    pub(super) fn new(asked: Option<Since>, now: Timestamp) -> Standing {
        let start = asked.clone().unwrap_or(Since::Id(MessageId::at(now)));
        Standing { asked, start, cursor: None, shown: BTreeSet::new(), forgotten: None }
    }

    /// The stream has begun, and this is where what is stored ended. A watch that asked for what is stored has not seen
    /// that yet, and stands where it stood.
    pub(super) fn began(&mut self, end: &Cursor) {
        if self.asked.is_none() && self.cursor.is_none() {
            self.reached(end);
        }
    }

    /// Everything up to here has been seen. A daemon that gives no cursors gives ids.
    pub(super) fn reached(&mut self, cursor: &Cursor) {
        self.cursor = match cursor.as_str().parse() {
            Ok(id) => Some(Since::Id(id)),
            Err(_) if cursor.as_str().is_empty() => return,
            Err(_) => Some(Since::Cursor(cursor.clone())),
        };
    }

    /// Goes on to this message; whether it is to be shown.
    pub(super) fn is_news(&mut self, delivery: &Delivery) -> bool {
        self.reached(&delivery.cursor);
        let message = &*delivery.message;
        // Behind a cursor nothing else compares times any more.
        let fits = match &self.asked {
            Some(Since::Time(since)) => message.time >= since.whole_seconds(),
            _ => true,
        };
        fits && self.remember(message)
    }

    /// Where to go on.
    pub(super) fn since(&self) -> Since {
        self.cursor.as_ref().unwrap_or(&self.start).clone()
    }

    /// The cursor cannot be used any more: goes back as far as is remembered, to leave nothing out.
    pub(super) fn forget_cursor(&mut self) {
        self.cursor = Some(self.forgotten.map_or(self.start.clone(), Since::Id));
    }

    /// Whether it was not shown before. The highest ids are kept, so that all above the highest forgotten one are known.
    fn remember(&mut self, message: &Message) -> bool {
        let is_new = self.shown.insert(identity(message));
        if self.shown.len() > REMEMBERED
            && let Some((id, _)) = self.shown.pop_first()
        {
            self.forgotten = self.forgotten.max(Some(id));
        }
        is_new
    }
}

/// An id alone is not enough: another program may have given one id to two messages, in two places.
fn identity(message: &Message) -> (MessageId, u64) {
    let mut hasher = DefaultHasher::new();
    message.to.hash(&mut hasher);
    (message.id, hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fmail_api::Draft;

    use super::*;

    fn delivery(ticks: u64, to: &str, cursor: &str) -> Delivery {
        let draft = Draft::new("alice".parse().unwrap(), to.parse().unwrap(), "x");
        let id = MessageId::from_ticks(ticks).unwrap();
        Delivery::new(Arc::new(draft.into_message(id, id.time().whole_seconds())), Cursor::new(cursor))
    }

    fn cursor(text: &str) -> Since {
        Since::Cursor(Cursor::new(text))
    }

    #[test]
    fn a_watch_that_asked_for_the_past_does_not_stand_behind_it_before_it_was_seen() {
        let asked = Since::Id(MessageId::from_ticks(7).unwrap());
        let mut standing = Standing::new(Some(asked.clone()), Timestamp::from_unix(0, 0));
        standing.began(&Cursor::new("e:9"));
        assert_eq!(standing.since(), asked);
        assert!(standing.is_news(&delivery(8, "task", "e:8")));
        assert_eq!(standing.since(), cursor("e:8"));
        let mut silent = Standing::new(None, Timestamp::from_unix(0, 0));
        silent.began(&Cursor::new("e:9"));
        assert_eq!(silent.since(), cursor("e:9"));
        silent.began(&Cursor::new("e:20"));
        assert_eq!(silent.since(), cursor("e:9"), "what came between the two has not been seen");
    }

    #[test]
    fn without_its_cursor_a_watch_goes_back_to_its_start_and_repeats_nothing() {
        let mut standing = Standing::new(None, Timestamp::from_unix(1, 0));
        let start = MessageId::at(Timestamp::from_unix(1, 0));
        assert!(standing.is_news(&delivery(start.ticks() + 5, "task", "e:5")));
        standing.forget_cursor();
        assert_eq!(standing.since(), Since::Id(start));
        assert!(!standing.is_news(&delivery(start.ticks() + 5, "task", "f:1")));
        assert!(standing.is_news(&delivery(start.ticks() + 5, "other", "f:2")), "another place, another message");
        assert!(standing.is_news(&delivery(start.ticks() + 3, "task", "f:3")), "it was never shown");
    }

    #[test]
    fn what_is_forgotten_is_not_gone_back_to() {
        let mut standing = Standing::new(None, Timestamp::from_unix(1, 0));
        let many = REMEMBERED as u64 + 10;
        for ticks in 1..=many {
            assert!(standing.is_news(&delivery(20_000 + ticks, "task", "e:1")));
        }
        standing.forget_cursor();
        assert_eq!(standing.since(), Since::Id(MessageId::from_ticks(20_010).unwrap()));
        assert!((11..=many).all(|ticks| !standing.is_news(&delivery(20_000 + ticks, "task", "f:1"))));
    }

    #[test]
    fn a_time_holds_behind_a_cursor_too() {
        let asked = Some(Since::Time(Timestamp::from_unix(100, 0)));
        let mut standing = Standing::new(asked, Timestamp::from_unix(200, 0));
        assert!(standing.is_news(&delivery(150 * fmail_api::TICKS_PER_SECOND, "task", "e:1")));
        assert!(!standing.is_news(&delivery(50 * fmail_api::TICKS_PER_SECOND, "task", "e:2")));
    }
}
