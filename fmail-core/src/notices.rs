//! What a store had to say beside the messages that it was asked for.

use std::collections::BTreeSet;

use fmail_api::{Event, EventStream, Notice, NoticeKind, Result};
use futures::{StreamExt, stream};

/// So many are told one by one, the rest by their number.
const TOLD: usize = 20;

/// Notices, each once: an operation may look at the same mailbox several times.
#[derive(Default)]
pub(crate) struct Notices {
    first: Vec<Notice>,
    texts: BTreeSet<String>,
}

impl Notices {
    /// Takes in what was said.
    pub(crate) fn add(&mut self, notice: Notice) {
        if self.texts.insert(notice.text.clone()) && self.first.len() < TOLD {
            self.first.push(notice);
        }
    }

    /// What there is to tell.
    pub(crate) fn told(&self) -> Vec<Notice> {
        let mut told = self.first.clone();
        let more = self.texts.len() - told.len();
        if more > 0 {
            let text = format!("{more} more like this; `fmail quarantine list` shows what is broken");
            told.push(Notice::new(NoticeKind::Other, text));
        }
        told
    }

    /// Tells it before the events, which then do not say it again.
    pub(crate) fn before(self, events: EventStream) -> EventStream {
        let told = stream::iter(self.told().into_iter().map(|notice| Ok(Event::Notice(notice))));
        let mut texts = self.texts;
        let mut is_new = move |event: &Result<Event>| match event {
            Ok(Event::Notice(notice)) => texts.insert(notice.text.clone()),
            _ => true,
        };
        told.chain(events.filter(move |event| std::future::ready(is_new(event)))).boxed()
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    fn notice(number: usize) -> Notice {
        Notice::new(NoticeKind::Broken, format!("skipped {number}"))
    }

    #[test]
    fn each_is_told_once_and_many_by_their_number() {
        let mut notices = Notices::default();
        for number in [1, 2, 1] {
            notices.add(notice(number));
        }
        assert_eq!(notices.told(), [notice(1), notice(2)]);
        let events = stream::iter([2, 3].map(|number| Ok(Event::Notice(notice(number))))).boxed();
        let told: Vec<String> = block_on(notices.before(events).collect::<Vec<_>>())
            .into_iter()
            .filter_map(|event| if let Ok(Event::Notice(notice)) = event { Some(notice.text) } else { None })
            .collect();
        assert_eq!(told, ["skipped 1", "skipped 2", "skipped 3"]);
        let mut many = Notices::default();
        (0..25).for_each(|number| many.add(notice(number)));
        assert_eq!(many.told().len(), TOLD + 1);
        assert!(many.told()[TOLD].text.starts_with("5 more"), "{:?}", many.told()[TOLD]);
    }
}
