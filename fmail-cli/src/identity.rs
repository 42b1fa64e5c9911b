//! Who acts: FMAIL_AGENT, or a name made up for this process.

use std::io::{self, BufRead, IsTerminal, Write};

use fmail_api::{AgentName, Error, ErrorKind, Result};
use fmail_host::{Environment, agent_name};

use crate::output::note;

/// The agent that FMAIL_AGENT names.
pub(crate) fn named(environment: &Environment) -> Result<Option<AgentName>> {
    agent_name(environment)
}

/// The agent for a command to which a name means nothing more than a place to stand.
pub(crate) fn anyone(environment: &Environment) -> Result<AgentName> {
    match named(environment)? {
        Some(agent) => Ok(agent),
        None => nobody(),
    }
}

/// The agent for a command that reads. It never asks, but says when the name decides what is shown.
pub(crate) fn reader(environment: &Environment, hint: bool) -> Result<AgentName> {
    match named(environment)? {
        Some(agent) => Ok(agent),
        None => {
            let agent = nobody()?;
            if hint {
                told(&agent);
            }
            Ok(agent)
        }
    }
}

/// The agent for a command that writes. It asks for a name when a person can answer.
pub(crate) fn writer(environment: &Environment) -> Result<AgentName> {
    if let Some(agent) = named(environment)? {
        return Ok(agent);
    }
    let agent = nobody()?;
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        return asked(agent);
    }
    told(&agent);
    Ok(agent)
}

/// The agent for a command that makes no sense under a made-up name.
pub(crate) fn required(environment: &Environment, what: &str) -> Result<AgentName> {
    named(environment)?.ok_or_else(|| {
        Error::new(ErrorKind::InvalidAgent, format!("{what} needs a name, and FMAIL_AGENT is not set"))
            .help("set FMAIL_AGENT=name; `fmail register` gives you a free one")
    })
}

/// The name of this very process, as long as it lives. No agent has it.
pub(crate) fn nobody() -> Result<AgentName> {
    format!("anon-{}", std::process::id()).parse()
}

fn told(agent: &AgentName) {
    note(&format!("acting as {agent}; set FMAIL_AGENT=name to have a name of your own"));
}

fn asked(anonymous: AgentName) -> Result<AgentName> {
    let mut terminal = io::stderr().lock();
    // A prompt that cannot be shown is still answered by an empty line or the end of input.
    let _ = write!(terminal, "Your agent name (empty for {anonymous}; FMAIL_AGENT=name avoids this question): ");
    let _ = terminal.flush();
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|error| Error::io("cannot read a name", &error))?;
    match line.trim() {
        "" => Ok(anonymous),
        name => name.parse(),
    }
}
