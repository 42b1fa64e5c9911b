//! A script and what is said about it: every error names it, the operation, how it ended and what it said.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;

use fmail_api::{Error, ErrorKind, Result};

use crate::ExecOptions;
use crate::process::{self, Broken, Ended, Job, Slots};

/// How much of a script's own words an error shows.
const EXCERPT: usize = 400;

/// The script of a store.
pub(crate) struct Script {
    pub options: ExecOptions,
    slots: Arc<Slots>,
}

/// One operation of a script, for the errors about it.
pub(crate) struct Call<'a> {
    script: &'a Script,
    /// The operation with its argument, as an operator would write it behind the script.
    words: String,
    /// Whether the operation changes something: then a run without an answer may have done it.
    changes: bool,
}

impl Script {
    pub(crate) fn new(options: ExecOptions) -> Self {
        let slots = Slots::new(options.parallel);
        Script { options, slots }
    }

    /// The script as it is configured, in one line.
    pub(crate) fn shown(&self) -> String {
        self.options.command.iter().map(|word| escaped(word)).collect::<Vec<_>>().join(" ")
    }

    /// Looks whether the program can be run, without running it.
    pub(crate) fn find_program(&self) -> Result<()> {
        let program = self.options.command.first().map(String::as_str).unwrap_or_default();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places: Vec<_> = match program.starts_with('/') {
            true => vec![program.into()],
            false => std::env::split_paths(&path).map(|directory| directory.join(program)).collect(),
        };
        let can_run = |place: &std::path::PathBuf| {
            place.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
        };
        if places.iter().any(can_run) {
            return Ok(());
        }
        let what = format!("the mail script `{}` is not there, or is not executable", self.shown());
        Err(Error::new(ErrorKind::Unavailable, what)
            .help("check `command` in the exec store's section, and the script's mode"))
    }

    pub(crate) fn call(&self, words: &[&str], changes: bool) -> Call<'_> {
        let words = words.iter().map(|word| excerpt_of(word, 80)).collect::<Vec<_>>().join(" ");
        Call { script: self, words, changes }
    }

    /// Runs the script with these words behind its own, to its end.
    pub(crate) async fn run(&self, call: &Call<'_>, words: &[&str], input: Option<Vec<u8>>) -> Result<Ended> {
        if let Some(word) = words.iter().find(|word| word.contains('\0')) {
            return Err(Error::invalid(format!("`{}` has a NUL, which no script can be given", escaped(word))));
        }
        let job = Job {
            command: self
                .options
                .command
                .iter()
                .map(String::as_str)
                .chain(words.iter().copied())
                .map(Into::into)
                .collect(),
            directory: self.options.directory.clone(),
            input,
            timeout: self.options.timeout,
            max_output: self.options.max_output,
        };
        let ended = process::run(job, self.slots.clone()).await.map_err(|broken| call.broken(broken))?;
        if ended.held {
            tracing::warn!(
                "{} has ended, but something that it has started keeps its output open; it was not waited for",
                call.name()
            );
        }
        Ok(ended)
    }
}

impl Call<'_> {
    /// The operation as it is named in every error.
    pub(crate) fn name(&self) -> String {
        format!("the mail script `{} {}`", self.script.shown(), self.words)
    }

    /// An error about this operation.
    pub(crate) fn error(&self, kind: ErrorKind, what: impl std::fmt::Display) -> Error {
        Error::new(kind, format!("{} {what}", self.name()))
    }

    /// The same, with what the script said to its operator, and what is not known behind a change.
    pub(crate) fn failed(&self, kind: ErrorKind, what: &str, said: &str) -> Error {
        let doubt = if self.changes { "; whether it has done what it was told is not known" } else { "" };
        self.error(kind, format!("{what}{doubt}{}", saying(said)))
    }

    /// The error for a run that has ended badly.
    pub(crate) fn ended_badly(&self, status: ExitStatus, said: &str) -> Error {
        match (status.code(), status.signal()) {
            (_, Some(signal)) => {
                self.failed(ErrorKind::Unavailable, &format!("was ended by the signal {}", signal_name(signal)), said)
            }
            (Some(code @ (126 | 127)), _) => self
                .error(ErrorKind::Unavailable, format!("ended with exit status {code}{}", saying(said)))
                .help("a program that the script needs is missing or cannot be run"),
            (code, _) => {
                let code = code.map_or("an unknown status".into(), |code| format!("exit status {code}"));
                self.error(ErrorKind::Unavailable, format!("failed with {code}{}", saying(said)))
            }
        }
    }

    fn broken(&self, broken: Broken) -> Error {
        let options = &self.script.options;
        match broken {
            Broken::NotStarted(error) => self.not_started(&error),
            Broken::Overdue { said } => {
                let what =
                    format!("had not ended after {:?}, and was killed with all that it has started", options.timeout);
                self.failed(ErrorKind::Timeout, &what, &said)
                    .help("if it needs that long, raise `timeout` in the exec store's section, and mail.plugin.exec.timeout above it")
            }
            Broken::TooMuch { said } => {
                let what = format!("wrote more than {} bytes (`max_output`), and was killed", options.max_output);
                self.failed(ErrorKind::TooLarge, &what, &said)
                    .help("if its answers are that large, raise `max_output` in the exec store's section")
            }
            Broken::Pipe(error) => self.failed(ErrorKind::Unavailable, &format!("cannot be talked to: {error}"), ""),
            Broken::Abandoned => self.failed(ErrorKind::Cancelled, "was given up and killed", ""),
        }
    }

    pub(crate) fn not_started(&self, error: &std::io::Error) -> Error {
        let help = match error.kind() {
            std::io::ErrorKind::NotFound => {
                "check `command` in the exec store's section; the program in the script's first line (#!) has to exist too, and so has the project's directory"
            }
            std::io::ErrorKind::PermissionDenied => "make the script executable (chmod +x)",
            _ if error.raw_os_error() == Some(8) => {
                "its first line has to name the program that runs it, such as #!/bin/sh"
            }
            _ => "check `command` in the exec store's section",
        };
        self.error(ErrorKind::Unavailable, format!("cannot be run: {error}")).help(help)
    }
}

/// What a script said to its operator, behind an error.
pub(crate) fn saying(said: &str) -> String {
    if said.trim().is_empty() { String::new() } else { format!(": {}", excerpt(said)) }
}

/// The end of a text, in one line without control characters.
pub(crate) fn excerpt(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = lines.join(" / ");
    match line.chars().count() {
        count if count <= EXCERPT => escaped(&line),
        count => format!("… {}", escaped(&line.chars().skip(count - EXCERPT).collect::<String>())),
    }
}

/// The beginning of a text, in one line without control characters.
pub(crate) fn excerpt_of(text: &str, most: usize) -> String {
    let start: String = text.chars().take(most).collect();
    if start.len() < text.len() { format!("{}…", escaped(&start)) } else { escaped(&start) }
}

fn escaped(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return number.to_string(),
    };
    format!("{number} ({name})")
}
