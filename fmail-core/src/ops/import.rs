//! `import`: a message that another host has given its id.

use fmail_api::{
    ImportRequest, Imported, Message, MessageId, REPLY_HASH, RefusedReason, Result, THREAD_HASH, check_size,
};

use crate::Operations;

/// The most places that a message may stand in, and the longest name of a host, in bytes.
const MAX_PLACES: usize = 255;
const MAX_HOST: usize = 255;

impl Operations {
    /// Stores the message as the store decides: new, there already, under another id, or refused. What it mentions becomes
    /// ids of this project. Who may ask is decided where the request comes in.
    pub(crate) async fn import(&self, request: ImportRequest) -> Result<Imported> {
        self.check_exchange("take messages from other hosts")?;
        let mut message = request.message;
        // Who tells both ids means the one that the message was born with.
        message.id = message.origin_id.take().unwrap_or(message.id);
        let identity = message.identity();
        if let Some(run) = request.from {
            // Before it is stored: the stream to that host may be faster than we are.
            self.exchange.note(identity, run);
        }
        if !is_acceptable(&message) {
            return Ok(refused(&message, RefusedReason::Invalid));
        }
        if self.grave(&identity).await?.is_some() {
            return Ok(refused(&message, RefusedReason::Deleted));
        }
        if self.is_grave(message.id).await? {
            // Another message had this id here and was deleted. What agents did with that one, and what answers it, still
            // goes by the id: the newcomer would be deleted with it. An id that no clock has reached makes the store give
            // a new one.
            message.origin_id = Some(message.id);
            message.id = MessageId::MAX;
        }
        self.exchange.localise(&mut message).await?;
        fit(&mut message, self.store.capabilities().max_message_bytes);
        let told = (message.id, message.from.clone());
        let imported = self.store.import(message).await?;
        if let Imported::Refused(reason) = &imported {
            tracing::info!(id = %told.0, from = %told.1, ?reason, "a message of another host was refused");
        }
        Ok(imported)
    }
}

/// Whether the store could keep the message, apart from its size. Names and ids are so by their types.
fn is_acceptable(message: &Message) -> bool {
    let host = |host: &String| !host.is_empty() && host.len() <= MAX_HOST && !host.chars().any(char::is_control);
    message.targets().len() <= MAX_PLACES && message.host.as_ref().is_none_or(host)
}

fn refused(message: &Message, reason: RefusedReason) -> Imported {
    tracing::info!(id = %message.id, from = %message.from, ?reason, "a message of another host was refused");
    Imported::Refused(reason)
}

/// A message that was as large as it may be where it was born has grown by what it travels with. That must not turn it
/// away, so it goes without.
fn fit(message: &mut Message, limit: usize) {
    if check_size(message, limit).is_ok() {
        return;
    }
    let mut smaller = message.clone();
    smaller.extra.shift_remove(REPLY_HASH);
    smaller.extra.shift_remove(THREAD_HASH);
    if check_size(&smaller, limit).is_err() {
        smaller.host = None;
    }
    if check_size(&smaller, limit).is_ok() {
        *message = smaller;
    }
}

#[cfg(test)]
mod tests {
    use fmail_api::{ImportRequest, Imported, Message, RefusedReason, Request, Response};

    use crate::testing::Project;

    fn import(project: &Project, message: &Message) -> Imported {
        match project.call("peer", Request::Import(Box::new(ImportRequest::new(message.clone())))).unwrap().head {
            Response::Imported(imported) => imported,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_there_is_not_imported_again() {
        let (here, there) = (Project::new(), Project::new());
        let message = there.send("bob", "task", "hello").message;
        assert_eq!(import(&here, &message), Imported::New);
        assert_eq!(import(&here, &message), Imported::Duplicate);
    }

    #[test]
    fn what_no_store_could_keep_is_refused() {
        let (here, there) = (Project::new(), Project::new());
        let message = there.send("bob", "task", "hello").message;
        let refused = |change: &dyn Fn(&mut Message), reason: RefusedReason| {
            let mut message = message.clone();
            change(&mut message);
            assert_eq!(import(&here, &message), Imported::Refused(reason));
        };
        let crowd = || (0..255).map(|number| format!("@a{number}").parse().unwrap()).collect();
        refused(&|message| message.more.cc = crowd(), RefusedReason::Invalid);
        refused(&|message| message.host = Some("\u{1b}[2J".into()), RefusedReason::Invalid);
        refused(&|message| message.host = Some("h".repeat(256)), RefusedReason::Invalid);
        refused(&|message| message.body = "x".repeat(10_001).into(), RefusedReason::TooLarge);
        assert_eq!(import(&here, &message), Imported::New);
    }

    #[test]
    fn what_a_message_travels_with_does_not_make_it_too_large() {
        let (here, there) = (Project::new(), Project::new());
        let mut message = there.send("bob", "task", "y").message;
        let room = 10_001 - message.to_line().len();
        message.body = "x".repeat(room).into();
        message.host = Some("elsewhere".into());
        assert_eq!(import(&here, &message), Imported::New);
    }
}
