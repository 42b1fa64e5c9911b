//! Recipients whom nobody in the project has seen.

use fmail_api::{AgentName, Draft, Error, RecordKey, Result, Target, UnknownRecipient};
use futures::StreamExt;

use crate::Operations;
use crate::near::near_names;
use crate::presence::agent_of;

impl Operations {
    /// The recipients of `draft` whom nobody has seen: agents without a record here or on
    /// another host. A mailbox is no proof: it may be full of
    /// earlier messages to the same wrong name.
    ///
    /// A topic costs nothing here, a known agent one record. The agents are listed only for a name that is unknown,
    /// to find what it may have been meant to be.
    pub(super) async fn unknown_recipients(&self, draft: &Draft) -> Vec<UnknownRecipient> {
        let mut asked: Vec<&AgentName> = Vec::new();
        let mut unknown = Vec::new();
        let targets = std::iter::once(&draft.to).chain(&draft.more.recipients).chain(&draft.more.cc);
        for name in targets.filter_map(Target::agent) {
            if *name == draft.from || asked.contains(&name) {
                continue;
            }
            asked.push(name);
            // Whoever cannot be looked up is not called unknown: that would be a claim without a reason.
            if self.is_unknown(name).await.unwrap_or(false) {
                let near = near_names(name, self.known_agents().await.unwrap_or_default());
                unknown.push(UnknownRecipient { name: name.clone(), near });
            }
        }
        unknown
    }

    async fn is_unknown(&self, name: &AgentName) -> Result<bool> {
        if self.store.get(&RecordKey::agent(name)).await?.is_some() {
            return Ok(false);
        }
        Ok(!self.names_elsewhere().await?.contains(name))
    }

    pub(crate) async fn known_agents(&self) -> Result<Vec<AgentName>, Error> {
        let records = self.store.list("agents").await?;
        let mut known: Vec<AgentName> = records.filter_map(|record| async { agent_of(&record.ok()?) }).collect().await;
        known.extend(self.names_elsewhere().await?);
        known.sort_unstable();
        known.dedup();
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use fmail_api::{ErrorKind, SendRequest};

    use crate::testing::Project;

    #[test]
    fn an_unknown_recipient_is_told_with_near_names() {
        let project = Project::new();
        project.send("reviewer", "task", "I am here");
        let sent = project.send("alice", "@reviwer", "please look");
        assert_eq!(sent.unknown.len(), 1);
        assert_eq!(sent.unknown[0].near[0].as_str(), "reviewer");
        assert!(project.send("alice", "@reviewer", "please look").unknown.is_empty());
    }

    #[test]
    fn a_wrong_name_is_told_every_time() {
        let project = Project::new();
        project.send("alice", "@nobody", "first");
        assert_eq!(project.send("alice", "@nobody", "second").unknown.len(), 1);
    }

    #[test]
    fn a_note_to_oneself_needs_no_record() {
        assert!(Project::new().send("alice", "@alice", "remember").unknown.is_empty());
    }

    #[test]
    fn strict_refuses_before_anything_is_stored() {
        let project = Project::new();
        project.send("reviewer", "task", "I am here");
        let mut request = SendRequest::new("@reviwer".parse().unwrap(), "x");
        request.strict = true;
        let error = project.try_send("alice", request.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.help_text().unwrap().contains("@reviewer"), "{error:?}");
        assert_eq!(project.send("alice", "@reviwer", "y").unknown.len(), 1, "the refused message was not stored");
        request.to = "@reviewer".parse().unwrap();
        assert!(project.try_send("alice", request).is_ok());
    }

    #[test]
    fn every_recipient_is_looked_at_once() {
        let project = Project::new();
        let mut request = SendRequest::new("@bob".parse().unwrap(), "x");
        request.cc = vec!["@bob".parse().unwrap(), "@carol".parse().unwrap(), "task".parse().unwrap()];
        let sent = project.try_send("alice", request).unwrap();
        let names: Vec<&str> = sent.unknown.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["bob", "carol"]);
    }
}
