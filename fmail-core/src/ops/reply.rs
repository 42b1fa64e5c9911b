//! `reply`: answers a message, to its sender and in its thread.

use fmail_api::{AgentName, Context, Message, ReplyRequest, Result, SendRequest, Sent, Target};

use crate::Operations;

impl Operations {
    pub(crate) async fn reply(&self, context: &Context, request: ReplyRequest) -> Result<Sent> {
        let original = self.find(context, &request.id).await?;
        let (to, others) = recipients(&context.agent, &original, request.all);
        let (thread, extra) = self.exchange.thread_to_carry(&original).await?;
        let send = SendRequest {
            reply_to: Some(original.id.to_string()),
            priority: request.priority,
            tags: request.tags,
            subject: request.subject.or_else(|| original.subject.as_deref().map(answer_to)),
            thread: Some(thread.unwrap_or_else(|| original.id.to_string())),
            cc: others,
            ack_required: request.ack_required,
            expires: request.expires,
            key: request.key,
            extra,
            ..SendRequest::new(to, request.body)
        };
        self.send(context, send).await
    }
}

/// The title of an answer. One `Re:` is enough.
fn answer_to(subject: &str) -> String {
    match subject.get(..3) {
        Some(start) if start.eq_ignore_ascii_case("re:") => subject.into(),
        _ => format!("Re: {subject}"),
    }
}

/// To the sender; whoever answers its own message writes to those whom it wrote to. With `all` everyone else who has the
/// message gets the answer as well, and nobody gets it twice.
fn recipients(agent: &AgentName, original: &Message, all: bool) -> (Target, Vec<Target>) {
    let own = original.from == *agent;
    let mut targets = if own { original.targets() } else { vec![Target::Agent(original.from.clone())] };
    if all && !own {
        targets.extend(original.targets());
    }
    let myself = Target::Agent(agent.clone());
    if targets.iter().any(|target| *target != myself) {
        targets.retain(|target| *target != myself);
    }
    let to = targets.remove(0);
    let mut others: Vec<Target> = Vec::new();
    for target in targets {
        if target != to && !others.contains(&target) {
            others.push(target);
        }
    }
    (to, if all || own { others } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    use fmail_api::{ErrorKind, ReplyRequest, Request, Response, Result, SendRequest, Sent};
    use serde_json::json;

    use crate::testing::Project;

    fn reply(project: &Project, agent: &str, id: impl ToString, all: bool) -> Result<Sent> {
        let request = serde_json::from_value::<ReplyRequest>(json!({"id": id.to_string(), "body": "yes", "all": all}));
        match project.call(agent, Request::Reply(Box::new(request.unwrap())))?.head {
            Response::Sent(sent) => Ok(*sent),
            other => panic!("unexpected answer {other:?}"),
        }
    }

    fn places(sent: &Sent) -> Vec<String> {
        sent.message.targets().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn it_goes_to_the_sender_in_the_same_thread() {
        let project = Project::new();
        let mut first = SendRequest::new("@bob".parse().unwrap(), "may I?");
        first.subject = Some("Merge".into());
        let first = project.try_send("alice", first).unwrap().message;
        let second = reply(&project, "bob", first.id, false).unwrap();
        assert_eq!(places(&second), ["@alice"]);
        assert_eq!(second.message.thread, Some(first.id.to_string()));
        assert_eq!((second.message.reply_to, second.message.subject.as_deref()), (Some(first.id), Some("Re: Merge")));
        let third = reply(&project, "alice", second.message.id, false).unwrap();
        assert_eq!(third.message.thread, Some(first.id.to_string()), "the thread keeps its name");
        assert_eq!(third.message.subject.as_deref(), Some("Re: Merge"), "one Re: is enough");
    }

    #[test]
    fn all_means_everyone_who_has_the_message_once() {
        let project = Project::new();
        let mut first = SendRequest::new("@bob".parse().unwrap(), "x");
        first.cc = vec!["@carol".parse().unwrap(), "task".parse().unwrap(), "@alice".parse().unwrap()];
        let first = project.try_send("alice", first).unwrap().message;
        assert_eq!(places(&reply(&project, "bob", first.id, true).unwrap()), ["@alice", "@carol", "task"]);
        assert_eq!(places(&reply(&project, "bob", first.id, false).unwrap()), ["@alice"]);
    }

    #[test]
    fn who_answers_itself_goes_on_writing_to_the_others() {
        let project = Project::new();
        let first = project.send("alice", "@bob", "x").message;
        assert_eq!(places(&reply(&project, "alice", first.id, false).unwrap()), ["@bob"]);
        let note = project.send("alice", "@alice", "x").message;
        assert_eq!(places(&reply(&project, "alice", note.id, false).unwrap()), ["@alice"]);
    }

    #[test]
    fn mail_of_others_cannot_be_answered() {
        let project = Project::new();
        let first = project.send("alice", "@bob", "x").message;
        assert_eq!(reply(&project, "eve", first.id, false).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
