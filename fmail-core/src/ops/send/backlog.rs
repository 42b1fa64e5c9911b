//! Recipients who may not see a message soon: gone for a while, or far behind.

use std::time::Duration;

use fmail_api::{AgentName, AgentRecord, AgentState, Backlog, Draft, RecordKey, Target};

use crate::Operations;
use crate::mailbox::Mailbox;

/// An agent that is not at work right now and has this many unread messages is behind.
const MANY: u64 = 10;

impl Operations {
    /// The recipients of `draft` that a sender should not count on. Asked before the message is stored, so that it is
    /// not among those that it counts.
    ///
    /// An agent at work costs nothing beyond its record. What cannot be looked up is not told.
    pub(super) async fn backlog(&self, draft: &Draft) -> Vec<Backlog> {
        let mut found: Vec<Backlog> = Vec::new();
        let targets = std::iter::once(&draft.to).chain(&draft.more.recipients).chain(&draft.more.cc);
        for name in targets.filter_map(Target::agent) {
            if *name != draft.from && found.iter().all(|one| one.name != *name) {
                found.extend(self.backlog_of(name).await);
            }
        }
        found
    }

    async fn backlog_of(&self, name: &AgentName) -> Option<Backlog> {
        let record: AgentRecord = self.store.get(&RecordKey::agent(name)).await.ok()??.decode().ok()?;
        let now = self.clock.now();
        let quiet: Duration = now.since(record.last_seen);
        if AgentState::after(quiet) == AgentState::Active {
            return None;
        }
        let counted = match self.store.mailbox() {
            Some(mailbox) => mailbox.count(name).await,
            None => Mailbox::new(&*self.store, name, now).count().await,
        };
        let unread = counted.ok()?.unread;
        let behind = unread >= MANY || AgentState::after(quiet) == AgentState::Offline;
        behind.then(|| Backlog { name: name.clone(), unread, last_seen: record.last_seen })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::testing::Project;

    #[test]
    fn a_recipient_who_is_gone_is_told_with_its_unread_mail() {
        let project = Project::new();
        project.send("bob", "task", "I am here");
        assert!(project.send("alice", "@bob", "one").backlog.is_empty(), "bob was seen just now");
        project.clock.advance(Duration::from_secs(6 * 3600));
        let backlog = project.send("alice", "@bob", "two").backlog;
        assert_eq!((backlog[0].name.as_str(), backlog[0].unread), ("bob", 1));
        assert_eq!(project.send("alice", "@bob", "three").backlog[0].unread, 2);
    }

    #[test]
    fn a_recipient_who_is_far_behind_is_told_before_it_is_gone() {
        let project = Project::new();
        project.send("bob", "task", "I am here");
        for number in 0..10 {
            assert!(project.send("alice", "@bob", format!("{number}")).backlog.is_empty());
        }
        project.clock.advance(Duration::from_secs(120));
        assert_eq!(project.send("alice", "@bob", "one more").backlog[0].unread, 10);
    }
}
