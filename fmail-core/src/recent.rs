//! What has just been found out, and need not be asked for each of thousands of messages a second.
//!
//! Only what stays true for as long as it is remembered, or what nobody minds to hear a moment later. A process that does
//! one thing and ends remembers nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fmail_api::{Context, Target, Timestamp};

/// How long an agent counts as tracked: a part of the time after which its record is written again.
const TRACKED_FOR: Duration = Duration::from_secs(1);
/// The most names of a kind that are remembered; when there are more, it begins again.
const MOST: usize = 1024;

/// The memory.
#[derive(Default)]
pub struct Recent {
    tracked: Mutex<HashMap<String, (Option<String>, Timestamp)>>,
    topics: Mutex<HashSet<Target>>,
}

impl Recent {
    /// Whether this agent's record was looked at a moment ago, for the same host.
    pub fn is_tracked(&self, context: &Context, now: Timestamp) -> bool {
        let tracked = open(&self.tracked);
        tracked
            .get(context.agent.as_str())
            .is_some_and(|(host, then)| *host == context.host && now >= *then && now.since(*then) < TRACKED_FOR)
    }

    /// Notes that this agent's record is as it should be.
    pub fn track(&self, context: &Context, now: Timestamp) {
        let mut tracked = open(&self.tracked);
        if tracked.len() >= MOST {
            tracked.clear();
        }
        tracked.insert(context.agent.as_str().to_string(), (context.host.clone(), now));
    }

    /// Whether this is the first message to a topic that this process stores.
    pub fn is_new(&self, topic: &Target) -> bool {
        let mut topics = open(&self.topics);
        if topics.contains(topic) {
            return false;
        }
        if topics.len() >= MOST {
            topics.clear();
        }
        topics.insert(topic.clone())
    }
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
