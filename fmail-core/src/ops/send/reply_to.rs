//! Which message a reply answers: a whole id, or the end of one.

use std::sync::Arc;

use fmail_api::{Context, Message, MessageId, Result};

use crate::Operations;
use crate::find::Found;

/// What a `reply_to` was found to mean.
pub(super) enum ReplyTo {
    /// A message that is here.
    Known(Arc<Message>),
    /// A well-formed id that no message here has: it may stand on another host, so it is stored as given.
    Unknown(MessageId),
}

impl ReplyTo {
    /// The id.
    pub(super) fn id(&self) -> MessageId {
        match self {
            ReplyTo::Known(message) => message.id,
            ReplyTo::Unknown(id) => *id,
        }
    }
}

impl Operations {
    /// Finds the message that the caller means by `text`, among those that it may read.
    pub(super) async fn resolve_reply(&self, context: &Context, text: &str) -> Result<ReplyTo> {
        Ok(match self.look_for(context, text).await? {
            Found::Message(message) => ReplyTo::Known(message),
            Found::Nothing(id) => ReplyTo::Unknown(id),
        })
    }
}

#[cfg(test)]
mod tests {
    use fmail_api::{ErrorKind, Result, SendRequest, Sent, Store};
    use futures::executor::block_on;
    use serde_json::json;

    use crate::testing::Project;

    fn plant(project: &Project, id: &str, from: &str, to: &str) {
        let message = json!({"id": id, "from": from, "to": to, "time": "2026-01-10T15:00:00Z", "body": "planted"});
        block_on(project.store.import(serde_json::from_value(message).unwrap())).unwrap();
    }

    fn reply(project: &Project, text: &str) -> Result<Sent> {
        let mut request = SendRequest::new("task".parse().unwrap(), "done");
        request.reply_to = Some(text.into());
        project.try_send("alice", request)
    }

    #[test]
    fn a_whole_id_is_stored_and_an_unknown_one_is_told() {
        let project = Project::new();
        plant(&project, "20260110-150000-0042", "bob", "task");
        let known = reply(&project, "20260110-150000-0042").unwrap();
        assert_eq!(known.message.reply_to.unwrap().to_string(), "20260110-150000-0042");
        assert!(!known.reply_to_unknown);
        assert!(reply(&project, "20260110-150000-0043").unwrap().reply_to_unknown);
    }

    #[test]
    fn a_short_form_fits_exactly_one_message() {
        let project = Project::new();
        plant(&project, "20260110-150000-0042", "bob", "task");
        plant(&project, "20260110-150001-0077", "bob", "task");
        let sent = reply(&project, "0042").unwrap();
        assert_eq!(sent.message.reply_to.unwrap().to_string(), "20260110-150000-0042");
        assert_eq!(reply(&project, "9999").unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn an_ambiguous_short_form_lists_the_candidates() {
        let project = Project::new();
        for second in 0..12 {
            plant(&project, &format!("20260110-1500{second:02}-0042"), "bob", "task");
        }
        let error = reply(&project, "0042").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(error.message().matches("-0042").count(), 10);
        assert!(error.message().contains("20260110-150011-0042 (bob -> task)"), "{error}");
        assert!(error.message().ends_with("and more"));
        assert!(reply(&project, "150003-0042").is_ok());
    }

    #[test]
    fn mail_of_others_is_not_found_by_its_end() {
        let project = Project::new();
        plant(&project, "20260110-150000-0042", "bob", "@carol");
        assert_eq!(reply(&project, "0042").unwrap_err().kind(), ErrorKind::NotFound);
        assert!(reply(&project, "20260110-150000-0042").unwrap().reply_to_unknown);
        plant(&project, "20260110-150001-0042", "alice", "@carol");
        assert!(reply(&project, "0042").is_ok(), "a sender may refer to its own message");
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in ["", "x", "00 42", "20260110-150000-00421", "20261310-150000-0042"] {
            assert_eq!(reply(&Project::new(), text).unwrap_err().kind(), ErrorKind::InvalidRequest, "{text}");
        }
    }
}
