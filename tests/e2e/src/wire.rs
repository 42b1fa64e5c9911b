//! A client of the daemon that is nothing but a socket and lines.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use crate::DEADLINE;

/// A connection to a daemon that may die at any moment.
pub struct Wire {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Wire {
    /// Connects to a daemon's socket.
    pub fn connect(socket: &Path) -> io::Result<Wire> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        let lines = BufReader::new(stream.try_clone()?);
        Ok(Wire { stream, lines })
    }

    /// Sends a request and gives the answer; nothing when the daemon is gone.
    pub fn ask(&mut self, request: &Value) -> Option<Value> {
        if let Err(error) = self.stream.write_all(format!("{request}\n").as_bytes()) {
            assert!(!is_timeout(&error), "the daemon does not read: {request}");
            return None;
        }
        self.line()
    }

    /// The next line; nothing when the daemon is gone, also when it went in the middle of the line.
    pub fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        if let Err(error) = self.lines.read_line(&mut line) {
            assert!(!is_timeout(&error), "nothing from the daemon in {DEADLINE:?}");
            return None;
        }
        let whole = line.strip_suffix('\n')?;
        Some(serde_json::from_str(whole).unwrap_or_else(|error| panic!("a whole line is JSON, but ({error}): {whole}")))
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
