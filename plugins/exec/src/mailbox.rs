//! The states of mail, which the script keeps.

use async_trait::async_trait;
use fmail_api::{AgentName, Error, ErrorKind, Folder, Mail, MailCount, Mailbox, Mark, MessageId, Result};

use crate::foreign::Foreign;
use crate::script::excerpt_of;
use crate::store::{ExecStore, Inner};
use crate::translate::Told;

impl Inner {
    /// A message that the agent may read.
    async fn readable(&self, agent: &AgentName, id: MessageId) -> Result<Told> {
        let told = self.fetch(Some(agent), id).await?;
        told.filter(|told| told.message.readable_by(agent)).ok_or_else(|| no_such_message(id))
    }

    /// The script's name of a message in the agent's own mailbox. What others received is not the agent's to mark.
    async fn own(&self, agent: &AgentName, id: MessageId) -> Result<Option<String>> {
        let known = self.translator.owners(id).is_some_and(|owners| owners.contains(agent));
        if !known && !self.readable(agent, id).await?.is_in_mailbox_of(agent) {
            return Ok(None);
        }
        self.translator.ids.foreign_of(id).await
    }

    async fn mails(&self, agent: &AgentName, foreign: Vec<Foreign>, mailbox: Option<&AgentName>) -> Result<Vec<Mail>> {
        let (told, left_out) = self.translated(foreign, mailbox).await?;
        for notice in left_out {
            tracing::warn!("{}", notice.text);
        }
        let now = self.now();
        Ok(told.iter().filter(|told| told.message.readable_by(agent)).map(|told| told.mail(agent, now)).collect())
    }

    /// A script that answers with another message than it was asked for has mixed something up.
    pub(crate) fn check_same(&self, asked: &str, given: &str) -> Result<()> {
        if asked == given {
            return Ok(());
        }
        let what = format!(
            "the mail script `{}` was asked for the message `{}` and answers with `{}`",
            self.script.shown(),
            excerpt_of(asked, 60),
            excerpt_of(given, 60)
        );
        Err(Error::new(ErrorKind::Corrupt, what))
    }
}

fn no_such_message(id: MessageId) -> Error {
    Error::not_found(format!("no message that you can read has the id {id}")).help("`fmail inbox --all` shows the ids")
}

#[async_trait]
impl Mailbox for ExecStore {
    async fn inbox(&self, agent: &AgentName, folder: Folder) -> Result<Vec<Mail>> {
        let inner = self.inner()?;
        let mut listed = inner.backend.list(&agent.foreign(), folder).await?;
        // Scripts disagree about this flag in a list of unread messages; that they are in it says enough.
        if folder == Folder::Unread {
            listed.iter_mut().for_each(|message| message.read = false);
        }
        listed.iter_mut().for_each(|message| message.archived = folder == Folder::Archived);
        inner.mails(agent, listed, Some(agent)).await
    }

    async fn peek(&self, agent: &AgentName, id: MessageId) -> Result<Mail> {
        let inner = self.inner()?;
        Ok(inner.readable(agent, id).await?.mail(agent, inner.now()))
    }

    /// What the agent has sent to others it may look at; that does not make it read.
    async fn read(&self, agent: &AgentName, id: MessageId) -> Result<Mail> {
        let inner = self.inner()?;
        let Some(foreign) = inner.own(agent, id).await? else { return self.peek(agent, id).await };
        let message = inner.backend.read(&agent.foreign(), &foreign).await?;
        inner.check_same(&foreign, &message.id)?;
        let mut told = inner.one(message, None).await?;
        // Some scripts answer with the message as it was before.
        told.read = true;
        Ok(told.mail(agent, inner.now()))
    }

    async fn mark(&self, agent: &AgentName, id: MessageId, mark: Mark) -> Result<bool> {
        let inner = self.inner()?;
        let Some(foreign) = inner.own(agent, id).await? else {
            return Err(Error::new(ErrorKind::Denied, format!("{id} is not in your mailbox: you have sent it"))
                .help("only its recipient can mark a message"));
        };
        if matches!(mark, Mark::Read | Mark::Unread) {
            // The contract of scripts does not say whether it changed anything.
            let told = inner.readable(agent, id).await?;
            if told.read == (mark == Mark::Read) {
                return Ok(false);
            }
        }
        inner.backend.mark(&agent.foreign(), &foreign, mark).await
    }

    async fn count(&self, agent: &AgentName) -> Result<MailCount> {
        self.inner()?.backend.count(&agent.foreign()).await
    }

    /// By its name; by the id of a message of it, too. A script need not know that a message begins a thread.
    async fn thread(&self, agent: &AgentName, thread: &str) -> Result<Vec<Mail>> {
        let inner = self.inner()?;
        let first = match thread.parse::<MessageId>() {
            Ok(id) => inner.fetch(Some(agent), id).await?.filter(|told| told.message.readable_by(agent)),
            Err(_) => None,
        };
        let name = first.as_ref().map(Told::thread_name);
        let listed = inner.backend.thread(&agent.foreign(), name.as_deref().unwrap_or(thread)).await?;
        let mut mail = inner.mails(agent, listed, None).await?;
        if let Some(first) = first.filter(|first| mail.iter().all(|mail| mail.message.id != first.message.id)) {
            mail.insert(0, first.mail(agent, inner.now()));
        }
        Ok(mail)
    }
}
