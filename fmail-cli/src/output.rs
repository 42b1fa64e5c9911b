//! Where output goes: data to standard output, everything else to standard error.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::sync::{Mutex, PoisonError};

use fmail_api::{Error, ErrorKind, Notice, NoticeKind, Reporter};
use serde::Serialize;

use crate::render::visible;

/// Why a command ends before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It failed.
    Failed(Error),
    /// Nobody reads standard output any more.
    ReaderGone,
    /// It did what it should, and there is nothing: `check` without mail.
    Nothing,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// What a command comes to.
pub(crate) type Outcome<T = ()> = Result<T, Stop>;

/// Standard output, and whether a person looks at it.
pub(crate) struct Output {
    out: BufWriter<StdoutLock<'static>>,
    terminal: bool,
}

impl Output {
    /// Standard output of this process.
    pub(crate) fn stdout() -> Self {
        let out = io::stdout().lock();
        let terminal = out.is_terminal();
        Output { out: BufWriter::new(out), terminal }
    }

    /// Whether it is a terminal, where control characters would act and colours help.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: &str) -> Outcome {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.write_all(b"\n")).map_err(stopped)
    }

    /// Writes a value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Outcome {
        let text = serde_json::to_string(value)
            .map_err(|error| Error::internal(format!("an answer has no JSON form: {error}")))?;
        self.line(&text)
    }

    /// Sends on what was written. Commands call it before they end or wait: an error at the end would go unseen.
    pub(crate) fn flush(&mut self) -> Outcome {
        self.out.flush().map_err(stopped)
    }
}

/// What a failed write to standard output means.
pub(crate) fn stopped(error: io::Error) -> Stop {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Stop::ReaderGone;
    }
    Stop::Failed(Error::new(ErrorKind::Unavailable, format!("cannot write to standard output: {error}")))
}

/// Tells something on standard error. When even that is gone there is nowhere left to say so.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "fmail: {}", visible(text));
}

/// Tells a failure and what to do about it.
pub(crate) fn report(error: &Error) {
    note(&error.to_string());
    if let Some(help) = error.help_text() {
        advise(help);
    }
}

/// Tells what to do about what was just told.
pub(crate) fn advise(help: &str) {
    let _ = writeln!(io::stderr().lock(), "  help: {}", visible(help));
}

/// Tells what a stream, an answer or a store has to say beside its data. What is broken is told once, however often a command
/// comes upon it.
pub(crate) fn notice(notice: &Notice) {
    static BROKEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut broken = BROKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if notice.kind != NoticeKind::Broken || broken.insert(notice.text.clone()) {
        note(&notice.text);
    }
}

/// The reporter that a store gets from a command.
pub(crate) fn reporter() -> Reporter {
    std::sync::Arc::new(|told| notice(&told))
}
