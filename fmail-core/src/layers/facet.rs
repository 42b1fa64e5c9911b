//! What the layers do for a store that keeps the states of mail itself.

use async_trait::async_trait;
use fmail_api::{AgentName, Error, Folder, Mail, MailCount, Mailbox, Mark, MessageId, Result, Store};

use super::Capable;

/// The facet of a store that is known to have one: a layer offers its own only where the store inside does.
pub(super) fn of(store: &dyn Store) -> Result<&dyn Mailbox> {
    store.mailbox().ok_or_else(|| Error::unsupported("keep the states of mail"))
}

/// Makes a layer a [`Mailbox`] around that of its inner store: every call goes through the layer's `$around`, with the
/// name that a plugin knows it by. An answer is whole, so a deadline holds for all of a list.
macro_rules! facet_around {
    ($layer:ty, $around:ident) => {
        #[async_trait::async_trait]
        impl fmail_api::Mailbox for $layer {
            async fn inbox(
                &self,
                agent: &fmail_api::AgentName,
                folder: fmail_api::Folder,
            ) -> fmail_api::Result<Vec<fmail_api::Mail>> {
                let facet = $crate::layers::facet::of(&*self.inner)?;
                self.$around(fmail_api::verbs::method::MAIL_INBOX, facet.inbox(agent, folder)).await
            }

            async fn peek(
                &self,
                agent: &fmail_api::AgentName,
                id: fmail_api::MessageId,
            ) -> fmail_api::Result<fmail_api::Mail> {
                let facet = $crate::layers::facet::of(&*self.inner)?;
                self.$around(fmail_api::verbs::method::MAIL_PEEK, facet.peek(agent, id)).await
            }

            async fn read(
                &self,
                agent: &fmail_api::AgentName,
                id: fmail_api::MessageId,
            ) -> fmail_api::Result<fmail_api::Mail> {
                let facet = $crate::layers::facet::of(&*self.inner)?;
                self.$around(fmail_api::verbs::method::MAIL_READ, facet.read(agent, id)).await
            }

            async fn mark(
                &self,
                agent: &fmail_api::AgentName,
                id: fmail_api::MessageId,
                mark: fmail_api::Mark,
            ) -> fmail_api::Result<bool> {
                let facet = $crate::layers::facet::of(&*self.inner)?;
                self.$around(fmail_api::verbs::method::MAIL_MARK, facet.mark(agent, id, mark)).await
            }

            async fn count(&self, agent: &fmail_api::AgentName) -> fmail_api::Result<fmail_api::MailCount> {
                let facet = $crate::layers::facet::of(&*self.inner)?;
                self.$around(fmail_api::verbs::method::MAIL_COUNT, facet.count(agent)).await
            }

            async fn thread(
                &self,
                agent: &fmail_api::AgentName,
                thread: &str,
            ) -> fmail_api::Result<Vec<fmail_api::Mail>> {
                let facet = $crate::layers::facet::of(&*self.inner)?;
                self.$around(fmail_api::verbs::method::MAIL_THREAD, facet.thread(agent, thread)).await
            }
        }
    };
}

pub(super) use facet_around;

/// Whether mail in this state stands in the folder.
fn stands_in(mail: &Mail, folder: Folder) -> bool {
    let state = &mail.state;
    match folder {
        Folder::Unread => state.is_open() && !state.is_read(),
        Folder::Open => state.is_open(),
        Folder::Archived => !state.is_open() && state.deleted.is_none(),
    }
}

impl Capable {
    /// The one message that was asked for.
    fn asked_for(&self, mail: Mail, agent: &AgentName, id: MessageId) -> Result<Mail> {
        if mail.message.id != id {
            return Err(self.nonsense(format!("{agent} asked for the message {id}, it gives {}", mail.message.id)));
        }
        Ok(mail)
    }

    /// Messages, each once. What their order is only the store can tell: ids need not follow its clock.
    fn each_once(&self, mail: Vec<Mail>, what: &str) -> Result<Vec<Mail>> {
        let mut seen = std::collections::HashSet::with_capacity(mail.len());
        match mail.iter().find(|mail| !seen.insert(mail.message.id)) {
            Some(twice) => Err(self.nonsense(format!("{what} has the message {} twice", twice.message.id))),
            None => Ok(mail),
        }
    }
}

#[async_trait]
impl Mailbox for Capable {
    async fn inbox(&self, agent: &AgentName, folder: Folder) -> Result<Vec<Mail>> {
        let mail = of(&*self.inner)?.inbox(agent, folder).await?;
        if let Some(other) = mail.iter().find(|mail| !stands_in(mail, folder)) {
            let (id, state) = (other.message.id, &other.state);
            return Err(self.nonsense(format!("it lists {id} among what is {folder:?}, and its state is {state:?}")));
        }
        self.each_once(mail, &format!("the mailbox of {agent}"))
    }

    async fn peek(&self, agent: &AgentName, id: MessageId) -> Result<Mail> {
        let mail = of(&*self.inner)?.peek(agent, id).await?;
        self.asked_for(mail, agent, id)
    }

    async fn read(&self, agent: &AgentName, id: MessageId) -> Result<Mail> {
        let mail = self.asked_for(of(&*self.inner)?.read(agent, id).await?, agent, id)?;
        match mail.state.is_read() {
            true => Ok(mail),
            false => Err(self.nonsense(format!("{agent} has read {id}, and it is not read"))),
        }
    }

    async fn mark(&self, agent: &AgentName, id: MessageId, mark: Mark) -> Result<bool> {
        of(&*self.inner)?.mark(agent, id, mark).await
    }

    async fn count(&self, agent: &AgentName) -> Result<MailCount> {
        let count = of(&*self.inner)?.count(agent).await?;
        match count.unread <= count.total {
            true => Ok(count),
            false => {
                Err(self
                    .nonsense(format!("of {} open messages of {agent} it counts {} unread", count.total, count.unread)))
            }
        }
    }

    async fn thread(&self, agent: &AgentName, thread: &str) -> Result<Vec<Mail>> {
        let mail = of(&*self.inner)?.thread(agent, thread).await?;
        self.each_once(mail, &format!("the thread {thread:?}"))
    }
}
