//! What other hosts have said of their agents and reservations, as it is kept here.

use fmail_api::{AgentName, AgentRecord, Lease, NodeId, Record, Result, Timestamp};
use futures::StreamExt;
use serde_json::{Value, json};

use super::shared::{RECEIVED, SharedAgent, SharedLeases};
use crate::Operations;

/// An agent of another host.
pub(crate) struct AgentElsewhere {
    /// What is known of it; its host is always said.
    pub(crate) agent: AgentRecord,
    /// When it was last seen, by our clock: a host whose clock is ahead saw nobody later than it told us.
    pub(crate) seen: Timestamp,
}

impl Operations {
    /// The agents of other hosts. One that was seen on several is there several times.
    pub(crate) async fn agents_elsewhere(&self) -> Result<Vec<AgentElsewhere>> {
        let entries = self.entries_elsewhere("hosts/agents").await?;
        let agent = |(node, value): (Option<NodeId>, Value)| {
            let received = value.get(RECEIVED).and_then(|time| time.as_str()?.parse().ok());
            let SharedAgent { host, mut agent, .. } = serde_json::from_value(value).ok()?;
            agent.host.get_or_insert(host);
            // It stands in the name of the record; what others put into the content is theirs to say.
            agent.node = node;
            let seen = received.map_or(agent.last_seen, |received| agent.last_seen.min(received));
            Some(AgentElsewhere { agent, seen })
        };
        Ok(entries.into_iter().filter_map(agent).collect())
    }

    /// The names of the agents that other hosts know.
    pub(crate) async fn names_elsewhere(&self) -> Result<Vec<AgentName>> {
        Ok(self.agents_elsewhere().await?.into_iter().map(|known| known.agent.name).collect())
    }

    /// The reservations of other hosts that hold now. Their host is always said.
    pub(crate) async fn leases_elsewhere(&self, now: Timestamp) -> Result<Vec<Lease>> {
        let entries = self.entries_elsewhere("hosts/leases").await?;
        let shared = entries.into_iter().filter_map(|(node, value)| {
            let shared: SharedLeases = serde_json::from_value(value).ok()?;
            Some((node, shared))
        });
        let leases = shared.flat_map(|(node, SharedLeases { host, leases, .. })| {
            leases.into_iter().map(move |mut lease| {
                // Two hosts may have one name.
                lease.extra.insert("node".into(), json!(node));
                Lease { host: lease.host.or_else(|| Some(host.clone())), ..lease }
            })
        });
        Ok(leases.filter(|lease| lease.until > now).collect())
    }

    /// What hosts have said, each with the host's id. What cannot be read is left out: it came from elsewhere, and comes
    /// again.
    async fn entries_elsewhere(&self, prefix: &str) -> Result<Vec<(Option<NodeId>, Value)>> {
        let records = self.store.list(prefix).await?;
        let entry = |record: Result<Record>| async {
            let record = record.ok()?;
            Some((record.key.segments().nth(2).and_then(|node| node.parse().ok()), record.value))
        };
        Ok(records.filter_map(entry).collect().await)
    }
}
