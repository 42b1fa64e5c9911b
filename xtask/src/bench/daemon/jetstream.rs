//! NATS JetStream: messages are kept in a stream on disk, and acknowledged.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use fmail_api::{Error, Result};
use serde_json::{Value, json};

use super::message::payload;
use super::nats::{self, free_port, greeting, program};
use super::peer::{Address, Frame, Script};
use super::process::{Process, output, version};
use crate::bench::stage::Stage;
use crate::install::doing;

/// A server has to do what it is asked to within this time.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A running server with a JetStream.
pub struct JetStream {
    /// Name and version.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    _process: Process,
}

impl JetStream {
    /// Starts a server that syncs every message before it acknowledges it, or from time to time, as servers do by default.
    /// What is told about its part among several servers goes into its configuration.
    pub fn start(stage: &Stage, name: &str, durable: bool, part: &str) -> Result<Self> {
        let program = program()?;
        let number = output(Command::new(&program).arg("--version"))?;
        let (kind, sync) = if durable { (", durable", "always") } else { ("", "2m") };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let place = |end: &str| stage.directory().join(format!("nats-{name}-{sync}{end}"));
        let text = format!(
            "server_name: {name}\nlisten: \"{address}\"\n\
             jetstream {{ store_dir: {:?}, domain: {name}, sync_interval: {sync} }}\n{part}\n",
            place("").display().to_string()
        );
        let file = place(".conf");
        std::fs::write(&file, text).map_err(doing("writing", &file))?;
        let mut command = stage.command(&program, stage.directory(), &["--config"]);
        command.arg(&file);
        let process = Process::start(command, &Address::Tcp(address), &place(".log"))?;
        Ok(JetStream { name: format!("NATS {} JetStream{kind}", version(&number)), address, _process: process })
    }

    /// A server whose stream `bench` takes what is published as `bench`, on one disk.
    pub fn with_stream(stage: &Stage, name: &str, durable: bool, part: &str) -> Result<Self> {
        let server = JetStream::start(stage, name, durable, part)?;
        let stream = json!({"name": "bench", "subjects": ["bench"], "storage": "file"});
        server.ask("$JS.API.STREAM.CREATE.bench", &stream)?;
        Ok(server)
    }

    /// Publishing, acknowledged by the stream. An acknowledgement goes to everyone who listens on a name, so that every sender
    /// needs one of its own.
    pub fn script(&self, name: &str) -> Result<Script> {
        let payload = payload()?;
        let publication: Vec<u8> = format!("PUB bench acknowledged.{name} {}\r\n{payload}\r\n", payload.len()).into();
        Ok(Script {
            address: Address::Tcp(self.address),
            framing: frame,
            greeting: Some(greeting(&format!("SUB acknowledged.{name} 1\r\n"))),
            subscription: Some(greeting(&format!("SUB deliver.{name} 1\r\n"))),
            request: None,
            publication: Box::new(move |_| publication.clone()),
            acknowledges: true,
        })
    }

    /// A request to the JetStream, again until it is up.
    pub fn ask(&self, subject: &str, request: &Value) -> Result<Value> {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = ask_once(self.address, subject, request);
            match answer {
                Ok(answer) if answer.get("error").is_none() => return Ok(answer),
                _ if Instant::now() < end => std::thread::sleep(Duration::from_millis(100)),
                Ok(answer) => return Err(Error::internal(format!("NATS refuses {subject}: {}", answer["error"]))),
                Err(error) => return Err(Error::io(format_args!("asking NATS for {subject}"), &error)),
            }
        }
    }
}

fn ask_once(address: SocketAddr, subject: &str, request: &Value) -> std::io::Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let request = request.to_string();
    let inquiry = format!("SUB answer 1\r\nPUB {subject} answer {}\r\n{request}\r\n", request.len());
    stream.write_all(&greeting(&inquiry))?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(length) = line.strip_prefix("MSG ").and_then(|rest| rest.split_whitespace().last()?.parse().ok()) {
            let mut answer = vec![0; length];
            reader.read_exact(&mut answer)?;
            return serde_json::from_slice(&answer).map_err(std::io::Error::other);
        }
        if line.starts_with("-ERR") {
            return Err(std::io::Error::other(line.trim_end().to_string()));
        }
    }
}

/// What comes on our own subject for it is an acknowledgement, or says why there is none.
fn frame(bytes: &[u8]) -> Result<Option<(Frame, usize)>> {
    match nats::frame(bytes)? {
        Some((Frame::Delivery, whole)) if bytes.starts_with(b"MSG acknowledged.") => {
            let said = String::from_utf8_lossy(&bytes[..whole]);
            match said.contains("\"error\"") {
                true => Err(Error::internal(format!("NATS said: {}", said.trim_end()))),
                false => Ok(Some((Frame::Acknowledgement, whole))),
            }
        }
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_deliveries_and_refusals_are_told_apart_once_they_are_whole() {
        for (bytes, expected) in [
            (&b"MSG acknowledged.a 1 4\r\n{..}\r\n"[..], Frame::Acknowledgement),
            (b"MSG bench 1 $JS.ACK.x 4\r\na\r\nb\r\n", Frame::Delivery),
            (b"PONG\r\n", Frame::Acknowledgement),
        ] {
            let followed = [bytes, b"PO"].concat();
            assert_eq!(frame(&followed).unwrap(), Some((expected, bytes.len())));
            for length in 0..bytes.len() {
                assert_eq!(frame(&bytes[..length]).unwrap(), None);
            }
        }
        assert!(frame(b"MSG acknowledged.a 1 12\r\n{\"error\":{}}\r\n").is_err());
    }
}
