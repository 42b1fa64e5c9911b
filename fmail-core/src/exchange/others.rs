//! What other hosts have said of their agents and reservations, as it is kept here.

use std::collections::HashMap;

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
            // What an agent wrote down when it was there last is what its host was called then. Only one that came to that
            // host over the network says what nobody else knows.
            if node.is_some() && agent.node == node {
                agent.host = Some(host);
            } else {
                agent.host.get_or_insert(host);
            }
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

    /// The reservations of other hosts that hold now, each with the id of the host. Its name is always said.
    pub(crate) async fn leases_elsewhere(&self, now: Timestamp) -> Result<Vec<(Option<NodeId>, Lease)>> {
        let entries = self.entries_elsewhere("hosts/leases").await?;
        let shared: Vec<(Option<NodeId>, SharedLeases)> =
            entries.into_iter().filter_map(|(node, value)| Some((node, serde_json::from_value(value).ok()?))).collect();
        if shared.iter().all(|(_, shared)| shared.leases.is_empty()) {
            return Ok(Vec::new());
        }
        // A lease says what its holder's host was called when it was taken; where the holder is known, so is its host.
        let agents = self.agents_elsewhere().await?.into_iter();
        let hosts: HashMap<(Option<NodeId>, AgentName), Option<String>> =
            agents.map(|known| ((known.agent.node, known.agent.name), known.agent.host)).collect();
        let mut leases = Vec::new();
        for (node, SharedLeases { host, leases: held, .. }) in shared {
            for mut lease in held.into_iter().filter(|lease| lease.until > now) {
                let known = hosts.get(&(node, lease.agent.clone())).cloned().flatten();
                lease.host = known.or(lease.host).or_else(|| Some(host.clone()));
                // Two hosts may have one name.
                lease.extra.insert("node".into(), json!(node));
                leases.push((node, lease));
            }
        }
        Ok(leases)
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
