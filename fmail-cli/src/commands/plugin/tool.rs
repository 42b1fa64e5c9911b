//! `fmail plugin check` and `bench` are a program of their own beside this one, so that every `send` stays small.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use fmail_api::{Error, ErrorKind, Result};

use super::Isolation;
use crate::output::Outcome;

const NAME: &str = "fmail-plugin-check";
/// Names the program where it does not lie beside this one.
const VARIABLE: &str = "FMAIL_PLUGIN_CHECK";

/// A flag that was given.
pub(super) fn flag((given, flag): (bool, &str)) -> Option<String> {
    given.then(|| flag.to_string())
}

/// Becomes the program, with these words.
pub(super) fn run(words: Vec<String>, isolation: Option<Isolation>, set: &[String]) -> Outcome {
    let mut command = Command::new(program()?);
    command.args(words);
    match isolation {
        Some(Isolation::None) => _ = command.args(["--isolation", "none"]),
        Some(Isolation::Process) => _ = command.args(["--isolation", "process"]),
        None => {}
    }
    set.iter().for_each(|set| _ = command.args(["--set", set]));
    let error = command.exec();
    Err(Error::io(format_args!("cannot run {}", command.get_program().to_string_lossy()), &error).into())
}

fn program() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(named.into());
    }
    let this = std::env::current_exe().map_err(|error| Error::io("cannot tell which program this is", &error))?;
    let beside = this.with_file_name(NAME);
    if beside.is_file() {
        return Ok(beside);
    }
    Err(Error::new(ErrorKind::Unavailable, format!("{} is not there, and it does this work", beside.display()))
        .help(format!("install it beside fmail (`cargo xtask install` does), or name it in {VARIABLE}")))
}
