//! The mailbox facet of a plugin: a store that keeps the states of mail itself.

use async_trait::async_trait;
use fmail_api::verbs::{CountVerb, InboxVerb, MailItem, MailVerb, MarkAnswer, MarkVerb, ThreadVerb, method};
use fmail_api::{AgentName, Folder, Mail, MailCount, Mailbox, Mark, MessageId, Result};
use futures::TryStreamExt;
use serde::Serialize;

use super::store::{Nothing, PluginStore};

impl PluginStore {
    /// One message, as an answer.
    async fn mail(&self, method: &'static str, agent: &AgentName, id: MessageId) -> Result<Mail> {
        let item: MailItem = self.ask(method, &MailVerb { agent: agent.clone(), id }).await?;
        Ok(item.into())
    }

    /// Messages, as the items of a stream. An error behind some of them is an error: half a mailbox is none.
    async fn mails(&self, method: &'static str, request: &impl Serialize) -> Result<Vec<Mail>> {
        let (Nothing {}, items) = self.stream(method, request).await?;
        self.items::<MailItem>(method, items).map_ok(Mail::from).try_collect().await
    }
}

#[async_trait]
impl Mailbox for PluginStore {
    async fn inbox(&self, agent: &AgentName, folder: Folder) -> Result<Vec<Mail>> {
        self.mails(method::MAIL_INBOX, &InboxVerb { agent: agent.clone(), folder }).await
    }

    async fn peek(&self, agent: &AgentName, id: MessageId) -> Result<Mail> {
        self.mail(method::MAIL_PEEK, agent, id).await
    }

    async fn read(&self, agent: &AgentName, id: MessageId) -> Result<Mail> {
        self.mail(method::MAIL_READ, agent, id).await
    }

    async fn mark(&self, agent: &AgentName, id: MessageId, mark: Mark) -> Result<bool> {
        let verb = MarkVerb { agent: agent.clone(), id, mark };
        let MarkAnswer { changed } = self.ask(method::MAIL_MARK, &verb).await?;
        Ok(changed)
    }

    async fn count(&self, agent: &AgentName) -> Result<MailCount> {
        self.ask(method::MAIL_COUNT, &CountVerb { agent: agent.clone() }).await
    }

    async fn thread(&self, agent: &AgentName, thread: &str) -> Result<Vec<Mail>> {
        self.mails(method::MAIL_THREAD, &ThreadVerb { agent: agent.clone(), thread: thread.into() }).await
    }
}
