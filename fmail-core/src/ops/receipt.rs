//! `receipt`: what became of a message, recipient by recipient.

use std::collections::BTreeSet;

use fmail_api::{
    AgentName, Context, MailState, Message, Receipt, ReceiptRequest, RecipientReceipt, Result, Target, Timestamp,
};

use crate::Operations;
use crate::mailbox::{Mailbox, Shelf};

impl Operations {
    /// What the recipients have done with a message. Its sender may ask, and everyone who may read it.
    pub(crate) async fn receipt(&self, context: &Context, request: ReceiptRequest) -> Result<Receipt> {
        let message = self.find(context, &request.id).await?;
        let mut recipients = Vec::new();
        let mut in_topic = false;
        for target in message.targets() {
            match target {
                Target::Topic(_) => in_topic = true,
                Target::Agent(agent) => {
                    let state = self.state_for(&agent, Shelf::Mailbox, &message).await?.unwrap_or_default();
                    recipients.push(told(agent, &message, state, self.moment()));
                }
            }
        }
        if in_topic {
            for agent in self.known_agents().await? {
                if recipients.iter().any(|recipient| recipient.agent == agent) {
                    continue;
                }
                if let Some(state) = self.state_for(&agent, Shelf::Topic, &message).await? {
                    recipients.push(told(agent, &message, state, self.moment()));
                }
            }
        }
        let (id, from, stored, expires) = (message.id, message.from.clone(), message.time, message.expires);
        Ok(Receipt { id, from, stored, expires, recipients })
    }

    async fn state_for(&self, agent: &AgentName, shelf: Shelf, message: &Message) -> Result<Option<MailState>> {
        if let Some(mailbox) = self.store.mailbox() {
            return Ok((shelf == Shelf::Mailbox).then_some(mailbox.peek(agent, message.id).await?.state));
        }
        let mailbox = Mailbox::new(&*self.store, agent, self.moment());
        Ok(mailbox.states_on(shelf, &BTreeSet::from([message.id])).await?.remove(&message.id))
    }
}

fn told(agent: AgentName, message: &Message, state: MailState, now: Timestamp) -> RecipientReceipt {
    let target = Target::Agent(agent.clone());
    let asked = message.to == target || message.more.recipients.contains(&target);
    RecipientReceipt {
        cc: !asked && message.more.cc.contains(&target),
        standing: state.standing(message.expires, now),
        retrieved: state.retrieved,
        read: state.first_read,
        acknowledged: state.acknowledged,
        archived: state.archived.filter(|flag| flag.set).map(|flag| flag.at),
        deleted: state.deleted,
        agent,
    }
}
