//! A process that writes until it is killed, and what it must have left behind.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;

use fmail_api::{Draft, Error, Expect, RecordKey, Result, Store};
use futures::executor::block_on;
use serde_json::{Value, json};

use crate::kit::{agent, target, use_topics};
use crate::{Failure, Verdict};

/// What a writing process writes. The text form goes through an environment variable or an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Messages, one behind the other.
    Messages,
    /// Messages, by several threads at the same time.
    Crowd,
    /// Records: one of its own for each number, and one that counts.
    Records,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Work::Messages => "messages",
            Work::Crowd => "crowd",
            Work::Records => "records",
        })
    }
}

impl FromStr for Work {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "messages" => Ok(Work::Messages),
            "crowd" => Ok(Work::Crowd),
            "records" => Ok(Work::Records),
            _ => {
                Err(Error::invalid(format!("`{text}` is no work for a writer")).help("use messages, crowd or records"))
            }
        }
    }
}

/// So many writes and no more: a writer that nobody kills must not fill the disk.
const ENOUGH: u64 = 100_000;

/// How many threads make a crowd.
const CROWD: u64 = 8;

/// Writes without end, and prints a line behind each answer. Ends when nobody reads the lines any more.
///
/// A line is the number of the write, and for a message also its id.
pub fn write_until_killed(store: &dyn Store, work: Work) -> Result<()> {
    if work != Work::Crowd {
        return write_each(store, work, 0, 1);
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..CROWD).map(|first| scope.spawn(move || write_each(store, work, first, CROWD as usize))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })
}

/// Writes from `first` on, every `step`-th.
fn write_each(store: &dyn Store, work: Work, first: u64, step: usize) -> Result<()> {
    use_topics(store.capabilities().topics);
    for number in (first..ENOUGH).step_by(step) {
        let line = match work {
            Work::Messages | Work::Crowd => {
                let draft = Draft::new(agent("writer"), target(topic(number)), payload(number));
                format!("{number} {}", block_on(store.append(draft))?.message.id)
            }
            Work::Records => {
                block_on(store.put(&own_key(number), Expect::Anything, payload(number), true))?;
                block_on(store.put(&counter_key(), Expect::Anything, json!({ "count": number }), true))?;
                format!("{number}")
            }
        };
        // The lock is held for the whole line, so that the lines of a crowd stay apart.
        let mut lines = std::io::stdout().lock();
        if writeln!(lines, "{line}").and_then(|()| lines.flush()).is_err() {
            break;
        }
    }
    Ok(())
}

/// What the `number`-th write holds: large enough that half of it could be written, and known in every byte.
pub(crate) fn payload(number: u64) -> Value {
    json!({ "number": number, "text": format!("{number:08}").repeat(200) })
}

pub(crate) fn topic(number: u64) -> &'static str {
    ["one", "two", "@three"][(number % 3) as usize]
}

pub(crate) fn own_key(number: u64) -> RecordKey {
    key(&format!("mailbox/writer/{number:08}"))
}

pub(crate) fn counter_key() -> RecordKey {
    key("leases")
}

fn key(text: &str) -> RecordKey {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Starts the process, kills it when it has printed `lines` lines, and gives every whole line that it printed.
pub(crate) fn killed_after(mut command: Command, lines: usize) -> Verdict<Vec<String>> {
    let mut child = Killed(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
    let mut output =
        BufReader::new(child.0.stdout.take().ok_or_else(|| Failure::new("the writer's output cannot be read"))?);
    let mut printed = Vec::new();
    let mut line = String::new();
    while output.read_line(&mut line)? > 0 {
        // The kill can cut the last line; what it stands for was answered, but cannot be told.
        if let Some(whole) = line.strip_suffix('\n') {
            printed.push(whole.to_string());
        }
        line.clear();
        if printed.len() == lines {
            child.0.kill()?;
        }
    }
    if printed.len() < lines {
        return Err(Failure::new(format!("the writer ended by itself after {} of {lines} writes", printed.len())));
    }
    Ok(printed)
}

/// A process that does not outlive the case.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already; then both calls have nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
