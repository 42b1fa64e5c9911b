//! What is needed of a message to merge what others say of it.

use fmail_api::{AgentName, Message, MessageId, Place, Target};

use crate::mailbox::{Shelf, shelf_among};

/// A message that is here, without what it says: thousands are looked up for one request, and each may have a megabyte.
pub(crate) struct Here {
    /// Its id on this host.
    pub(crate) id: MessageId,
    /// Where it stands in the inventory.
    pub(crate) place: Place,
    /// Its mailboxes.
    pub(crate) targets: Vec<Target>,
    /// It says with which id it was born.
    pub(crate) has_origin: bool,
}

impl Here {
    pub(super) fn of(message: &Message) -> Self {
        let (place, targets) = (Place::of(message), message.targets());
        Here { id: message.id, place, targets, has_origin: message.origin_id.is_some() }
    }

    /// Where it stands for an agent.
    pub(crate) fn shelf(&self, agent: &AgentName) -> Option<Shelf> {
        shelf_among(agent, &self.targets)
    }
}
