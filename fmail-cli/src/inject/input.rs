//! What an agent's hook tells on standard input.

use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Deserialize;

use crate::output::note;

/// How long the first byte is waited for. An agent writes at once; who runs this by hand in a pipe writes nothing.
const FIRST_BYTE: Duration = Duration::from_secs(1);

/// More than any hook tells. What is beyond is left in the pipe.
const MOST: u64 = 64 << 20;

/// The fields of a hook's input that matter here. Claude Code, Codex and Gemini CLI name them alike.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Input {
    /// Which session of the agent this is.
    pub(crate) session_id: Option<String>,
    /// What has just happened in it.
    pub(crate) hook_event_name: Option<String>,
    /// The agent goes on because a hook already kept it from stopping.
    pub(crate) stop_hook_active: bool,
    /// A subagent acts, whose context is not the session's.
    pub(crate) agent_id: Option<String>,
    /// The tool that has just been used.
    pub(crate) tool_name: Option<String>,
}

impl Input {
    /// Reads it to its end: an agent that cannot write all of it would take that for a failure of the hook.
    pub(crate) fn read(until: Instant) -> Input {
        let stdin = io::stdin();
        if stdin.is_terminal() || !readable(&stdin, until.min(Instant::now() + FIRST_BYTE)) {
            return Input::default();
        }
        let mut bytes = Vec::new();
        let mut stdin = stdin.lock().take(MOST);
        let mut buffer = vec![0; 1 << 16];
        while readable(&io::stdin(), until) {
            match stdin.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    note(&format!("the hook's input cannot be read: {error}"));
                    break;
                }
            }
        }
        Input::parse(&bytes)
    }

    /// The input in these bytes. What is not a hook's is told and does not count: mail is told all the same.
    fn parse(bytes: &[u8]) -> Input {
        if bytes.trim_ascii().is_empty() {
            return Input::default();
        }
        serde_json::from_slice(bytes).unwrap_or_else(|error| {
            note(&format!("standard input is not the JSON of a hook: {error}"));
            Input::default()
        })
    }
}

/// Whether there is something to read, or the end, by then.
fn readable(input: &impl AsFd, until: Instant) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut watched = [PollFd::new(input, PollFlags::IN)];
        let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut watched, Some(&time)) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(count) => return count > 0,
            // Closed, or nothing that can be waited for.
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_that_matter_are_taken_and_the_others_left() {
        let text = br#"{"session_id":"s","transcript_path":null,"hook_event_name":"PostToolUse","tool_name":"Bash",
            "tool_input":{"command":"ls"},"agent_id":"sub","stop_hook_active":true}"#;
        let expected = Input {
            session_id: Some("s".into()),
            hook_event_name: Some("PostToolUse".into()),
            stop_hook_active: true,
            agent_id: Some("sub".into()),
            tool_name: Some("Bash".into()),
        };
        assert_eq!(Input::parse(text), expected);
        for nothing in [&b""[..], b" \n", b"[]", b"not json", b"{", b"\xff"] {
            assert_eq!(Input::parse(nothing), Input::default());
        }
    }
}
