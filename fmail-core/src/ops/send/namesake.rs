//! A topic with the name of an agent: most likely an `@` was forgotten.

use fmail_api::{AgentName, Message, Query, RecordKey, Scope, Target};

use crate::Operations;

impl Operations {
    /// The agent that the message may have been meant for, when it opened a topic with that agent's name. A topic that
    /// is in use already is meant, and so is one that an agent opens under its own name.
    ///
    /// A topic's first message in this process costs one record that is not there; behind it the topic is in use. What cannot
    /// be looked up is not told.
    pub(super) async fn namesake(&self, message: &Message) -> Option<AgentName> {
        let Target::Topic(topic) = &message.to else { return None };
        if !self.recent.is_new(&message.to) {
            return None;
        }
        let name: AgentName = topic.as_str().parse().ok().filter(|name| *name != message.from)?;
        self.store.get(&RecordKey::agent(&name)).await.ok()??;
        let query = Query { scope: Scope::Target(message.to.clone()), ..Query::default() };
        let summary = self.store.summary(query).await.ok()?;
        matches!(&summary.targets[..], [only] if only.messages == 1 && only.last == message.id).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Project;

    #[test]
    fn a_forgotten_at_sign_is_noticed_once() {
        let project = Project::new();
        project.send("bob", "task", "I am here");
        let first = project.send("alice", "bob", "please look");
        assert_eq!(first.namesake.as_ref().map(|name| name.as_str()), Some("bob"));
        assert_eq!(project.send("alice", "bob", "again").namesake, None, "the topic is in use");
    }

    #[test]
    fn other_messages_have_no_namesake() {
        let project = Project::new();
        project.send("bob", "task", "I am here");
        assert_eq!(project.send("alice", "build", "a topic").namesake, None);
        assert_eq!(project.send("alice", "@bob", "an agent").namesake, None);
        assert_eq!(project.send("bob", "bob", "a topic of his own").namesake, None);
    }
}
