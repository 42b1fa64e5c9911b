//! `status`: what an agent says it is doing.

use fmail_api::{AgentRecord, Context, Error, RecordKey, Result, StatusChange, StatusRequest, StatusView};

use crate::{Operations, access};

impl Operations {
    /// Sets, clears or shows the agent's own status. Showing writes nothing.
    pub(crate) async fn status(&self, context: &Context, request: StatusRequest) -> Result<StatusView> {
        let status = match request.change {
            None => return self.show_status(context).await,
            Some(StatusChange::Clear) => None,
            Some(StatusChange::Set(text)) => Some(checked(&text)?),
        };
        access::named(context, "a status")?;
        let now = self.clock.now();
        self.change_agent(&context.agent, true, |found| {
            let record = match found {
                Some(record) => self.seen(record, context, now),
                None => self.first_sight(context.agent.clone(), context, now),
            };
            Some(AgentRecord { status: status.clone(), ..record })
        })
        .await?;
        Ok(StatusView { name: context.agent.clone(), status })
    }

    async fn show_status(&self, context: &Context) -> Result<StatusView> {
        let status = match self.store.get(&RecordKey::agent(&context.agent)).await? {
            Some(record) => record.decode::<AgentRecord>()?.status,
            None => None,
        };
        Ok(StatusView { name: context.agent.clone(), status })
    }
}

fn checked(text: &str) -> Result<String> {
    match text.trim() {
        "" => Err(Error::invalid("the status is empty").help("use `fmail status --clear` to have none")),
        text => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use fmail_api::{ErrorKind, RecordKey, Request, Response, Result, StatusChange, StatusRequest, Store};
    use futures::executor::block_on;

    use crate::testing::Project;

    fn status(project: &Project, agent: &str, change: Option<StatusChange>) -> Result<Option<String>> {
        match project.call(agent, Request::Status(StatusRequest { change }))?.head {
            Response::Status(view) => Ok(view.status),
            other => panic!("unexpected answer {other:?}"),
        }
    }

    fn set(text: &str) -> Option<StatusChange> {
        Some(StatusChange::Set(text.into()))
    }

    #[test]
    fn a_status_is_set_shown_and_cleared() {
        let project = Project::new();
        assert_eq!(status(&project, "alice", None).unwrap(), None);
        assert!(block_on(project.store.get(&RecordKey::agent(&"alice".parse().unwrap()))).unwrap().is_none());
        status(&project, "alice", set("working on auth")).unwrap();
        assert_eq!(status(&project, "alice", None).unwrap().as_deref(), Some("working on auth"));
        project.send("alice", "task", "sending keeps it");
        assert_eq!(status(&project, "alice", None).unwrap().as_deref(), Some("working on auth"));
        status(&project, "alice", Some(StatusChange::Clear)).unwrap();
        assert_eq!(status(&project, "alice", None).unwrap(), None);
    }

    #[test]
    fn an_empty_status_and_a_made_up_name_are_refused() {
        let project = Project::new();
        assert_eq!(status(&project, "alice", set("  ")).unwrap_err().kind(), ErrorKind::InvalidRequest);
        assert_eq!(status(&project, "anon-123", set("x")).unwrap_err().kind(), ErrorKind::InvalidAgent);
        assert!(status(&project, "anon-x", set("x")).is_ok());
    }
}
