//! `fmail check --inject`: mail for the context of an agent, told by its hook.
//!
//! It only looks: nothing is marked, not even as retrieved. Whatever happens, it ends with 0 and within its deadline, since a
//! hook that fails or hangs stops the agent; what is wrong is told as text. An unread set is told once to each session, when
//! it has changed by something new; and nothing is noted as told before it is written to standard output.

mod fence;
mod form;
mod input;
mod notice;
mod told;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use fmail_api::{
    AgentName, Error, ErrorKind, Event, Folder, InboxRequest, MessageId, Request, Response, Result, parse_duration,
};
use fmail_host::Environment;
use futures::StreamExt;
use futures::executor::block_on;

pub(crate) use form::HookAgent;
use form::{Form, Moment};
use input::Input;
use notice::Notice;
use told::{Locked, Memory, Told};

use crate::identity;
use crate::output::{self, Outcome, note};
use crate::session::{Place, Session, unexpected};

/// How long the answer may take, unless the caller says otherwise. The hooks that are installed have twice that.
pub(crate) const DEADLINE: &str = "5s";

/// What the command line asks for.
pub(crate) struct Options {
    pub(crate) hook_of: Option<HookAgent>,
    pub(crate) agent: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) deadline: String,
}

/// What there is to say, and what its session has been told once it is said.
struct Saying {
    /// The text of new mail.
    mail: Option<String>,
    /// A line about mail that is there and cannot be shown.
    trouble: Option<String>,
    memory: Option<(Locked, Told)>,
}

impl Saying {
    fn nothing() -> Saying {
        Saying { mail: None, trouble: None, memory: None }
    }
}

/// Tells what is new. Never fails, and never takes longer than its deadline.
pub(crate) fn run(options: Options, set: Vec<String>) -> Outcome {
    let (time, wrong) = match parse_duration(&options.deadline) {
        Ok(time) => (time, None),
        Err(error) => (parse_duration(DEADLINE).unwrap_or(Duration::from_secs(5)), Some(error)),
    };
    let until = Instant::now() + time;
    let input = Input::read(until);
    let form = Form::of(options.hook_of, options.event.as_deref(), &input);
    if form.moment == Moment::Deaf {
        note("nothing that is told at this moment would reach the agent");
        return Ok(());
    }
    if let Some(error) = wrong {
        return said(&form.trouble(&notice::trouble(&error)));
    }
    let fresh = form.moment == Moment::Start;
    let (send_memory, memory) = channel();
    let (answer, answered) = channel();
    let ask = move || {
        // Nobody waits any more when it took too long.
        let _ = answer.send(look(&options, &set, &input, fresh, |found| drop(send_memory.send(found))));
    };
    // Somewhere below is a file system, a plugin or a daemon that may never answer; the process ends without this thread.
    let asked = match thread::Builder::new().name("inject".into()).spawn(ask) {
        Ok(_) => match answered.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(Error::new(ErrorKind::Timeout, format!("no answer within {time:?}"))
                .help("`fmail check` shows what takes so long")),
            Err(RecvTimeoutError::Disconnected) => Err(Error::internal("looking for mail ended without an answer")),
        },
        Err(error) => Err(Error::io("cannot start looking for mail", &error)),
    };
    match asked {
        Ok(saying) => say(&form, saying),
        Err(error) => say_trouble(&form, &notice::trouble(&error), memory.try_recv().ok()),
    }
}

/// Says what was found, and notes it when it is said.
fn say(form: &Form, saying: Saying) -> Outcome {
    match (saying.mail, saying.trouble) {
        (Some(mail), None) => said(&form.mail(&mail))?,
        (Some(mail), Some(trouble)) => said(&form.mail(&format!("{mail}\n{trouble}")))?,
        (None, Some(trouble)) => said(&form.trouble(&trouble))?,
        (None, None) => {}
    }
    if let Some((mut locked, told)) = saying.memory {
        locked.note(&told).unwrap_or_else(|error| forgotten(&error));
    }
    Ok(())
}

/// Says what stands in the way; in the middle of a turn once, since there may be hundreds of tools in one.
fn say_trouble(form: &Form, line: &str, memory: Option<Memory>) -> Outcome {
    // Whoever holds the memory is busy with it, perhaps for ever. Then this is said without it.
    let noted = memory.and_then(|memory| memory.try_lock().ok());
    if form.moment == Moment::Tool && noted.as_ref().is_some_and(|(_, told)| told.trouble.as_deref() == Some(line)) {
        return Ok(());
    }
    said(&form.trouble(line))?;
    if let Some((mut locked, told)) = noted {
        let told = Told { trouble: Some(line.to_string()), ..told };
        locked.note(&told).unwrap_or_else(|error| forgotten(&error));
    }
    Ok(())
}

fn forgotten(error: &std::io::Error) {
    note(&format!("what was told cannot be noted, so that it will be told again: {error}"));
}

/// Writes to standard output. Who cannot read that, or has no room, gets no further failure from it.
fn said(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) => {
            note(&format!("cannot write to standard output: {error}"));
            Err(crate::output::Stop::ReaderGone)
        }
    }
}

/// Looks for mail that the session does not know of; for all of it when its context is `fresh`. `remembering` is told where
/// the session's memory is as soon as that is known.
fn look(
    options: &Options,
    set: &[String],
    input: &Input,
    fresh: bool,
    remembering: impl FnOnce(Memory),
) -> Result<Saying> {
    let environment = Environment::from_process()?;
    let Some((agent, as_agent)) = who(&environment, options.agent.as_deref())? else {
        note("no mail is told: FMAIL_AGENT is not set, so that this is nobody's session");
        return Ok(Saying::nothing());
    };
    let place = Place::find(environment, set)?;
    let name = options.session.as_deref().or(input.session_id.as_deref()).unwrap_or_default();
    let memory = Memory::of(&place.environment, &place.project.root, &agent, name);
    if let Some(memory) = memory.clone() {
        remembering(memory);
    }
    let session = place.session(agent.clone())?;
    let told = memory.as_ref().map(Memory::look).unwrap_or_default();
    let Response::Counted { count, notices } = session.call(Request::Count)?.head else { return Err(unexpected()) };
    notices.iter().for_each(output::notice);
    let trouble = notice::skipped(&notices);
    // The usual case, and as cheap as `check`: no message is read.
    if !fresh && told.trouble == trouble && told.knows(&count) {
        return Ok(Saying::nothing());
    }
    let known = if fresh { &BTreeSet::new() } else { &told.ids };
    let unread = match count.unread {
        0 => Unread { trouble, ..Unread::default() },
        _ => Unread::read(&session, known)?,
    };
    if unread.notice.is_empty() && unread.ids == told.ids && unread.trouble == told.trouble {
        return Ok(Saying::nothing());
    }
    let nonce = nonce()?;
    let Some(memory) = memory else { return Ok(unread.saying(&agent, &nonce, &as_agent, fresh, None)) };
    let (locked, now_told) = match memory.lock() {
        Ok(held) => held,
        Err(error) => {
            forgotten(&error);
            return Ok(unread.saying(&agent, &nonce, &as_agent, fresh, None));
        }
    };
    // Another hook of this session may have told it while we looked.
    let unread = match now_told.ids == told.ids || fresh {
        true => unread,
        false => Unread::read(&session, &now_told.ids)?,
    };
    Ok(unread.saying(&agent, &nonce, &as_agent, fresh, Some((locked, now_told))))
}

/// Whose session this is, and what has to stand before a command in it. A session that has not said so is nobody's: a
/// person who works in the same directory must not get the mail of an agent.
fn who(environment: &Environment, fallback: Option<&str>) -> Result<Option<(AgentName, String)>> {
    if let Some(agent) = identity::named(environment)? {
        return Ok(Some((agent, String::new())));
    }
    fallback.map(|name| name.parse().map(|agent| (agent, format!("FMAIL_AGENT={name} ")))).transpose()
}

/// Something that no sender can have known.
fn nonce() -> Result<String> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Error::io("cannot get random bytes", &error.into()))?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

/// The unread mail.
#[derive(Default)]
struct Unread {
    ids: BTreeSet<MessageId>,
    /// What of it is not known yet.
    notice: Notice,
    /// What of it cannot be shown.
    trouble: Option<String>,
}

impl Unread {
    /// Lists it, without so much as noting that it was listed.
    fn read(session: &Session, known: &BTreeSet<MessageId>) -> Result<Unread> {
        let request = InboxRequest { folder: Folder::Unread, peek: true, ..InboxRequest::default() };
        let mut events = session.call(Request::Inbox(request))?.events.ok_or_else(unexpected)?;
        let (mut unread, mut notices) = (Unread::default(), Vec::new());
        while let Some(event) = block_on(events.next()) {
            match event? {
                Event::Mail(mail) => {
                    unread.ids.insert(mail.message.id);
                    if !known.contains(&mail.message.id) {
                        unread.notice.add(&mail.message);
                    }
                }
                Event::Notice(told) => notices.push(told),
                _ => {}
            }
        }
        unread.trouble = notice::skipped(&notices);
        Ok(unread)
    }

    fn saying(
        self,
        agent: &AgentName,
        nonce: &str,
        as_agent: &str,
        fresh: bool,
        memory: Option<(Locked, Told)>,
    ) -> Saying {
        let mail = (!self.notice.is_empty()).then(|| self.notice.text(agent, self.ids.len(), nonce, as_agent));
        let said_before = memory.as_ref().is_some_and(|(_, told)| told.trouble == self.trouble) && !fresh;
        let trouble = self.trouble.clone().filter(|_| !said_before);
        let noted = |(locked, told)| (locked, Told { ids: self.ids, trouble: self.trouble, ..told });
        Saying { mail, trouble, memory: memory.map(noted) }
    }
}

/// Whether the arguments, which cannot be parsed, are those of a hook.
pub(crate) fn asked(args: &[OsString]) -> bool {
    let mut words = args.iter().skip(1).take_while(|word| *word != "--");
    words.clone().any(|word| word == "--inject") && words.any(|word| word == "check")
}

/// Tells a hook whose arguments are wrong what is wrong with them.
pub(crate) fn misused(args: &[OsString], wrong: &str) -> Outcome {
    let words: Vec<&str> = args.iter().filter_map(|word| word.to_str()).collect();
    let value = words.iter().enumerate().find_map(|(place, word)| match word.strip_prefix("--for") {
        Some("") => words.get(place + 1).copied(),
        Some(value) => value.strip_prefix('='),
        None => None,
    });
    let agent = value.and_then(|name| HookAgent::from_str(name, false).ok());
    let input = Input::read(Instant::now() + Duration::from_secs(2));
    let form = if agent.is_some() { Form::of(agent, None, &input) } else { Form::plain() };
    let wrong = wrong.split("\n\nUsage:").next().unwrap_or(wrong);
    let error = Error::invalid(format!("the hook's command is wrong: {wrong}"))
        .help("`fmail hook install` writes it; `fmail check --help` describes it");
    said(&form.trouble(&notice::trouble(&error)))
}
