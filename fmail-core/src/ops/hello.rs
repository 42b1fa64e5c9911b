//! `hello`: who is there, and what it can do.

use fmail_api::{Error, Hello, HelloRequest, Operation, PROTOCOL_VERSION, RecordKey, Result};

use crate::Operations;

/// The operations that this crate runs.
const OPERATIONS: &[Operation] = &[
    Operation::Hello,
    Operation::Send,
    Operation::Watch,
    Operation::Relay,
    Operation::Log,
    Operation::Topics,
    Operation::Who,
    Operation::Register,
    Operation::Status,
    Operation::Gc,
    Operation::Inbox,
    Operation::Check,
    Operation::Count,
    Operation::Read,
    Operation::Peek,
    Operation::Ack,
    Operation::Archive,
    Operation::Unarchive,
    Operation::MarkRead,
    Operation::MarkUnread,
    Operation::Retrieved,
    Operation::Delete,
    Operation::Reply,
    Operation::Thread,
    Operation::Receipt,
    Operation::Reserve,
    Operation::Release,
    Operation::Renew,
    Operation::Reservations,
    Operation::Search,
    Operation::Nudge,
];

/// What it runs beyond that over a store that takes messages of other hosts.
const EXCHANGE: &[Operation] =
    &[Operation::Digest, Operation::Fetch, Operation::Import, Operation::ImportMany, Operation::Records];

impl Operations {
    /// Answers with the protocol that both sides know. There is only the first so far, which everybody knows.
    pub(crate) async fn hello(&self, request: &HelloRequest) -> Result<Hello> {
        let record = self.store.get(&RecordKey::project()).await?.ok_or_else(|| {
            Error::not_found("there is no project here yet").help("send a message or run `fmail init` to create one")
        })?;
        let exchange = if self.store.capabilities().import { EXCHANGE } else { &[] };
        Ok(Hello {
            version: env!("CARGO_PKG_VERSION").into(),
            protocol: request.protocol.unwrap_or(PROTOCOL_VERSION).clamp(1, PROTOCOL_VERSION),
            operations: [OPERATIONS, exchange].concat(),
            project: record.decode()?,
            store_id: self.store_id.clone(),
            node: self.node.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Project;
    use fmail_api::{ErrorKind, Request, Response};

    #[test]
    fn hello_names_the_project_and_every_operation() {
        let project = Project::new();
        let hello = Request::Hello(HelloRequest::default());
        assert_eq!(project.call("alice", hello.clone()).err().unwrap().kind(), ErrorKind::NotFound);
        project.create();
        let Response::Hello(answer) = project.call("alice", hello).unwrap().head else { panic!() };
        assert_eq!((answer.project.id.as_str(), answer.protocol), ("proj-test", PROTOCOL_VERSION));
        assert_eq!(answer.operations, [OPERATIONS, EXCHANGE].concat());
    }

    #[test]
    fn a_newer_client_is_told_what_we_speak() {
        let project = Project::new();
        project.create();
        let newer = HelloRequest {
            version: Some("9.0.0".into()),
            protocol: Some(PROTOCOL_VERSION + 1),
            ..HelloRequest::default()
        };
        let Response::Hello(answer) = project.call("alice", Request::Hello(newer)).unwrap().head else { panic!() };
        assert_eq!(answer.protocol, PROTOCOL_VERSION);
    }

    #[test]
    fn an_operation_that_we_do_not_know_hides_no_other() {
        let project = Project::new();
        project.create();
        let hello = Request::Hello(HelloRequest::default());
        let Response::Hello(answer) = project.call("alice", hello).unwrap().head else { panic!() };
        let mut value = serde_json::to_value(&answer).unwrap();
        value["operations"].as_array_mut().unwrap().insert(1, "teleport".into());
        assert_eq!(serde_json::from_value::<Hello>(value).unwrap(), *answer);
    }
}
