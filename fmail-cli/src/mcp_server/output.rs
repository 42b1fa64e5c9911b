//! Lines to standard output.

use std::io::{self, Write};
use std::thread;

use fmail_api::{Error, Result};
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use crate::output::{Outcome, stopped};

/// So many messages wait for a client that does not read; then who has something to say waits too.
const WAITING: usize = 64;

/// Where messages go, and what came of it when the last sender is gone or nothing can be written any more.
pub(super) fn lines() -> Result<(Sender<Value>, oneshot::Receiver<Outcome>)> {
    let (sender, receiver) = channel(WAITING);
    let (ended, end) = oneshot::channel();
    let write = move || {
        // Nobody waits for it any more when the process was told to end.
        let _ = ended.send(write_all(receiver).map_err(stopped));
    };
    let spawned = thread::Builder::new().name("output".into()).spawn(write);
    spawned.map_err(|error| Error::io("no thread to write standard output", &error))?;
    Ok((sender, end))
}

fn write_all(mut messages: Receiver<Value>) -> io::Result<()> {
    let mut output = io::stdout().lock();
    while let Some(message) = messages.blocking_recv() {
        // JSON has no line break of its own, and one write keeps a line whole.
        let mut line = message.to_string();
        line.push('\n');
        output.write_all(line.as_bytes())?;
        output.flush()?;
    }
    Ok(())
}
