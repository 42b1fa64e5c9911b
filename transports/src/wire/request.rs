//! From a line to a request.

use std::fmt;

use fmail_api::{
    AgentName, Error, ErrorKind, GcRequest, HelloRequest, LogRequest, MAX_NESTING, Operation, RegisterRequest,
    RelayRequest, Request, Result, SendRequest, StatusChange, StatusRequest, Target, WatchRequest, WhoRequest,
};
use serde_json::Value;

use super::fields::{Fields, missing};
use super::{lease, mail};

/// What a line asks for, and for whom.
#[derive(Debug)]
pub struct Incoming {
    /// The caller's own name for the request.
    pub req_id: Option<ReqId>,
    /// The request, or what is wrong with it.
    pub call: Result<Call>,
}

/// A request with the fields that all requests share.
#[derive(Debug)]
pub struct Call {
    /// Who acts.
    pub agent: AgentName,
    /// The host that the agent is on.
    pub host: Option<String>,
    /// The project that is meant.
    pub project: Option<String>,
    /// The store that the caller is configured for.
    pub store: Option<String>,
    /// What is asked for.
    pub request: Request,
    /// Which form the answer has.
    pub form: Form,
}

/// The form of an answer, where the same response has more than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The one that the response has.
    Usual,
    /// The request names one message by `id`: what became of it is the answer, and its failure the failure.
    OneMessage,
    /// A message that the caller did not write in full, or wants to see as it is stored: it comes with the answer.
    WithMessage,
}

/// The caller's own name for a request, as the JSON that it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReqId(String);

impl fmt::Display for ReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Understands a line. Whatever is wrong with the rest, the caller's name for the request is kept where it can be read.
pub fn parse(line: &[u8]) -> Incoming {
    let mut fields = match object(line) {
        Ok(fields) => fields,
        Err(error) => return Incoming { req_id: None, call: Err(error) },
    };
    match req_id(&mut fields) {
        Ok(req_id) => Incoming { req_id, call: call(fields) },
        Err(error) => Incoming { req_id: None, call: Err(error) },
    }
}

fn object(line: &[u8]) -> Result<Fields> {
    let text = std::str::from_utf8(line)
        .map_err(|error| Error::invalid(format!("the line is not UTF-8: byte {} is wrong", error.valid_up_to())))?;
    if let Some(fields) = Fields::of(text) {
        return Ok(fields);
    }
    match serde_json::from_str::<Value>(text) {
        Ok(_) => Err(Error::invalid("the line is not a JSON object")),
        // It may be JSON; nobody who carries it could tell.
        Err(error) if error.to_string().starts_with("recursion limit exceeded") => {
            Err(Error::invalid(format!("the line is nested deeper than the {MAX_NESTING} levels that a body may have")))
        }
        Err(error) => Err(Error::invalid(format!("the line is not a JSON object: {error}"))),
    }
}

fn req_id(fields: &mut Fields) -> Result<Option<ReqId>> {
    match fields.raw("req_id") {
        None | Some(Value::Null) => Ok(None),
        Some(value @ (Value::String(_) | Value::Number(_))) => Ok(Some(ReqId(value.to_string()))),
        Some(_) => Err(Error::invalid("the field `req_id` cannot be used: it is neither a text nor a number")),
    }
}

fn call(mut fields: Fields) -> Result<Call> {
    let command: String = fields.required("cmd")?;
    let known = Operation::ALL.iter().find(|operation| operation.as_str() == command);
    let operation = *known.ok_or_else(|| unknown(&command))?;
    let agent: AgentName = fields.required::<String>("agent")?.parse()?;
    let host = fields.text("host")?;
    let project = fields.text("project_id")?;
    let store = fields.text("store")?;
    let one_message = mail::mark_of(operation).is_some() && fields.has("id");
    let request = request(operation, fields, &agent)?;
    debug_assert_eq!(operation.streams(), request.streams(), "{command}");
    let form = match &request {
        Request::Reply(_) => Form::WithMessage,
        Request::Send(send) if send.echo => Form::WithMessage,
        _ if one_message => Form::OneMessage,
        _ => Form::Usual,
    };
    Ok(Call { agent, host, project, store, request, form })
}

fn unknown(command: &str) -> Error {
    let shown: String = command.chars().take(60).flat_map(char::escape_debug).collect();
    Error::invalid(format!("unknown command `{shown}`"))
        .help("`hello` lists the operations of this daemon; a newer client needs a newer daemon")
}

fn request(operation: Operation, mut fields: Fields, agent: &AgentName) -> Result<Request> {
    match operation {
        Operation::Hello => hello(fields),
        Operation::Send => send(fields),
        Operation::Watch => watch(fields, agent),
        Operation::Relay => Ok(Request::Relay(RelayRequest { since: fields.since()?, to: fields.optional("to")? })),
        Operation::Log => log(fields, agent),
        Operation::Topics => Ok(Request::Topics),
        Operation::Who => who(fields),
        Operation::Register => register(fields),
        Operation::Status => status(fields),
        Operation::Gc => {
            Ok(Request::Gc(GcRequest { days: fields.required("days")?, dry_run: fields.or_default("dry_run")? }))
        }
        Operation::Import => Ok(Request::Import(Box::new(fields.decode()?))),
        Operation::ImportMany => Ok(Request::ImportMany(fields.decode()?)),
        Operation::Digest => Ok(Request::Digest(fields.decode()?)),
        Operation::Fetch => Ok(Request::Fetch(fields.decode()?)),
        Operation::Records => Ok(Request::Records(fields.decode()?)),
        Operation::RelayStatus => Ok(Request::RelayStatus),
        Operation::Inbox => mail::inbox(fields),
        Operation::Check => mail::inbox(fields.with("peek", true)),
        Operation::Count => Ok(Request::Count),
        Operation::Read => mail::read(fields),
        Operation::Peek => mail::read(fields.with("peek", true)),
        Operation::Reply => mail::reply(fields),
        Operation::Thread => mail::thread(fields),
        Operation::Receipt => mail::receipt(fields),
        Operation::Search => mail::search(fields),
        Operation::Nudge => mail::nudge(fields),
        Operation::Reserve => lease::reserve(fields),
        Operation::Release => lease::release(fields),
        Operation::Renew => lease::renew(fields),
        Operation::Reservations => lease::reservations(fields),
        other => match mail::mark_of(other) {
            Some(mark) => mail::mark(mark, fields),
            None => Err(unknown(other.as_str())),
        },
    }
}

fn hello(mut fields: Fields) -> Result<Request> {
    Ok(Request::Hello(HelloRequest {
        version: fields.text("version")?,
        protocol: fields.optional("protocol")?,
        node: fields.optional("node")?,
        link: fields.optional("link")?,
    }))
}

fn send(mut fields: Fields) -> Result<Request> {
    let to = fields.target("to")?;
    let body = fields.raw("body").ok_or_else(|| missing("body"))?;
    Ok(Request::Send(Box::new(SendRequest {
        reply_to: fields.text("reply_to")?,
        priority: fields.priority("priority")?.unwrap_or_default(),
        tags: fields.or_default("tags")?,
        subject: fields.optional("subject")?,
        thread: fields.optional("thread")?,
        recipients: fields.targets("recipients")?,
        cc: fields.targets("cc")?,
        ack_required: fields.or_default("ack_required")?,
        expires: fields.optional("expires")?,
        key: fields.text("key")?,
        strict: fields.or_default("strict")?,
        echo: fields.or_default("echo")?,
        extra: fields.or_default("extra")?,
        ..SendRequest::new(to, body)
    })))
}

fn watch(mut fields: Fields, agent: &AgentName) -> Result<Request> {
    let target = own(fields.topic()?, agent)?;
    Ok(Request::Watch(WatchRequest { target, since: fields.since()?, allow_other_dm: false }))
}

fn log(mut fields: Fields, agent: &AgentName) -> Result<Request> {
    Ok(Request::Log(LogRequest {
        target: own(fields.topic()?, agent)?,
        limit: fields.optional("limit")?,
        since: fields.since()?,
        from: fields.agent("from")?,
        follow: fields.or_default("follow")?,
        allow_other_dm: false,
    }))
}

/// Over the wire an agent reads its own mailbox only.
fn own(target: Option<Target>, agent: &AgentName) -> Result<Option<Target>> {
    match target {
        Some(Target::Agent(other)) if other != *agent => Err(Error::new(
            ErrorKind::InvalidAgent,
            format!("@{other} is the mailbox of another agent, and the request is from `{agent}`"),
        )
        .help("an agent can read its own direct messages only")),
        other => Ok(other),
    }
}

fn register(mut fields: Fields) -> Result<Request> {
    let name = match fields.optional::<String>("name")? {
        Some(name) => Some(name.parse()?),
        None => None,
    };
    let (again, one_word) = (fields.or_default("again")?, fields.or_default("one_word")?);
    Ok(Request::Register(RegisterRequest { name, again, one_word, profile: fields.or_default("profile")? }))
}

fn who(mut fields: Fields) -> Result<Request> {
    let names = match (fields.agent("name")?, fields.has("names")) {
        (Some(_), true) => return Err(Error::invalid("`name` and `names` exclude each other")),
        (Some(name), false) => vec![name],
        (None, _) => fields.agents("names")?,
    };
    Ok(Request::Who(WhoRequest { names }))
}

fn status(mut fields: Fields) -> Result<Request> {
    let change = match (fields.optional("status")?, fields.or_default::<bool>("clear")?) {
        (Some(_), true) => return Err(Error::invalid("`status` and `clear` exclude each other")),
        (Some(text), false) => Some(StatusChange::Set(text)),
        (None, true) => Some(StatusChange::Clear),
        (None, false) => None,
    };
    Ok(Request::Status(StatusRequest { change }))
}

#[cfg(test)]
mod tests {
    use fmail_api::{Priority, Since};
    use proptest::prelude::*;

    use super::*;

    fn request(line: &str) -> Request {
        parse(line.as_bytes()).call.unwrap().request
    }

    #[track_caller]
    fn refused(line: &str, code: &str) -> Error {
        let error = parse(line.as_bytes()).call.unwrap_err();
        assert_eq!(error.kind().code(), code, "{line}: {error}");
        error
    }

    #[test]
    fn of_a_name_that_comes_twice_the_later_field_counts_in_short_lines_and_in_long_ones() {
        for others in [0, 30, 31, 32, 33, 5_000] {
            let mut line = String::from(r#"{"cmd":"topics","agent":"first","cmd":"send","to":"task""#);
            (0..others).for_each(|number| line.push_str(&format!(r#","other-{number}":{number}"#)));
            line.push_str(r#","agent":"second","body":"early","body":"late","other-1":null}"#);
            let call = parse(line.as_bytes()).call.unwrap();
            assert_eq!(call.agent.as_str(), "second", "{others} others");
            let Request::Send(send) = call.request else { panic!("{others} others: {:?}", call.request) };
            assert_eq!(send.body, "late", "{others} others");
        }
    }

    #[test]
    fn every_field_of_a_send_arrives() {
        let line = r#"{"cmd":"send","project_id":"proj-abc123","agent":"architect","host":"build-server","to":"task",
            "body":{"n":1.50},"reply_to":"20260110-152500-0003","priority":"high","tags":["urgent","auth"],"req_id":"c1"}"#;
        let incoming = parse(line.as_bytes());
        assert_eq!(incoming.req_id.unwrap().to_string(), "\"c1\"");
        let call = incoming.call.unwrap();
        assert_eq!((call.agent.as_str(), call.host.as_deref()), ("architect", Some("build-server")));
        assert_eq!(call.project.as_deref(), Some("proj-abc123"));
        let Request::Send(send) = call.request else { panic!() };
        assert_eq!((send.to.to_string(), send.body.to_string()), ("task".into(), r#"{"n":1.50}"#.into()));
        assert_eq!((send.priority, send.tags.len()), (Priority::High, 2));
        assert_eq!(send.reply_to.as_deref(), Some("20260110-152500-0003"));
    }

    #[test]
    fn a_watch_names_its_topic_in_every_way() {
        let target = |topic: &str| match request(&format!(r#"{{"cmd":"watch","agent":"a"{topic}}}"#)) {
            Request::Watch(watch) => watch.target.map(|target| target.to_string()),
            other => panic!("{other:?}"),
        };
        assert_eq!(target(""), None);
        assert_eq!(target(r#","topic":"""#), None);
        assert_eq!(target(r#","topic":"*""#), None);
        assert_eq!(target(r#","topic":null"#), None);
        assert_eq!(target(r#","topic":"task""#).as_deref(), Some("task"));
        assert_eq!(target(r#","topic":"@a""#).as_deref(), Some("@a"));
    }

    #[test]
    fn since_is_an_id_a_time_or_a_cursor() {
        let since = |text: &str| match request(&format!(r#"{{"cmd":"relay","agent":"a","since":"{text}"}}"#)) {
            Request::Relay(relay) => relay.since,
            other => panic!("{other:?}"),
        };
        assert!(matches!(since("20260110-153000-0001"), Some(Since::Id(_))));
        assert!(matches!(since("2026-01-10T15:00:00Z"), Some(Since::Time(_))));
        assert!(matches!(since("0123456789abcdef:7"), Some(Since::Cursor(_))));
        assert!(since("").is_none());
    }

    #[test]
    fn each_mistake_has_its_code() {
        for line in ["", "null", "[]", "{", "{}", "garbage", r#"{"cmd":7,"agent":"a"}"#, r#"{"cmd":"fly","agent":"a"}"#]
        {
            refused(line, "invalid_request");
        }
        assert_eq!(refused(r#"{"cmd":"watch"}"#, "invalid_request").to_string(), "missing agent");
        assert_eq!(refused(r#"{"cmd":"send","agent":"a","to":"t"}"#, "invalid_request").to_string(), "missing body");
        assert_eq!(refused(r#"{"cmd":"send","agent":"a","body":1}"#, "invalid_request").to_string(), "missing to");
        refused(r#"{"cmd":"send","agent":"a","to":"t","body":1,"priority":"urgent"}"#, "invalid_request");
        refused(r#"{"cmd":"send","agent":"a","to":"t","body":1,"tags":"x"}"#, "invalid_request");
        refused(r#"{"cmd":"send","agent":"a","to":"no topic","body":1}"#, "invalid_topic");
        refused(r#"{"cmd":"send","agent":"a","to":"@no one","body":1}"#, "invalid_topic");
        refused(r#"{"cmd":"send","agent":"no agent","to":"t","body":1}"#, "invalid_agent");
        refused(r#"{"cmd":"watch","agent":"a","topic":"@b"}"#, "invalid_agent");
        refused(r#"{"cmd":"watch","agent":"a","topic":"../x"}"#, "invalid_topic");
        refused(r#"{"cmd":"digest","agent":"a","held":7}"#, "invalid_request");
        refused(r#"{"cmd":"records","agent":"a"}"#, "invalid_request");
        refused(r#"{"cmd":"topics","agent":"a","req_id":{}}"#, "invalid_request");
    }

    #[test]
    fn a_mistake_keeps_the_name_of_its_request() {
        for (text, expect) in [(r#""c1""#, r#""c1""#), ("7", "7"), (r#""\u00e9\"""#, r#""é\"""#)] {
            let line = format!(r#"{{"req_id":{text},"cmd":"fly"}}"#);
            assert_eq!(parse(line.as_bytes()).req_id.unwrap().to_string(), expect);
        }
    }

    proptest! {
        #[test]
        fn no_line_breaks_the_parser(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn no_object_breaks_the_parser(
            command in "(send|watch|relay|log|status|gc|hello|register|fly|inbox|check|read|ack|delete|reply|thread\
                        |search|reserve|release|renew|reservations|nudge|import)",
            fields in proptest::collection::vec(
                ("(agent|to|body|topic|since|tags|cc|key|days|limit|from|host|req_id|status|id|ids|all|before|token|query\
                 |paths|ttl_seconds|held_by|text|folder|priority)",
                 "(null|1|-1.5e9|\"\"|\"a\"|\"@a\"|\"*\"|\\[\\]|\\[\"a\"\\]|\\{\\}|true)"), 0..8),
        ) {
            let rest: String = fields.iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect();
            let _ = parse(format!("{{\"cmd\":\"{command}\"{rest}}}").as_bytes());
        }
    }
}
