//! Redis, with every write synced before it is answered.

use std::path::Path;
use std::process::Command;

use fmail_api::{Error, ErrorKind, Result};

use super::message::payload;
use super::peer::{Address, Frame, Script};
use super::process::{Process, output, version};
use crate::bench::stage::Stage;
use crate::install::doing;
use crate::tools;

/// A running server.
pub struct Redis {
    /// Its name and version.
    pub name: String,
    address: Address,
    _process: Process,
}

impl Redis {
    /// Starts the server of the system; where there is none, it is installed as root and asked for otherwise.
    pub fn start(stage: &Stage) -> Result<Self> {
        let program = tools::obtain("redis-server", &["redis-server"], "the benchmark")?.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "redis-server is not installed (`sudo apt-get install redis-server`)")
        })?;
        let name = format!("Redis {}", version(&output(Command::new(&program).arg("--version"))?));
        let directory = stage.directory().join("redis");
        std::fs::create_dir_all(&directory).map_err(doing("creating", &directory))?;
        let address = Address::Unix(directory.join("socket"));
        let process = Process::start(server(stage, &program, &directory), &address, &directory.join("log"))?;
        Ok(Redis { name, address, _process: process })
    }

    /// Durable appends to a stream, which a watcher reads by asking for what is behind the last one.
    pub fn stream(&self, key: &'static str) -> Result<Script> {
        let payload = payload()?;
        Ok(Script { publication: Box::new(move |_| command(&["XADD", key, "*", "m", &payload])), ..self.script() })
    }

    /// The same with numbered entries, so that a watcher can name the one that it has before it has seen it.
    pub fn numbered_stream(&self) -> Result<Script> {
        let payload = payload()?;
        let behind =
            |number: u64| command(&["XREAD", "BLOCK", "0", "STREAMS", "numbered", &format!("1-{}", number - 1)]);
        Ok(Script {
            request: Some(behind),
            publication: Box::new(move |number| command(&["XADD", "numbered", &format!("1-{number}"), "m", &payload])),
            ..self.script()
        })
    }

    /// Messages that are passed on and not kept.
    pub fn channel(&self) -> Result<Script> {
        let payload = payload()?;
        Ok(Script {
            subscription: Some(command(&["SUBSCRIBE", "bench"])),
            publication: Box::new(move |_| command(&["PUBLISH", "bench", &payload])),
            ..self.script()
        })
    }

    fn script(&self) -> Script {
        Script {
            address: self.address.clone(),
            framing: frame,
            greeting: None,
            subscription: None,
            request: None,
            publication: Box::new(|_| Vec::new()),
            acknowledges: true,
        }
    }
}

/// The log is never rewritten and no snapshots are taken: nothing but the appends costs anything.
fn server(stage: &Stage, program: &Path, directory: &Path) -> Command {
    let mut command = stage.command(program, directory, &["--port", "0", "--unixsocket", "socket", "--save", ""]);
    command.args(["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]);
    command
}

/// A command in RESP: a list of texts, each with its length.
fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// A reply is a frame. Replies to commands acknowledge; what a channel says by itself and what `XREAD` gives is delivered.
fn frame(bytes: &[u8]) -> Result<Option<(Frame, usize)>> {
    let Some(length) = reply_length(bytes)? else { return Ok(None) };
    let reply = &bytes[..length];
    let frame = match reply[0] {
        b'-' => return Err(Error::internal(format!("Redis said: {}", String::from_utf8_lossy(reply).trim_end()))),
        b'*' if !reply.starts_with(b"*3\r\n$9\r\nsubscribe") => Frame::Delivery,
        _ => Frame::Acknowledgement,
    };
    Ok(Some((frame, length)))
}

/// How long the first reply is; nothing when it is not whole.
fn reply_length(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (kind, head) = (bytes[0], end + 2);
    if matches!(kind, b'+' | b'-' | b':') {
        return Ok(Some(head));
    }
    let count = std::str::from_utf8(&bytes[1..end]).ok().and_then(|text| text.parse::<i64>().ok());
    match (kind, count) {
        (b'$' | b'*', Some(-1)) => Ok(Some(head)),
        (b'$', Some(count)) => {
            let length = head + count.unsigned_abs() as usize + 2;
            Ok((bytes.len() >= length).then_some(length))
        }
        (b'*', Some(count)) => {
            let mut length = head;
            for _ in 0..count {
                let Some(item) = reply_length(&bytes[length..])? else { return Ok(None) };
                length += item;
            }
            Ok(Some(length))
        }
        _ => Err(Error::internal(format!("Redis said: {}", String::from_utf8_lossy(&bytes[..end])))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_carry_the_length_of_every_word() {
        assert_eq!(command(&["XADD", "é", ""]), "*3\r\n$4\r\nXADD\r\n$2\r\né\r\n$0\r\n\r\n".as_bytes());
    }

    #[test]
    fn replies_are_told_apart_once_they_are_whole() {
        let id = b"$15\r\n1700000000000-0\r\n";
        let message = b"*3\r\n$7\r\nmessage\r\n$5\r\nbench\r\n$2\r\n\r\n\r\n";
        let entry = b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nm\r\n$1\r\nx\r\n";
        let subscribed = b"*3\r\n$9\r\nsubscribe\r\n$5\r\nbench\r\n:1\r\n";
        for (bytes, expected) in [
            (&id[..], Frame::Acknowledgement),
            (b":1\r\n", Frame::Acknowledgement),
            (subscribed, Frame::Acknowledgement),
            (message, Frame::Delivery),
            (entry, Frame::Delivery),
        ] {
            let followed = [bytes, b"$1"].concat();
            assert_eq!(frame(&followed).unwrap(), Some((expected, bytes.len())));
            for length in 0..bytes.len() {
                assert_eq!(frame(&bytes[..length]).unwrap(), None, "{}", bytes[..length].escape_ascii());
            }
        }
        assert!(frame(b"-MISCONF no space\r\n").unwrap_err().message().contains("no space"));
        assert!(frame(b"?what\r\n").is_err());
    }
}
