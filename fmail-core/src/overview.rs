//! The whole project, for a program that acts for every agent in it.
//!
//! An operation runs on behalf of one agent, and shows it what that agent may read. A program that carries the mail of a
//! whole team - a mail script of another system - is told an id and nothing else, and has to find out whose
//! message that is before it can act for anybody. It opens the store itself, as whoever owns the project may; no daemon
//! answers these questions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fmail_api::{AgentName, Event, EventStream, Message, MessageId, Query, Result};
use futures::StreamExt;

use crate::Operations;
use crate::conversation::oldest_first;
use crate::presence::agent_of;

impl Operations {
    /// The message with this id, in whatever topic or mailbox it stands.
    pub async fn message(&self, id: MessageId) -> Result<Option<Arc<Message>>> {
        Ok(gathered(self.in_turn(vec![id]).await?).await?.pop())
    }

    /// Every agent that has ever been sent a message, by name.
    pub async fn mailboxes(&self) -> Result<Vec<AgentName>> {
        let summary = self.store.summary(Query::default()).await?;
        Ok(summary.targets.iter().filter_map(|held| held.target.agent().cloned()).collect())
    }

    /// Every message of a thread, whoever may read it, the oldest first and none before what it answers. It is named, or
    /// meant by the id of one of its messages. An unknown one is empty.
    pub async fn conversation(&self, thread: &str) -> Result<Vec<Arc<Message>>> {
        let thread = thread.trim();
        let named = match thread.parse() {
            Ok(id) => self.message(id).await?,
            Err(_) => None,
        };
        let name = match named {
            Some(message) => self.thread_name(message, &|_| true).await?,
            None => thread.to_string(),
        };
        if self.store.mailbox().is_some() {
            return self.conversation_in_mailboxes(&name).await;
        }
        let members = self.members(&name, &|_| true).await?;
        gathered(self.in_turn(members).await?).await
    }

    /// The name of the thread that a message belongs to, whoever may read what it answers.
    pub async fn thread_named(&self, message: Arc<Message>) -> Result<String> {
        self.thread_name(message, &|_| true).await
    }

    /// The same where the store keeps the mail of each agent itself.
    async fn conversation_in_mailboxes(&self, name: &str) -> Result<Vec<Arc<Message>>> {
        let Some(mailbox) = self.store.mailbox() else { return Ok(Vec::new()) };
        let mut agents: BTreeSet<AgentName> = self.mailboxes().await?.into_iter().collect();
        let mut records = self.store.list("agents").await?;
        while let Some(record) = records.next().await {
            agents.extend(agent_of(&record?));
        }
        let mut found = BTreeMap::new();
        for agent in agents {
            let mail = mailbox.thread(&agent, name).await?;
            found.extend(mail.into_iter().map(|mail| (mail.message.id, mail.message)));
        }
        Ok(oldest_first(found.into_values().collect(), |message| message))
    }
}

/// The messages among events.
async fn gathered(mut events: EventStream) -> Result<Vec<Arc<Message>>> {
    let mut found = Vec::new();
    while let Some(event) = events.next().await {
        if let Event::Message(delivery) = event? {
            found.push(delivery.message.clone());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use fmail_api::{MessageId, SendRequest};
    use futures::executor::block_on;

    use crate::testing::Project;

    fn answer(project: &Project, from: &str, to: &str, above: MessageId, body: &str) -> MessageId {
        let mut request = SendRequest::new(to.parse().unwrap(), body);
        request.reply_to = Some(above.to_string());
        project.try_send(from, request).unwrap().message.id
    }

    fn conversation(project: &Project, thread: &str) -> Vec<String> {
        let messages = block_on(project.operations.conversation(thread)).unwrap();
        messages.iter().map(|message| message.body.as_str().unwrap().to_string()).collect()
    }

    #[test]
    fn a_message_is_found_in_any_mailbox() {
        let project = Project::new();
        let id = project.send("alice", "@bob", "for bob").message.id;
        assert_eq!(block_on(project.operations.message(id)).unwrap().unwrap().body, "for bob");
        assert!(block_on(project.operations.message(MessageId::MIN)).unwrap().is_none());
    }

    #[test]
    fn every_agent_that_has_mail_has_a_mailbox() {
        let project = Project::new();
        assert!(block_on(project.operations.mailboxes()).unwrap().is_empty());
        project.send("alice", "@bob", "x");
        project.send("alice", "task", "x");
        let mut copied = SendRequest::new("@carol".parse().unwrap(), "x");
        copied.cc = vec!["@dave".parse().unwrap()];
        project.try_send("bob", copied).unwrap();
        let names = block_on(project.operations.mailboxes()).unwrap();
        assert_eq!(names.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["bob", "carol", "dave"]);
    }

    #[test]
    fn a_conversation_is_whole_whoever_took_part() {
        let project = Project::new();
        let one = project.send("alice", "@bob", "one").message.id;
        let two = answer(&project, "bob", "@alice", one, "two");
        // Neither of the two others may read what was said before, nor each other's.
        answer(&project, "carol", "@dave", two, "three");
        project.send("alice", "@bob", "something else");
        for id in [one, two] {
            assert_eq!(conversation(&project, &id.to_string()), ["one", "two", "three"]);
        }
        assert!(conversation(&project, "nothing").is_empty());
        assert!(conversation(&project, "20200101-000000-0000").is_empty());
    }
}
