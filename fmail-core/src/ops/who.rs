//! `who`: the agents that are known, and whether they are there.

use std::collections::BTreeMap;

use fmail_api::{
    AgentName, AgentRecord, AgentState, AgentView, Error, Notice, NoticeKind, Record, RecordKey, Result, Timestamp,
    WhoRequest,
};
use futures::StreamExt;

use crate::Operations;
use crate::exchange::AgentElsewhere;
use crate::presence::agent_of;

impl Operations {
    /// The agents by name, of this host and of others. One that was seen on several is shown where it was seen last. A record
    /// that cannot be understood is left out and told; it hides nobody else.
    pub(crate) async fn who(&self, request: WhoRequest) -> Result<(Vec<AgentView>, Vec<Notice>)> {
        let now = self.clock.now();
        let mut agents: BTreeMap<AgentName, AgentView> = BTreeMap::new();
        let mut notices = Vec::new();
        if request.names.is_empty() {
            let mut records = self.store.list("agents").await?;
            while let Some(record) = records.next().await {
                match record.and_then(|record| self.view(&record, now)) {
                    Ok(agent) => drop(agents.insert(agent.name.clone(), agent)),
                    Err(error) => notices.push(Notice::new(NoticeKind::Broken, format!("skipped: {error}"))),
                }
            }
        } else {
            for name in &request.names {
                let record = self.store.get(&RecordKey::agent(name)).await?;
                agents
                    .extend(record.map(|record| self.view(&record, now)).transpose()?.map(|view| (name.clone(), view)));
            }
        }
        for elsewhere in self.agents_elsewhere().await? {
            if request.names.is_empty() || request.names.contains(&elsewhere.agent.name) {
                add(&mut agents, elsewhere, now);
            }
        }
        let agents = match request.names.is_empty() {
            true => agents.into_values().collect(),
            false => request.names.iter().filter_map(|name| agents.get(name).cloned()).collect(),
        };
        Ok((agents, notices))
    }

    fn view(&self, record: &Record, now: Timestamp) -> Result<AgentView> {
        let mut stored: AgentRecord = record.decode()?;
        let name = agent_of(record).ok_or_else(|| Error::invalid(format!("`{}` names no agent", record.key)))?;
        // It may have been called otherwise when the agent was seen.
        if let Some(own) = self.node.as_ref().filter(|own| stored.node == Some(own.id)) {
            stored.host = Some(own.host.clone());
        }
        let seen = stored.last_seen;
        Ok(shown(name, stored, seen, now))
    }
}

/// Takes in what another host says of an agent.
fn add(agents: &mut BTreeMap<AgentName, AgentView>, elsewhere: AgentElsewhere, now: Timestamp) {
    let AgentElsewhere { agent, seen } = elsewhere;
    let known = agents.get(&agent.name);
    let first_seen = known.map_or(agent.first_seen, |known| known.first_seen.min(agent.first_seen));
    let shown = match known {
        Some(known) if known.last_seen >= seen => AgentView { first_seen, ..known.clone() },
        _ => AgentView { last_seen: seen, first_seen, ..shown(agent.name.clone(), agent, seen, now) },
    };
    agents.insert(shown.name.clone(), shown);
}

fn shown(name: AgentName, stored: AgentRecord, seen: Timestamp, now: Timestamp) -> AgentView {
    AgentView {
        name,
        host: stored.host,
        node: stored.node,
        status: stored.status,
        state: AgentState::after(now.since(seen)),
        first_seen: stored.first_seen,
        last_seen: stored.last_seen,
        profile: stored.profile,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fmail_api::{AgentState, Expect, RecordKey, Store, WhoRequest};
    use futures::executor::block_on;
    use serde_json::json;

    use crate::testing::Project;

    #[test]
    fn states_follow_the_time_since_an_agent_was_seen() {
        let project = Project::new();
        project.send("zoe", "task", "first");
        project.clock.advance(Duration::from_secs(1_800));
        project.send("bob", "task", "second");
        project.clock.advance(Duration::from_secs(100));
        project.send("alice", "task", "third");
        let (agents, notices) = block_on(project.operations.who(WhoRequest::default())).unwrap();
        let shown: Vec<(&str, AgentState)> = agents.iter().map(|one| (one.name.as_str(), one.state)).collect();
        let expected = [("alice", AgentState::Active), ("bob", AgentState::Idle), ("zoe", AgentState::Offline)];
        assert_eq!(shown, expected);
        assert!(notices.is_empty());
    }

    #[test]
    fn those_who_are_named_come_in_that_order_as_far_as_they_are_known() {
        let project = Project::new();
        for name in ["alice", "bob", "carol"] {
            project.send(name, "task", "here");
        }
        let names = ["carol", "nobody", "alice"].map(|name| name.parse().unwrap()).into();
        let (agents, _) = block_on(project.operations.who(WhoRequest { names })).unwrap();
        assert_eq!(agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>(), ["carol", "alice"]);
    }

    #[test]
    fn a_broken_record_is_told_and_hides_nobody() {
        let project = Project::new();
        project.send("alice", "task", "here");
        let key = RecordKey::agent(&"bob".parse().unwrap());
        block_on(project.store.put(&key, Expect::Absent, json!({"name": 7}), true)).unwrap();
        let (agents, notices) = block_on(project.operations.who(WhoRequest::default())).unwrap();
        assert_eq!(agents.len(), 1);
        assert!(notices[0].text.contains("agents/bob"), "{notices:?}");
    }
}
