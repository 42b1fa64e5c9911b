//! Who is there: the agents with an open watch.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use fmail_api::{AgentName, Event, EventStream, Result};
use futures::{Stream, StreamExt};

/// The agents that have a watch open now, each with the context of its latest one.
#[derive(Default)]
pub struct Presence {
    watching: Mutex<HashMap<AgentName, Watching>>,
}

struct Watching {
    count: usize,
    context: fmail_api::Context,
}

impl Presence {
    /// The stream; as long as it lives, the agent is there.
    pub fn during(self: &Arc<Self>, context: &fmail_api::Context, events: EventStream) -> EventStream {
        let mut watching = self.lock();
        let entry = watching.entry(context.agent.clone());
        let watch = entry.or_insert_with(|| Watching { count: 0, context: context.clone() });
        watch.count += 1;
        watch.context = context.clone();
        drop(watching);
        Present { events, agent: context.agent.clone(), presence: self.clone() }.boxed()
    }

    /// Whether the agent has a watch open.
    pub fn has(&self, agent: &AgentName) -> bool {
        self.lock().contains_key(agent)
    }

    /// Who is there, once each.
    pub fn contexts(&self) -> Vec<fmail_api::Context> {
        self.lock().values().map(|watching| watching.context.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AgentName, Watching>> {
        self.watching.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Present {
    events: EventStream,
    agent: AgentName,
    presence: Arc<Presence>,
}

impl Stream for Present {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_next_unpin(context)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut watching = self.presence.lock();
        if let Some(watch) = watching.get_mut(&self.agent) {
            watch.count -= 1;
            if watch.count == 0 {
                watching.remove(&self.agent);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_there_until_its_last_watch_ends() {
        let presence = Arc::new(Presence::default());
        let context = fmail_api::Context::local("alice".parse().unwrap());
        let open = || presence.during(&context, futures::stream::pending().boxed());
        let (one, two) = (open(), open());
        drop(one);
        assert!(presence.has(&context.agent) && presence.contexts().len() == 1);
        drop(two);
        assert!(!presence.has(&context.agent));
    }
}
