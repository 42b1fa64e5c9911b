//! `forged status` and `forged stop`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fmail_api::{Context, Error, ErrorKind, Hello, Result};
use fmail_host::{Environment, Project};
use fmail_transports::{Conversation, Endpoint};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::arguments::Control;
use crate::{alone, lock};

/// How long a daemon may take to answer, and to end.
const ANSWER: Duration = Duration::from_secs(2);
const END: Duration = Duration::from_secs(30);

/// Tells whether a daemon serves the project.
pub fn status(environment: &Environment, control: &Control) -> Result<ExitCode> {
    let (root, directory) = place(environment, control)?;
    let Some(process) = lock::holder(&directory)? else {
        let text = format!("no forged serves {}", root.display());
        show(control, &json!({"running": false, "root": shown(&root)}), &text)?;
        return Ok(ExitCode::FAILURE);
    };
    if control.no_project {
        let text = format!("a forged without a project of its own runs with {}, process {process}", root.display());
        show(control, &json!({"running": true, "root": shown(&root), "process": process}), &text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let hello = hello(&directory)?;
    let known = json!({"running": true, "root": shown(&root), "process": process, "version": hello.version,
        "protocol": hello.protocol, "project": hello.project.id});
    let text =
        format!("forged {} serves {} (project {}), process {process}", hello.version, root.display(), hello.project.id);
    show(control, &known, &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Ends the daemon and waits for its end.
pub fn stop(environment: &Environment, control: &Control) -> Result<ExitCode> {
    let (root, directory) = place(environment, control)?;
    let Some(process) = lock::holder(&directory)? else {
        let text = format!("no forged serves {}", root.display());
        show(control, &json!({"stopped": false, "root": shown(&root)}), &text)?;
        return Ok(ExitCode::FAILURE);
    };
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("{process} is not a process number")))?;
    kill_process(pid, Signal::TERM).map_err(|error| Error::io(format_args!("cannot end {process}"), &error.into()))?;
    let end = Instant::now() + END;
    while lock::holder(&directory)?.is_some() {
        if Instant::now() > end {
            return Err(Error::new(
                ErrorKind::Timeout,
                format!("forged, process {process}, has not ended within {} s", END.as_secs()),
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = format!("forged, process {process}, has ended");
    show(control, &json!({"stopped": true, "root": shown(&root), "process": process}), &text)?;
    Ok(ExitCode::SUCCESS)
}

/// What is served, and where the lock is that tells by whom.
fn place(environment: &Environment, control: &Control) -> Result<(PathBuf, PathBuf)> {
    if control.no_project {
        let own = alone::directory(environment)?;
        return Ok((own.clone(), own));
    }
    let root = match &control.root {
        Some(root) => environment.cwd.join(root),
        None => Project::discover(environment)?.root,
    };
    let directory = root.join(".fmail");
    Ok((root, directory))
}

/// Asks the daemon itself: a process that holds the lock and does not answer is not well.
fn hello(directory: &Path) -> Result<Hello> {
    let silent = |why: &str| {
        Error::new(ErrorKind::Unavailable, format!("forged holds {} but does not answer: {why}", directory.display()))
            .help("it may be starting or ending; otherwise look at its log")
    };
    let mut conversation =
        Conversation::open(&Endpoint::Unix(directory.to_path_buf())).ok_or_else(|| silent("nobody listens"))?;
    let context = Context::local("forged".parse()?);
    let asked = conversation.wait(ANSWER).and_then(|()| conversation.hello(&context));
    match asked {
        Ok(Some(hello)) => Ok(hello),
        Ok(None) => Err(silent("it does not know `hello`")),
        Err(failure) => Err(silent(&failure.into_error().to_string())),
    }
}

/// A path in an answer: JSON holds text, and a path need not be any.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn show(control: &Control, json: &serde_json::Value, text: &str) -> Result<()> {
    let line = if control.json { format!("{json}\n") } else { format!("{text}\n") };
    match io::stdout().write_all(line.as_bytes()) {
        // Whoever read our output has seen enough: that is no failure of ours.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::io("cannot write to standard output", &error))
        }
        _ => Ok(()),
    }
}
