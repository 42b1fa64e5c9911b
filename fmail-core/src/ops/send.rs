//! `send`: stores a message, and says truthfully what became of it.

mod backlog;
mod namesake;
mod recipients;
mod reply_to;

use fmail_api::{
    AgentName, Appended, Backlog, Context, Draft, Error, ErrorKind, Message, Principal, Recipients, Result,
    SendRequest, Sent, Target, Timestamp, UnknownRecipient, canonical_tags, check_key,
};
use serde_json::Value;

use crate::Operations;
use crate::access::is_made_up;
use reply_to::ReplyTo;

impl Operations {
    /// Everything that can be refused is refused before the message is stored; what fails behind it is told beside the
    /// answer, because the message is there.
    pub(crate) async fn send(&self, context: &Context, request: SendRequest) -> Result<Sent> {
        let (draft, found) = self.draft(context, request).await?;
        let appended = self.store.append(draft).await?;
        // The record follows the message, so that a kill between the two loses a time stamp and not a message.
        let untracked = self.track(context).await.err().map(|error| error.to_string());
        self.sent(appended, found, untracked).await
    }

    /// How many sends are worth being put together for [`Operations::send_many`], for who has many at the same time.
    pub fn sends_together(&self) -> usize {
        self.store.appends_together()
    }

    /// The same for many that have come together: each is refused or stored by itself, in this order.
    pub async fn send_many(&self, requests: Vec<(Context, SendRequest)>) -> Vec<Result<Sent>> {
        let (mut drafts, mut begun) = (Vec::new(), Vec::new());
        for (context, request) in requests {
            begun.push(self.draft(&context, request).await.map(|(draft, found)| {
                drafts.push(draft);
                (context, found)
            }));
        }
        let mut appended = self.store.append_many(drafts).await.into_iter();
        let mut tracked: Vec<(Context, Option<String>)> = Vec::new();
        let mut answers = Vec::with_capacity(begun.len());
        for one in begun {
            let (context, found) = match one {
                Ok(begun) => begun,
                Err(error) => {
                    answers.push(Err(error));
                    continue;
                }
            };
            // A store that answers for fewer than it was given has a defect; nobody may take that for a success.
            let missing = || Err(Error::internal("the store did not say what became of a message"));
            let appended = match appended.next().unwrap_or_else(missing) {
                Ok(appended) => appended,
                Err(error) => {
                    answers.push(Err(error));
                    continue;
                }
            };
            // An agent that sends many at once is noted once.
            let known = tracked.iter().find(|(who, _)| who.agent == context.agent && who.host == context.host);
            let untracked = match known {
                Some((_, untracked)) => untracked.clone(),
                None => {
                    let untracked = self.track(&context).await.err().map(|error| error.to_string());
                    tracked.push((context, untracked.clone()));
                    untracked
                }
            };
            answers.push(self.sent(appended, found, untracked).await);
        }
        answers
    }

    async fn draft(&self, context: &Context, request: SendRequest) -> Result<(Draft, Found)> {
        check_body(&request.body)?;
        request.key.as_deref().map_or(Ok(()), check_key)?;
        let tags = canonical_tags(request.tags.iter().map(String::as_str))?;
        let reply_to = match &request.reply_to {
            Some(text) => Some(self.resolve_reply(context, text).await?),
            None => None,
        };
        // A reply joins the thread of what it answers, unless it names another. A message that belongs to none by name
        // gives none: the replies to it find together all the same, and stay as small as the specification shows them.
        let (mut thread, mut extra) = (request.thread, request.extra);
        if let (None, Some(ReplyTo::Known(answered))) = (&thread, &reply_to) {
            let (carried, more) = self.exchange.thread_to_carry(answered).await?;
            thread = carried;
            extra.extend(more);
        }
        let strict = request.strict;
        let more = others(&request.to, request.recipients, request.cc);
        let draft = Draft {
            from: context.agent.clone(),
            to: request.to,
            body: request.body,
            more,
            reply_to: reply_to.as_ref().map(ReplyTo::id),
            priority: request.priority,
            // Standalone messages carry no host (SPEC.md): only what came to us from elsewhere says from where.
            host: context.host.clone().filter(|_| context.principal != Principal::Local),
            tags,
            subject: request.subject,
            thread,
            ack_required: request.ack_required,
            expires: request.expires,
            key: request.key,
            extra,
        };
        check_expiry(&draft, self.clock.now())?;
        let unknown = self.unknown_recipients(&draft).await;
        if strict && !unknown.is_empty() {
            return Err(refused(&unknown));
        }
        let backlog = self.backlog(&draft).await;
        let meant = draft.key.is_some().then(|| (draft.from.clone(), draft.to.clone(), draft.more.clone()));
        let reply_to_unknown = matches!(reply_to, Some(ReplyTo::Unknown(_)));
        Ok((draft, Found { unknown, backlog, reply_to_unknown, meant }))
    }

    async fn sent(&self, appended: Appended, found: Found, agent_not_tracked: Option<String>) -> Result<Sent> {
        check_repetition(&appended, &found)?;
        let namesake = self.namesake(&appended.message).await;
        Ok(Sent {
            message: Message::clone(&appended.message),
            duplicate: appended.duplicate,
            not_durable: appended.not_durable,
            unknown: found.unknown,
            namesake,
            backlog: found.backlog,
            reply_to_unknown: found.reply_to_unknown,
            agent_not_tracked,
        })
    }
}

/// What a sender is told beside the answer, found out before the message is stored.
struct Found {
    unknown: Vec<UnknownRecipient>,
    backlog: Vec<Backlog>,
    reply_to_unknown: bool,
    /// Whose message it is and for whom, where it has a key.
    meant: Option<(AgentName, Target, Recipients)>,
}

/// A key stands for one message of one sender to the same recipients. Whoever uses one that stands for another message must not
/// be told that theirs is stored, nor be shown that one.
fn check_repetition(appended: &Appended, found: &Found) -> Result<()> {
    let (Some((from, to, more)), true) = (&found.meant, appended.duplicate) else { return Ok(()) };
    let first = &*appended.message;
    // A script without a name of its own has another made-up one when it tries again.
    let same_sender = first.from == *from || (is_made_up(&first.from) && is_made_up(from));
    if same_sender && (&first.to, &first.more) == (to, more) {
        return Ok(());
    }
    let key = first.key.as_deref().unwrap_or_default();
    let other = if same_sender { "to other recipients" } else { "of another agent" };
    Err(Error::new(ErrorKind::Conflict, format!("the key `{key}` stands for a message {other}; nothing was stored"))
        .help("a key is for sending one message again: give each message one of its own"))
}

/// The recipients beyond the first, each named once.
fn others(to: &Target, recipients: Vec<Target>, cc: Vec<Target>) -> Recipients {
    let mut named = vec![to.clone()];
    let mut new = |targets: Vec<Target>| -> Vec<Target> {
        let mut kept = Vec::new();
        for target in targets {
            if !named.contains(&target) {
                named.push(target.clone());
                kept.push(target);
            }
        }
        kept
    };
    Recipients { recipients: new(recipients), cc: new(cc) }
}

/// A text of nothing but blanks is a mistake in the caller's script, never a message.
fn check_body(body: &Value) -> Result<()> {
    match body {
        Value::String(text) if text.trim().is_empty() => {
            Err(Error::invalid("empty message body").help("give the message as an argument, with -f, or on stdin"))
        }
        _ => Ok(()),
    }
}

/// A message that nobody could make use of is a mistake in the caller's script.
fn check_expiry(draft: &Draft, now: Timestamp) -> Result<()> {
    match draft.expires {
        Some(expires) if expires <= now => {
            Err(Error::invalid(format!("the message would have expired at {expires}, before it is sent"))
                .help("give a time that lies ahead"))
        }
        _ => Ok(()),
    }
}

fn refused(unknown: &[UnknownRecipient]) -> Error {
    let names: Vec<String> = unknown.iter().map(|one| format!("@{}", one.name)).collect();
    let near: Vec<String> = unknown.iter().flat_map(|one| &one.near).map(|name| format!("@{name}")).collect();
    let error = Error::not_found(format!("nobody in this project has used the name {}", names.join(", ")));
    if near.is_empty() {
        error
            .help("`fmail who` lists the known agents; without --strict (or mail.strict_recipients) it would be stored")
    } else {
        error.help(format!(
            "did you mean {}? without --strict (or mail.strict_recipients) it would be stored",
            near.join(" or ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use fmail_api::{ErrorKind, Expect, LogRequest, RecordKey, Request, SendRequest, Store};
    use futures::executor::block_on;
    use serde_json::{Value, json};

    use crate::testing::{Project, context, take};

    fn request(to: &str, body: impl Into<Value>) -> SendRequest {
        SendRequest::new(to.parse().unwrap(), body)
    }

    fn stored(project: &Project) -> usize {
        take(project.call("alice", Request::Log(LogRequest::default())).unwrap(), usize::MAX).len()
    }

    #[test]
    fn a_message_keeps_what_the_request_said() {
        let project = Project::new();
        let mut asked = request("task", json!({"a": 1}));
        asked.tags = vec!["Urgent".into(), "urgent".into()];
        asked.subject = Some("title".into());
        let sent = project.try_send("alice", asked).unwrap();
        assert_eq!(sent.message.from.as_str(), "alice");
        assert_eq!(sent.message.body, json!({"a": 1}));
        assert_eq!(sent.message.tags.len(), 1);
        assert_eq!(sent.message.host, None);
        assert!(sent.unknown.is_empty() && sent.agent_not_tracked.is_none());
    }

    #[test]
    fn many_that_come_together_are_each_refused_or_stored_in_their_order() {
        let project = Project::new();
        let asked = |body: &str| (context("alice"), request("task", body));
        let from_bob = (context("bob"), request("@carol", "four"));
        let requests = vec![asked("one"), asked(" "), asked("three"), from_bob];
        let answers = block_on(project.operations.send_many(requests));
        let bodies: Vec<_> = answers.iter().flatten().map(|sent| sent.message.body.clone()).collect();
        assert_eq!(bodies, ["one", "three", "four"]);
        assert_eq!(answers[1].as_ref().unwrap_err().kind(), ErrorKind::InvalidRequest);
        let ids: Vec<_> = answers.iter().flatten().map(|sent| sent.message.id).collect();
        assert!(ids.is_sorted() && ids.len() == 3, "{ids:?}");
        assert_eq!(answers[3].as_ref().unwrap().unknown.len(), 1, "nobody is called carol");
        for name in ["alice", "bob"] {
            assert!(block_on(project.store.get(&RecordKey::agent(&name.parse().unwrap()))).unwrap().is_some());
        }
        assert_eq!(stored(&project), 2, "the third is for carol alone");
    }

    #[test]
    fn an_empty_body_is_refused_and_nothing_stored() {
        let project = Project::new();
        for body in ["", " \n\t "] {
            let error = project.try_send("alice", request("task", body)).unwrap_err();
            assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidRequest, "empty message body"));
        }
        assert_eq!(stored(&project), 0);
        project.try_send("alice", request("task", Value::Null)).unwrap();
    }

    #[test]
    fn a_bad_tag_is_refused_and_nothing_stored() {
        let project = Project::new();
        let mut asked = request("task", "x");
        asked.tags = vec!["not good".into()];
        assert!(project.try_send("alice", asked).is_err());
        assert_eq!(stored(&project), 0);
    }

    #[test]
    fn a_garbage_record_never_fails_the_send() {
        let project = Project::new();
        let key = RecordKey::agent(&"alice".parse().unwrap());
        block_on(project.store.put(&key, Expect::Absent, json!(["garbage"]), true)).unwrap();
        let sent = project.send("alice", "task", "hello");
        assert!(sent.agent_not_tracked.unwrap().contains("agents/alice"));
        assert_eq!(stored(&project), 1);
    }

    #[test]
    fn a_key_that_stands_for_another_message_is_a_conflict_and_shows_nothing() {
        let project = Project::new();
        let keyed = |to: &str, body: &str| SendRequest { key: Some("k".into()), ..request(to, body) };
        project.try_send("alice", keyed("@bob", "a secret")).unwrap();
        for (from, to) in [("mallory", "task"), ("mallory", "@bob"), ("alice", "@carol"), ("alice", "task")] {
            let error = project.try_send(from, keyed(to, "another")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict);
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
        let mut copied = keyed("@bob", "a secret");
        copied.cc = vec!["@carol".parse().unwrap()];
        assert_eq!(project.try_send("alice", copied).unwrap_err().kind(), ErrorKind::Conflict);
        assert!(project.try_send("alice", keyed("@bob", "in other words")).unwrap().duplicate);
    }

    #[test]
    fn a_script_without_a_name_repeats_its_message_from_another_process() {
        let project = Project::new();
        let keyed = |body: &str| SendRequest { key: Some("k".into()), ..request("task", body) };
        let first = project.try_send("anon-1", keyed("x")).unwrap();
        let again = project.try_send("anon-2", keyed("x")).unwrap();
        assert_eq!((again.duplicate, again.message.id), (true, first.message.id));
        assert_eq!(project.try_send("alice", keyed("x")).unwrap_err().kind(), ErrorKind::Conflict);
    }

    #[test]
    fn a_key_that_cannot_be_one_is_refused_and_nothing_stored() {
        let project = Project::new();
        for key in ["", "a\nb", &"k".repeat(256)] {
            let error = project.try_send("alice", SendRequest { key: Some(key.into()), ..request("task", "x") });
            assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidRequest);
        }
        assert_eq!(stored(&project), 0);
    }

    #[test]
    fn a_recipient_who_is_named_twice_is_one() {
        let project = Project::new();
        let targets = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<_>>();
        let mut asked = request("@bob", "x");
        (asked.recipients, asked.cc) = (targets(&["@bob", "task", "task"]), targets(&["@bob", "task", "@carol"]));
        let more = project.try_send("alice", asked).unwrap().message.more;
        assert_eq!((more.recipients, more.cc), (targets(&["task"]), targets(&["@carol"])));
    }

    #[test]
    fn a_field_that_would_hide_another_is_refused_and_nothing_stored() {
        let project = Project::new();
        for (name, value) in [("from", json!("bob")), ("tags", json!(5)), ("id", json!("x")), ("body", json!(1))] {
            let mut asked = request("task", "x");
            asked.extra.insert(name.into(), value);
            let error = project.try_send("alice", asked).unwrap_err();
            assert!(error.kind() == ErrorKind::InvalidRequest && error.message().contains(name), "{error}");
        }
        assert_eq!(stored(&project), 0);
    }

    #[test]
    fn a_repeated_key_answers_with_the_first_message() {
        let project = Project::new();
        let mut asked = request("task", "once");
        asked.key = Some("k".into());
        let first = project.try_send("alice", asked.clone()).unwrap();
        let second = project.try_send("alice", asked).unwrap();
        assert!(!first.duplicate && second.duplicate);
        assert_eq!(first.message.id, second.message.id);
    }
}
