//! From arguments to an exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind as Usage};
use fmail_api::ErrorKind;
use fmail_host::Environment;

use crate::definition::{Command, Fmail, parse_common};
use crate::output::{Outcome, Stop, advise, note, report};
use crate::{arguments, commands, inject, robot_help};

/// Runs the command that `args` (with the program's name first) describe.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    // Asked for before anything is parsed: `fmail send --robot-help` has none of the arguments that `send` requires.
    if let Some(command) = robot_help::asked(&args) {
        return finish(robot_help::print(command.as_deref()));
    }
    if let Some(rest) = commands::plugin_host::asked(&args) {
        return finish(commands::plugin_host::run(rest));
    }
    if let Some(fmail) = parse_common(&args) {
        return finish(execute(fmail));
    }
    match arguments::parse(&args) {
        Ok(fmail) => finish(execute(fmail)),
        // A hook must not fail: its agent would stop, or not hear of it.
        Err(error) if error.use_stderr() && inject::asked(&args) => {
            let text = error.render().to_string();
            finish(inject::misused(&args, text.strip_prefix("error: ").unwrap_or(&text)))
        }
        Err(error) => usage(&error),
    }
}

fn execute(fmail: Fmail) -> Outcome {
    if let Command::Check(check) = &fmail.command
        && let Some(options) = check.injection()
    {
        return inject::run(options, fmail.everywhere.set);
    }
    let environment = Environment::from_process()?;
    commands::execute(fmail.command, environment, fmail.everywhere.set)
}

/// The exit code of a question whose answer is no. No failure has it.
pub(crate) const NOTHING: u8 = 1;

/// Which questions those are, and what no means. The help, `--robot-help` and the README have the same list.
pub(crate) const NOTHING_MEANS: &[(&str, &str)] = &[
    ("check", "no unread mail"),
    ("guard status, hook status, mcp status", "not installed"),
    ("relay status", "a link is down or missing"),
    ("plugin check", "it breaks a rule"),
];

/// The same as one text.
pub(crate) fn nothing_means() -> String {
    NOTHING_MEANS.iter().map(|(who, what)| format!("{who}: {what}")).collect::<Vec<_>>().join("; ")
}

fn finish(outcome: Outcome) -> ExitCode {
    match outcome {
        // Whoever read our output has seen enough, as `head` has: that is no failure of ours.
        Ok(()) | Err(Stop::ReaderGone) => ExitCode::SUCCESS,
        Err(Stop::Nothing) => ExitCode::from(NOTHING),
        Err(Stop::Failed(error)) => {
            report(&error);
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// Help and version go where they were asked for; what cannot be parsed is an error like any other.
fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        Usage::DisplayHelp | Usage::DisplayVersion => {
            // Nothing can be done about a reader that is gone.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        Usage::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(ErrorKind::InvalidRequest.exit_code())
        }
        _ => {
            let text = error.render().to_string();
            note(text.strip_prefix("error: ").unwrap_or(&text).trim_end());
            if let Some(command) = unquoted(error, &text) {
                advise(&format!("text of several words needs quotes: {command}"));
            }
            ExitCode::from(ErrorKind::InvalidRequest.exit_code())
        }
    }
}

/// How to write the command, when a word too many shows that its text was not quoted; `text` contains its usage.
fn unquoted(error: &clap::Error, text: &str) -> Option<&'static str> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != Usage::UnknownArgument || word.starts_with('-') {
        return None;
    }
    let commands = [
        ("Usage: fmail send ", "fmail send task \"hello world\""),
        ("Usage: fmail status ", "fmail status \"building main\""),
        ("Usage: fmail nudge ", "fmail nudge bob \"your review, please\""),
        ("Usage: fmail reply ", "fmail reply 0042 \"hello world\""),
    ];
    commands.into_iter().find(|(usage, _)| text.contains(usage)).map(|(_, command)| command)
}
