//! The thread that keeps a child: starts it, talks to it, notices its end, and starts the next.
//!
//! One thread for all of that, because the kernel ties a child to the thread that started it, and because one `poll` can
//! wait for everything at once: output, errors, the end, room for input, and callers. It never blocks anywhere else, so a
//! child that neither reads nor writes holds up nobody.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use fmail_abi::{Level, Verb, layout, status};
use fmail_api::{Error, ErrorKind, Result};
use serde_json::Value;

use super::child::{Child, Ended, LAST_CHUNKS, LONGEST_LINE, poll_one};
use super::lines::Filled;
use super::link::{Link, Phase, ToChild, lost_call, tick};
use super::outbox::Flushed;
use crate::plugin::library::log;

/// Keeps the child of one link.
pub(super) struct Keeper {
    link: Arc<Link>,
    /// What the first child said about itself.
    manifest: Value,
}

const DEAF: &str = "closed its standard input";

/// Why a conversation is over.
enum End {
    /// The child ended, or did something that it had to be killed for.
    Lost(Option<String>),
    /// The instance is over.
    Over,
}

impl Keeper {
    /// Runs until the instance is over. `first` gets the manifest of the first child.
    pub(super) fn run(link: Arc<Link>, first: &SyncSender<Result<Vec<u8>>>) {
        let (mut child, greeting) = match spawn(&link).and_then(|child| greet(&link, child)) {
            Ok(greeted) => greeted,
            // If nobody waits for this, nobody wants the child.
            Err(error) => return drop(first.send(Err(error))),
        };
        let manifest = serde_json::from_slice(&greeting).unwrap_or_default();
        if first.send(Ok(greeting)).is_err() {
            return;
        }
        let mut keeper = Keeper { link, manifest };
        loop {
            let since = Instant::now();
            keeper.open(&child);
            match keeper.converse(&mut child) {
                End::Over => return keeper.over(Some(child)),
                End::Lost(fault) => keeper.lost(&keeper.ended(child, fault), since.elapsed()),
            }
            child = match keeper.next() {
                Some(next) => next,
                None => return keeper.over(None),
            };
        }
    }

    /// From now on calls go to this child.
    fn open(&self, child: &Child) {
        let mut state = self.link.state();
        if state.phase == Phase::Starting {
            state.phase = Phase::Up;
        }
        state.stdin = child.stdin.clone();
        state.fault = None;
        drop(state);
        self.log(Level::Debug, &format!("runs as process {}", child.id()));
    }

    /// Says something about the program to the operator.
    fn log(&self, level: Level, what: &str) {
        self.link.listener.log(level, "process", &format!("`{}` {what}", self.link.program.shown()), b"");
    }

    /// Talks to the child until that is over.
    fn converse(&mut self, child: &mut Child) -> End {
        let mut attention = Attention::default();
        let deadline = self.link.program.deadline;
        let mut leaving = None;
        // What it said behind its greeting.
        if let Err(fault) = self.hear(child) {
            return End::Lost(Some(fault));
        }
        loop {
            let mut state = self.link.state();
            let blocked = match state.flush() {
                Some(Flushed::Closed) => {
                    state.fault.get_or_insert(DEAF.to_string());
                    false
                }
                flushed => flushed == Some(Flushed::Blocked),
            };
            let (phase, fault, gone) = (state.phase, state.fault.take(), state.farewell.is_some());
            let unread = state.stdin.as_ref().map_or(0, |stdin| unread(stdin));
            let given = state.outbox.given;
            drop(state);
            match phase {
                Phase::Over => return End::Over,
                Phase::Leaving(_) if gone => return End::Over,
                Phase::Leaving(_) if leaving.get_or_insert_with(Instant::now).elapsed() > deadline => return End::Over,
                _ => {}
            }
            if let Some(fault) = fault {
                return End::Lost((!child.is_ending()).then_some(fault));
            }
            if attention.lacks(deadline, given, unread, blocked) {
                return End::Lost(Some(format!("has not read what it was sent for {deadline:?}")));
            }
            if let Some(end) = self.listen(child, blocked) {
                return end;
            }
        }
    }

    /// Waits for something to happen, and hears what the child says.
    fn listen(&self, child: &mut Child, blocked: bool) -> Option<End> {
        let ready = child.wait(Some(&self.link.wake), blocked, tick(self.link.program.deadline));
        self.link.awake();
        if ready.exited {
            return Some(End::Lost(None));
        }
        if !ready.input {
            // What it has said comes first, and so this comes when nothing is left of that.
            return ready.deaf.then(|| End::Lost((!child.is_ending()).then(|| DEAF.to_string())));
        }
        let filled = child.fill();
        if let Err(fault) = self.hear(child) {
            return Some(End::Lost(Some(fault)));
        }
        if filled == Filled::End {
            return Some(End::Lost((!child.is_ending()).then(|| "closed its standard output".to_string())));
        }
        None
    }

    /// How the child ended. What it said before that counts; what it has to be killed for ends that.
    fn ended(&self, mut child: Child, fault: Option<String>) -> Ended {
        let Err(fault) = fault.map_or_else(|| self.hear_the_rest(&mut child), Err) else {
            let half = !child.lines.rest().is_empty();
            let mut ended = child.end(None);
            if half {
                ended.how += " in the middle of a line";
            }
            return ended;
        };
        child.end(Some(&fault))
    }

    fn hear_the_rest(&self, child: &mut Child) -> Result<(), String> {
        for _ in 0..LAST_CHUNKS {
            if child.fill() != Filled::Some {
                break;
            }
            self.hear(child)?;
        }
        Ok(())
    }

    /// Does what every whole line says that has come; why the child has to go, if one is no line of ours.
    fn hear(&self, child: &mut Child) -> Result<(), String> {
        while let Some(verb) = next_verb(child)? {
            self.heed(verb)?;
        }
        Ok(())
    }

    /// Does what a line says.
    fn heed(&self, verb: Verb<'static>) -> Result<(), String> {
        let listener = &self.link.listener;
        match verb {
            Verb::Done { id, status, body } => {
                let mut state = self.link.state();
                if state.phase == Phase::Leaving(id) {
                    state.farewell = Some((status, body.into_owned()));
                    return Ok(());
                }
                state.outbox.sent.remove(&id);
                if let Some(creation) = state.creation.as_mut().filter(|creation| creation.id == id) {
                    creation.ready |= status == status::OK;
                }
                drop(state);
                listener.done(id, status, &body);
            }
            Verb::Item { id, body } => listener.item(id, &body),
            Verb::Log { level, target, message, fields } => listener.log(level, &target, &message, &fields),
            Verb::Call { id, method, context, request } => listener.call(id, &method, &context, &request),
            Verb::Pull { id, credits } => listener.pull(id, credits),
            Verb::Cancel { id } => listener.cancel(id),
            Verb::Hello { .. } => return Err("said hello a second time".to_string()),
            Verb::Create { .. } => return Err("said `create`, which is the host's to say".to_string()),
            Verb::Destroy { .. } => return Err("said `destroy`, which is the host's to say".to_string()),
        }
        Ok(())
    }

    /// The child is gone: ends what it had under way, and says when the next may come.
    fn lost(&self, ended: &Ended, ran: Duration) {
        let mut state = self.link.state();
        state.stdin = None;
        if matches!(state.phase, Phase::Starting | Phase::Up) {
            state.phase = Phase::Down;
        }
        state.creation.take_if(|creation| !creation.ready);
        state.backoff.failed(Instant::now(), ran, &format!("it {}", ended.with("")));
        let sent = state.outbox.lost();
        drop(state);
        self.log(Level::Error, &ended.with(""));
        self.link.listener.lost();
        for (id, method) in sent {
            let (status, body) = lost_call(&self.link, &method, ended);
            self.link.listener.done(id, status, &body);
        }
        self.refuse_waiting();
    }

    /// Answers those who wait for a child when they should not wait any longer.
    fn refuse_waiting(&self) {
        let mut state = self.link.state();
        let Some(why) = state.backoff.refuses(Instant::now()) else { return };
        let waiting = state.outbox.give_up();
        drop(state);
        let error = self.link.error(ErrorKind::Unavailable, format!("is not running: {why}"));
        let error = error.help("nothing was sent to it; try again later");
        waiting.into_iter().for_each(|id| self.link.answer(id, &error));
    }

    /// The next child, when a call wants one and it is due; none when the instance is over.
    fn next(&mut self) -> Option<Child> {
        loop {
            let mut state = self.link.state();
            let wait = match state.phase {
                Phase::Over | Phase::Leaving(_) => return None,
                _ if !state.outbox.wanted() => Duration::from_secs(3600),
                _ => state.backoff.wait(Instant::now()),
            };
            if wait.is_zero() {
                state.phase = Phase::Starting;
                drop(state);
                match self.start() {
                    Ok(child) => return Some(child),
                    Err(error) => {
                        let how = format!("could not be started again: {error}");
                        self.lost(&Ended { how, quoted: String::new() }, Duration::ZERO);
                    }
                }
                continue;
            }
            drop(state);
            poll_one(&self.link.wake, wait);
            self.link.awake();
        }
    }

    /// Starts a child that takes the place of the first.
    fn start(&self) -> Result<Child> {
        let (mut child, greeting) = greet(&self.link, spawn(&self.link)?)?;
        if serde_json::from_slice::<Value>(&greeting).ok().as_ref() != Some(&self.manifest) {
            let how = child.end(Some("has another manifest than at first"));
            return Err(Error::new(ErrorKind::InvalidConfig, how.with(""))
                .help("the plugin was replaced while it was in use; restart the program that uses it"));
        }
        let Some(creation) = self.link.state().creation.clone().filter(|creation| creation.ready) else {
            return Ok(child);
        };
        let verb = Verb::Create { id: creation.id, envelope: creation.envelope.into() };
        let created = exchange(&self.link, &mut child, &verb, |verb| match verb {
            Verb::Done { id, status, body } if id == creation.id => Ok(Some((status, body))),
            other => self.heed(other).map(|()| None),
        });
        match created {
            Ok((status::OK, _)) => Ok(child),
            Ok((status, body)) => {
                let answer = fmail_abi::Answer { status, body: body.into() };
                Err(crate::plugin::failure("`create`", &answer))
            }
            Err(fault) => Err(Error::new(
                ErrorKind::Unavailable,
                child.end(fault.as_deref()).with(" before it answered `create`"),
            )),
        }
    }

    /// Ends the child, if there is one, and answers everyone who still waits.
    fn over(&self, child: Option<Child>) {
        let mut state = self.link.state();
        state.phase = Phase::Over;
        state.stdin = None;
        let farewell = state.farewell.take();
        let destroying = state.destroying.take();
        let mut open: Vec<u64> = state.outbox.lost().into_keys().collect();
        open.extend(state.outbox.give_up());
        drop(state);
        let (listener, grace) = (&self.link.listener, self.link.program.grace);
        let late = child.is_some() && farewell.is_none() && destroying.is_some();
        let how = child.map(|child| child.end_gently(grace));
        listener.lost();
        open.into_iter().for_each(|id| self.link.answer(id, &self.link.closed()));
        let how = how.map(|ended| ended.with("")).unwrap_or_default();
        if !how.is_empty() {
            self.log(Level::Debug, &how);
        }
        let Some(id) = destroying else { return };
        match farewell {
            Some((status, body)) => listener.done(id, status, &body),
            None if late => {
                let what = format!("did not answer `destroy` and was made to end: it {how}");
                self.link.answer(id, &self.link.error(ErrorKind::Timeout, what));
            }
            // Nothing was there that could end.
            None => listener.done(id, status::OK, b""),
        }
    }
}

/// Whether a child reads what it is sent.
#[derive(Default)]
struct Attention {
    taken: u64,
    waiting: Option<Instant>,
}

impl Attention {
    /// Whether nothing of what was sent has been read for `deadline`. `given` bytes were written so far, of which `unread`
    /// are still in the pipe.
    fn lacks(&mut self, deadline: Duration, given: u64, unread: u64, blocked: bool) -> bool {
        let taken = given.saturating_sub(unread);
        if taken > self.taken || (unread == 0 && !blocked) {
            *self = Attention { taken, waiting: None };
        }
        (unread > 0 || blocked) && self.waiting.get_or_insert_with(Instant::now).elapsed() >= deadline
    }
}

/// How many bytes a child has not read of what is in its pipe.
fn unread(stdin: &OwnedFd) -> u64 {
    rustix::io::ioctl_fionread(stdin).unwrap_or(0)
}

/// The next whole line that has come; why the child has to go, if it is none of ours.
fn next_verb(child: &mut Child) -> Result<Option<Verb<'static>>, String> {
    let Some(range) = child.lines.next() else {
        return if child.lines.rest().len() > LONGEST_LINE { Err(too_long()) } else { Ok(None) };
    };
    if range.len() > LONGEST_LINE {
        return Err(too_long());
    }
    let wrong = |error: Error| format!("printed what is no line of the plugin protocol: {error}");
    Verb::from_bytes(child.lines.line(range)).map(Some).map_err(wrong)
}

fn too_long() -> String {
    format!("printed a line of more than {} MiB", LONGEST_LINE >> 20)
}

/// Starts a child.
fn spawn(link: &Arc<Link>) -> Result<Child> {
    let child = Child::start(&link.program, link.listener.clone())?;
    let mut state = link.state();
    state.generation += 1;
    let generation = state.generation;
    drop(state);
    link.listener.started(Arc::new(ToChild { link: Arc::downgrade(link), generation }));
    Ok(child)
}

/// Greets a child that was just started, and gives its manifest.
fn greet(link: &Link, mut child: Child) -> Result<(Child, Vec<u8>)> {
    let (major, minor, level) = (layout::ABI_MAJOR, layout::ABI_MINOR, log::level());
    let hello = format!("{{\"abi\":[{major},{minor}],\"log_level\":{level}}}");
    let hello = Verb::Hello { body: hello.into_bytes().into() };
    let greeting = exchange(link, &mut child, &hello, |verb| match verb {
        Verb::Hello { body } => Ok(Some(body.into_owned())),
        Verb::Log { level, target, message, fields } => {
            link.listener.log(level, &target, &message, &fields);
            Ok(None)
        }
        _ => Err("said something else before `hello`".to_string()),
    });
    match greeting {
        Ok(greeting) => Ok((child, greeting)),
        Err(fault) => {
            let before = if fault.is_none() { " before it answered `hello`" } else { "" };
            let how = child.end(fault.as_deref()).with(before);
            Err(link.error(ErrorKind::Unavailable, how).help(
                "a program plugin reads JSON lines, answers {\"hello\":{…}} with {\"hello\":{its manifest}}, and prints \
                 nothing else on its standard output; see docs/plugins/programs.md",
            ))
        }
    }
}

/// Sends a line to a child that takes no calls yet, and hears what it says until that is the answer. The error is why the
/// child has to go; none when it has gone on its own.
fn exchange<T>(
    link: &Link,
    child: &mut Child,
    verb: &Verb<'_>,
    mut heed: impl FnMut(Verb<'static>) -> Result<Option<T>, String>,
) -> Result<T, Option<String>> {
    let mut line = verb.to_line().map_err(|error| Some(format!("cannot be told: {error}")))?.into_bytes();
    line.push(b'\n');
    let limit = link.program.deadline;
    let deadline = Instant::now() + limit;
    let mut written = 0;
    loop {
        while let Some(verb) = next_verb(child)? {
            if let Some(answer) = heed(verb)? {
                return Ok(answer);
            }
        }
        if let (true, Some(stdin)) = (written < line.len(), &child.stdin) {
            // Closed: it is ending, or its answer may be there already. Full: wait.
            written += rustix::io::write(&**stdin, &line[written..]).unwrap_or(0);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Some(format!("did not answer `{}` within {limit:?}", name_of(verb))));
        }
        if link.state().phase == Phase::Over {
            return Err(Some("was no longer wanted".to_string()));
        }
        let ready = child.wait(Some(&link.wake), written < line.len(), left);
        link.awake();
        let filled = if ready.input || ready.exited { child.fill() } else { Filled::Nothing };
        if filled == Filled::End || (ready.exited && filled == Filled::Nothing) {
            // No whole line is left: all were heard above.
            return Err((!child.is_ending()).then(|| "closed its standard output".to_string()));
        }
    }
}

fn name_of(verb: &Verb<'_>) -> &'static str {
    if matches!(verb, Verb::Hello { .. }) { "hello" } else { "create" }
}
