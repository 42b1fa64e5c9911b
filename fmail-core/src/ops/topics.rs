//! `topics`: what is talked about.

use fmail_api::{Query, Result, Scope, Target, TopicView};

use crate::Operations;

impl Operations {
    /// The topics that hold a message, by name. Mailboxes are no topics.
    pub(crate) async fn topics(&self) -> Result<Vec<TopicView>> {
        let summary = self.store.summary(Query { scope: Scope::Topics, ..Query::default() }).await?;
        let mut topics: Vec<TopicView> = summary
            .targets
            .into_iter()
            .filter_map(|entry| match entry.target {
                Target::Topic(topic) => Some(TopicView {
                    name: topic.to_string(),
                    messages: entry.messages,
                    last_activity: entry.last_time,
                    last_id: entry.last,
                }),
                Target::Agent(_) => None,
            })
            .collect();
        topics.sort_by(|one, two| one.name.cmp(&two.name));
        Ok(topics)
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use crate::testing::Project;

    #[test]
    fn topics_are_counted_and_mailboxes_are_not() {
        let project = Project::new();
        assert!(block_on(project.operations.topics()).unwrap().is_empty());
        project.send("bob", "task", "one");
        project.send("bob", "build", "two");
        let last = project.send("bob", "task", "three").message;
        project.send("bob", "@carol", "four");
        let topics = block_on(project.operations.topics()).unwrap();
        let shown: Vec<(&str, u64)> = topics.iter().map(|topic| (topic.name.as_str(), topic.messages)).collect();
        assert_eq!(shown, [("build", 1), ("task", 2)]);
        assert_eq!((topics[1].last_id, topics[1].last_activity), (last.id, last.time));
    }
}
