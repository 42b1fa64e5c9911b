//! Keeping an agent's record: that it is known, where it is, and when it was last seen.

use std::time::Duration;

use fmail_api::{
    AgentName, AgentRecord, Context, Error, ErrorKind, Expect, NodeId, Principal, Profile, Record, RecordKey, Result,
    Revision, Timestamp,
};
use serde_json::{Map, Value};

use crate::Operations;

/// A record is written again only when it is older than this: a busy sender must not double its own writes.
pub const RENEW_AFTER: Duration = Duration::from_secs(60);

/// Two processes of one agent may write at once. The loser looks again; whoever loses this often leaves it.
const ATTEMPTS: usize = 5;

impl Operations {
    /// Notes that the agent is there, at most once a minute, and never as the first thing in a project: who only looks
    /// creates nothing.
    pub async fn touch(&self, context: &Context) -> Result<()> {
        let known = self.store.get(&RecordKey::agent(&context.agent)).await?.is_some();
        if known || self.store.get(&RecordKey::project()).await?.is_some() {
            self.track(context).await?;
        }
        Ok(())
    }

    /// Notes that the agent is there, at most once a minute.
    ///
    /// Not durable: after a power cut a record that is a minute behind harms nobody, and a sync would cost each sender
    /// as much as its message.
    pub(crate) async fn track(&self, context: &Context) -> Result<()> {
        let now = self.clock.now();
        if self.recent.is_tracked(context, now) {
            return Ok(());
        }
        let change = |found: Option<AgentRecord>| match found {
            Some(record) if is_fresh(&record, context, self.node_of(context), now) => None,
            Some(record) => Some(self.seen(record, context, now)),
            None => Some(self.first_sight(context.agent.clone(), context, now)),
        };
        self.change_agent(&context.agent, false, change).await?;
        self.recent.track(context, now);
        Ok(())
    }

    /// Changes an agent's record by compare-and-swap; `change` sees what is there and answers nothing to leave it.
    pub(crate) async fn change_agent(
        &self,
        name: &AgentName,
        durable: bool,
        change: impl Fn(Option<AgentRecord>) -> Option<AgentRecord> + Send,
    ) -> Result<()> {
        let key = RecordKey::agent(name);
        for _ in 0..ATTEMPTS {
            let (expect, found) = match self.store.get(&key).await? {
                Some(record) => (Expect::Revision(record.revision.clone()), Some(record.decode()?)),
                None => (Expect::Absent, None),
            };
            let Some(changed) = change(found) else { return Ok(()) };
            match self.store.put(&key, expect, as_value(&changed)?, durable).await {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                other => return other.map(drop),
            }
        }
        Err(Error::new(ErrorKind::Conflict, format!("others kept changing the record `{key}` at the same time")))
    }

    /// Writes the first record of an agent; `conflict` when there is one.
    pub(crate) async fn claim_agent(
        &self,
        name: &AgentName,
        context: &Context,
        profile: Profile,
    ) -> Result<(AgentRecord, Revision)> {
        let record = AgentRecord { profile, ..self.first_sight(name.clone(), context, self.clock.now()) };
        let revision = self.store.put(&RecordKey::agent(name), Expect::Absent, as_value(&record)?, true).await?;
        Ok((record, revision))
    }

    /// The id of the host that the agent is on: ours, for who did not come over the network.
    fn node_of(&self, context: &Context) -> Option<NodeId> {
        let is_here = matches!(context.principal, Principal::Local | Principal::User(_));
        self.node.as_ref().filter(|_| is_here).map(|node| node.id)
    }

    /// The record of an agent that was there before, seen again now.
    pub(crate) fn seen(&self, mut record: AgentRecord, context: &Context, now: Timestamp) -> AgentRecord {
        record.name = context.agent.clone();
        record.last_seen = now.whole_seconds();
        // Who does not know the host's id leaves it where the name says that it is still the same one.
        let same = context.host.is_none() || context.host == record.host;
        record.node = self.node_of(context).or(record.node.filter(|_| same));
        if context.host.is_some() {
            record.host.clone_from(&context.host);
        }
        record
    }

    /// The record of an agent that nobody has seen before.
    pub(crate) fn first_sight(&self, name: AgentName, context: &Context, now: Timestamp) -> AgentRecord {
        let now = now.whole_seconds();
        let (host, node) = (context.host.clone(), self.node_of(context));
        let profile = Profile::default();
        AgentRecord { name, host, node, status: None, first_seen: now, last_seen: now, profile, extra: Map::new() }
    }
}

/// The agent that a record belongs to. The key is authoritative, as a file's name is.
pub(crate) fn agent_of(record: &Record) -> Option<AgentName> {
    record.key.segments().nth(1)?.parse().ok()
}

/// A time far ahead is not fresh: it came from a clock that has been put right since.
fn is_fresh(record: &AgentRecord, context: &Context, node: Option<NodeId>, now: Timestamp) -> bool {
    now.since(record.last_seen) < RENEW_AFTER
        && record.last_seen.since(now) < RENEW_AFTER
        && (context.host.is_none() || context.host == record.host)
        && (node.is_none() || node == record.node)
}

fn as_value(record: &AgentRecord) -> Result<Value> {
    serde_json::to_value(record).map_err(|error| Error::internal(format!("an agent record has no JSON form: {error}")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fmail_api::{AgentRecord, Expect, RecordKey, Store};
    use futures::executor::block_on;
    use serde_json::json;

    use crate::testing::{Project, context};

    fn record(project: &Project, name: &str) -> Option<AgentRecord> {
        let key = RecordKey::agent(&name.parse().unwrap());
        block_on(project.store.get(&key)).unwrap().map(|record| record.decode().unwrap())
    }

    #[test]
    fn a_record_is_written_once_a_minute() {
        let project = Project::new();
        let alice = context("alice");
        block_on(project.operations.track(&alice)).unwrap();
        let first = record(&project, "alice").unwrap();
        project.clock.advance(Duration::from_secs(59));
        block_on(project.operations.track(&alice)).unwrap();
        assert_eq!(record(&project, "alice").unwrap(), first);
        project.clock.advance(Duration::from_secs(1));
        block_on(project.operations.track(&alice)).unwrap();
        let second = record(&project, "alice").unwrap();
        assert_eq!(second.first_seen, first.first_seen);
        assert_eq!(second.last_seen, first.last_seen.after(Duration::from_secs(60)));
    }

    #[test]
    fn a_record_from_the_future_is_put_right() {
        let project = Project::new();
        let value = json!({"name": "alice", "first_seen": "2020-01-01T00:00:00Z", "last_seen": "2099-01-01T00:00:00Z",
            "status": "here", "shoe": "kept"});
        let key = RecordKey::agent(&"alice".parse().unwrap());
        block_on(project.store.put(&key, Expect::Absent, value, true)).unwrap();
        block_on(project.operations.track(&context("alice"))).unwrap();
        let record = record(&project, "alice").unwrap();
        assert_eq!(record.last_seen, project.now().whole_seconds());
        assert_eq!((record.status.as_deref(), record.extra["shoe"].as_str()), (Some("here"), Some("kept")));
    }

    #[test]
    fn touching_creates_no_project() {
        let project = Project::new();
        block_on(project.operations.touch(&context("alice"))).unwrap();
        assert!(record(&project, "alice").is_none());
        project.create();
        block_on(project.operations.touch(&context("alice"))).unwrap();
        assert!(record(&project, "alice").is_some());
    }
}
