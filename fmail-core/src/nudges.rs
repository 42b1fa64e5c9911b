//! Nudges: a word to whoever watches right now. They are stored nowhere; who is not there does not get them.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use fmail_api::{AgentName, Event, EventStream, Nudge, Result};
use futures::channel::mpsc::{Receiver, Sender, channel};
use futures::{Stream, StreamExt};

/// A session that has not taken so many nudges is not listening.
const WAITING: usize = 16;

/// After so many events of its stream a session is looked at for nudges.
const LOOK_AFTER: usize = 64;

/// The sessions that can be nudged.
#[derive(Default)]
pub(crate) struct Nudges {
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    next: u64,
    by_agent: HashMap<AgentName, HashMap<u64, Sender<Nudge>>>,
}

impl Nudges {
    /// The stream, with the nudges for its agent in between.
    pub(crate) fn with(self: &Arc<Self>, agent: &AgentName, events: EventStream) -> EventStream {
        let (sender, nudges) = channel(WAITING);
        let mut sessions = self.lock();
        let number = sessions.next;
        sessions.next += 1;
        sessions.by_agent.entry(agent.clone()).or_default().insert(number, sender);
        drop(sessions);
        Nudged { events, nudges, ended: false, passed: 0, agent: agent.clone(), number, all: self.clone() }.boxed()
    }

    /// Gives the nudge to every session of the agent; how many took it.
    pub(crate) fn give(&self, agent: &AgentName, nudge: &Nudge) -> u64 {
        let mut sessions = self.lock();
        let Some(of_agent) = sessions.by_agent.get_mut(agent) else { return 0 };
        of_agent.values_mut().filter_map(|session| session.try_send(nudge.clone()).ok()).count() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Nudged {
    events: EventStream,
    nudges: Receiver<Nudge>,
    ended: bool,
    /// How many events were passed on since a nudge was looked for.
    passed: usize,
    agent: AgentName,
    number: u64,
    all: Arc<Nudges>,
}

impl Stream for Nudged {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        // Nudges are rare, and to look for one costs as much as to pass a message on. So they are looked for when there is
        // nothing else, and often enough that a busy stream cannot hold one up.
        self.passed = (self.passed + 1) % LOOK_AFTER;
        let looked = self.passed == 0;
        if looked && let Poll::Ready(Some(nudge)) = self.nudges.poll_next_unpin(context) {
            return Poll::Ready(Some(Ok(Event::Nudge(nudge))));
        }
        let event = self.events.poll_next_unpin(context);
        self.ended = matches!(event, Poll::Ready(None));
        if event.is_pending()
            && !looked
            && let Poll::Ready(Some(nudge)) = self.nudges.poll_next_unpin(context)
        {
            return Poll::Ready(Some(Ok(Event::Nudge(nudge))));
        }
        event
    }
}

impl Drop for Nudged {
    fn drop(&mut self) {
        let mut sessions = self.all.lock();
        if let Some(of_agent) = sessions.by_agent.get_mut(&self.agent) {
            of_agent.remove(&self.number);
            if of_agent.is_empty() {
                sessions.by_agent.remove(&self.agent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::stream;

    use super::*;

    fn nudge(text: &str) -> Nudge {
        Nudge { from: "alice".parse().unwrap(), text: text.into(), time: fmail_api::Timestamp::from_unix(0, 0) }
    }

    #[test]
    fn every_session_of_the_agent_gets_it_and_nobody_else() {
        let nudges = Arc::new(Nudges::default());
        let (bob, carol) = ("bob".parse().unwrap(), "carol".parse().unwrap());
        let mut sessions: Vec<_> = (0..2).map(|_| nudges.with(&bob, stream::pending().boxed())).collect();
        let _other = nudges.with(&carol, stream::pending().boxed());
        assert_eq!(nudges.give(&bob, &nudge("wake up")), 2);
        for session in &mut sessions {
            assert!(matches!(block_on(session.next()), Some(Ok(Event::Nudge(got))) if got == nudge("wake up")));
        }
        drop(sessions);
        assert_eq!(nudges.give(&bob, &nudge("gone")), 0);
    }

    #[test]
    fn a_stream_that_never_rests_holds_up_no_nudge() {
        let nudges = Arc::new(Nudges::default());
        let bob = "bob".parse().unwrap();
        let busy = stream::repeat_with(|| Ok(Event::Progress(fmail_api::Cursor::new("x"))));
        let mut session = nudges.with(&bob, busy.boxed());
        nudges.give(&bob, &nudge("wake up"));
        let events: Vec<_> = block_on(session.by_ref().take(LOOK_AFTER + 1).collect());
        assert!(events.iter().any(|event| matches!(event, Ok(Event::Nudge(_)))));
    }

    #[test]
    fn a_session_that_does_not_listen_is_not_counted_for_ever() {
        let nudges = Arc::new(Nudges::default());
        let bob = "bob".parse().unwrap();
        let _session = nudges.with(&bob, stream::pending().boxed());
        let taken: u64 = (0..100).map(|_| nudges.give(&bob, &nudge("x"))).sum();
        assert!((1..100).contains(&taken), "{taken}");
    }
}
