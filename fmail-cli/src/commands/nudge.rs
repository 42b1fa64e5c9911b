//! `fmail nudge`

use std::process::Command;
use std::time::Duration;

use clap::Args;
use fmail_api::{AgentName, Error, ErrorKind, NudgeRequest, Result};
use serde_json::json;

use crate::examples::{Example, example, help};
use crate::output::{Outcome, Output, note, report};
use crate::session::Place;
use crate::{connected, identity, names, program};

pub(crate) const EXAMPLES: &[Example] = &[
    example("fmail nudge reviewer \"PR 42 waits for you\"", "wake an agent that is there"),
    example("fmail nudge bob ping --json", "how many sessions were reached"),
];

/// How long the configured command may take.
const DEADLINE: Duration = Duration::from_secs(10);

#[derive(Args)]
#[command(after_help = help(EXAMPLES))]
pub(crate) struct Nudge {
    /// The agent to wake
    #[arg(value_name = "AGENT")]
    agent: String,

    /// What to say, in at most 4096 bytes
    text: String,

    /// Print {agent, sessions, command} as JSON
    #[arg(long)]
    json: bool,
}

/// What became of the configured command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ran {
    Ok,
    Failed,
    /// There is none.
    Nothing,
}

impl Nudge {
    pub(crate) fn run(self, place: &Place) -> Outcome {
        let request = NudgeRequest { to: names::agent(&self.agent)?, text: self.text };
        request.check()?;
        let from = identity::writer(&place.environment)?;
        // Whatever a daemon has to say, the command is run too: either may be the one that reaches the agent.
        let told = connected::nudge(place, &from, &request);
        let ran = ran(place, &from, &request)?;
        let sessions = match told {
            Ok(sessions) => sessions,
            Err(error) if ran == Ran::Ok => {
                report(&error);
                None
            }
            Err(error) => return Err(error.into()),
        };
        reached(&request.to, sessions, ran)?;
        let (agent, sessions) = (&request.to, sessions.unwrap_or(0));
        let mut output = Output::stdout();
        if self.json {
            let command = match ran {
                Ran::Ok => Some("ok"),
                Ran::Failed => Some("failed"),
                Ran::Nothing => None,
            };
            output.json(&json!({"agent": agent, "sessions": sessions, "command": command}))?;
        } else {
            output.line(&sentence(agent, sessions, ran))?;
        }
        output.flush()
    }
}

/// Fails when nobody was reached, and says why.
fn reached(agent: &AgentName, sessions: Option<u64>, ran: Ran) -> Result<()> {
    if sessions.unwrap_or(0) > 0 || ran == Ran::Ok {
        return Ok(());
    }
    let why = match (sessions, ran) {
        (_, Ran::Failed) => "its command failed",
        (Some(_), _) => "none is open, and no command is configured",
        (None, _) => "no forged serves this project, and no command is configured",
    };
    Err(Error::new(ErrorKind::Unreached, format!("no session of @{agent} was reached: {why}"))
        .help(format!("what has to arrive is a message: `fmail send @{agent} …`; mail.nudge names commands")))
}

fn sentence(agent: &AgentName, sessions: u64, ran: Ran) -> String {
    let reached = match sessions {
        0 => format!("reached no session of @{agent}"),
        1 => format!("reached 1 session of @{agent}"),
        many => format!("reached {many} sessions of @{agent}"),
    };
    match ran {
        Ran::Ok => format!("{reached}; its command was run"),
        Ran::Failed => format!("{reached}; its command failed"),
        Ran::Nothing => reached,
    }
}

/// Runs the command that is configured for the agent. Its failure is told, and is none of ours.
fn ran(place: &Place, from: &AgentName, request: &NudgeRequest) -> Result<Ran> {
    let Some([program, arguments @ ..]) = place.settings.mail.nudge_command(&request.to) else {
        return Ok(Ran::Nothing);
    };
    let (agent, from, text) = (request.to.as_str(), from.as_str(), request.text.as_str());
    let mut command = Command::new(program);
    command.args(arguments.iter().map(|argument| filled(argument, agent, from, text)));
    command.envs([("FMAIL_NUDGE_AGENT", agent), ("FMAIL_NUDGE_FROM", from), ("FMAIL_NUDGE_TEXT", text)]);
    match program::run(command, DEADLINE) {
        Ok(()) => Ok(Ran::Ok),
        Err(failed) if failed.error.kind() == ErrorKind::Cancelled => Err(failed.error),
        Err(failed) => {
            let printed = match failed.printed.replace('\n', "\n    ") {
                printed if printed.is_empty() => String::new(),
                printed => format!("; it printed:\n    {printed}"),
            };
            note(&format!("the command for @{agent}: {}{printed}", failed.error));
            Ok(Ran::Failed)
        }
    }
}

/// An argument with its placeholders filled in, in one go: what the text says about placeholders stays text.
fn filled(argument: &str, agent: &str, from: &str, text: &str) -> String {
    let mut filled = String::new();
    let mut rest = argument;
    while let Some(start) = rest.find('{') {
        filled.push_str(&rest[..start]);
        rest = &rest[start..];
        let known = [("{agent}", agent), ("{from}", from), ("{text}", text)];
        let (length, value) = match known.into_iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, value)) => (name.len(), value),
            None => (1, "{"),
        };
        filled.push_str(value);
        rest = &rest[length..];
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_once_and_everything_else_stays() {
        let check = |argument: &str, expect: &str| assert_eq!(filled(argument, "bob", "alice", "{from} {x"), expect);
        check("{text}", "{from} {x");
        check("-t{agent}:0", "-tbob:0");
        check("{from}->{agent}: {text}{text}", "alice->bob: {from} {x{from} {x");
        check("{{from}}", "{alice}");
        check("{print $1} {txt} {", "{print $1} {txt} {");
        check("", "");
    }

    #[test]
    fn a_nudge_fails_only_when_it_reached_nobody() {
        let bob = "bob".parse().unwrap();
        for (sessions, ran, fine) in [
            (Some(1), Ran::Nothing, true),
            (Some(1), Ran::Failed, true),
            (Some(0), Ran::Ok, true),
            (None, Ran::Ok, true),
            (Some(0), Ran::Nothing, false),
            (None, Ran::Failed, false),
            (None, Ran::Nothing, false),
        ] {
            let kind = reached(&bob, sessions, ran).err().map(|error| error.kind());
            assert_eq!(kind, (!fine).then_some(ErrorKind::Unreached), "{sessions:?} {ran:?}");
        }
        assert_eq!(sentence(&bob, 2, Ran::Nothing), "reached 2 sessions of @bob");
        assert_eq!(sentence(&bob, 0, Ran::Ok), "reached no session of @bob; its command was run");
    }
}
