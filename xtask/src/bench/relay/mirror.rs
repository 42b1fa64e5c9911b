//! Two NATS servers: a stream at one, and a stream at the other that mirrors it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use fmail_api::{Error, Result};
use serde_json::{Value, json};

use crate::bench::daemon::message::payload;
use crate::bench::daemon::nats::{self, free_port, program};
use crate::bench::daemon::peer::{Address, Frame, Script};
use crate::bench::daemon::process::{Process, output, version};
use crate::bench::stage::Stage;
use crate::install::doing;

/// The second is a leaf of the first, with a JetStream of its own.
pub struct Mirror {
    /// Name and version.
    pub name: String,
    addresses: [SocketAddr; 2],
    _processes: Vec<Process>,
}

/// The names of the streams: the one that is sent to, and its mirror.
const STREAMS: [&str; 2] = ["bench", "mirror"];

/// A server has to do what it is asked to within this time.
const PATIENCE: Duration = Duration::from_secs(20);

impl Mirror {
    /// Starts both servers and makes the streams, each with one copy on disk. They sync every message before they acknowledge
    /// it, or from time to time, as they do by default.
    pub fn start(stage: &Stage, durable: bool) -> Result<Self> {
        let program = program()?;
        let version = output(Command::new(&program).arg("--version"))?;
        let kind = if durable { ", durable" } else { "" };
        let name = format!("NATS {} JetStream{kind}", self::version(&version));
        let sync = if durable { "always" } else { "2m" };
        let (ports, leaves) = ([free_port()?, free_port()?], free_port()?);
        let addresses = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let mut processes = Vec::new();
        for (place, address) in addresses.iter().enumerate() {
            let directory = stage.directory().join(format!("nats-{sync}-{place}"));
            let file = stage.directory().join(format!("nats-{sync}-{place}.conf"));
            let leaf = match place {
                0 => format!("leafnodes {{ host: 127.0.0.1, port: {leaves} }}"),
                _ => format!("leafnodes {{ remotes: [ {{ url: \"nats-leaf://127.0.0.1:{leaves}\" }} ] }}"),
            };
            let text = format!(
                "server_name: server-{place}\nlisten: \"{address}\"\n\
                 jetstream {{ store_dir: {:?}, domain: domain-{place}, sync_interval: {sync} }}\n{leaf}\n",
                directory.display().to_string()
            );
            std::fs::write(&file, text).map_err(doing("writing", &file))?;
            let mut command = stage.command(&program, stage.directory(), &["--config"]);
            command.arg(&file);
            let log = stage.directory().join(format!("nats-{sync}-{place}.log"));
            processes.push(Process::start(command, &Address::Tcp(*address), &log)?);
        }
        let mirror = Mirror { name, addresses, _processes: processes };
        mirror.ask(
            0,
            "$JS.API.STREAM.CREATE.bench",
            &json!({"name": "bench", "subjects": ["bench"], "storage": "file"}),
        )?;
        let external = json!({"name": "bench", "external": {"api": "$JS.domain-0.API"}});
        mirror.ask(
            1,
            "$JS.API.STREAM.CREATE.mirror",
            &json!({"name": "mirror", "mirror": external, "storage": "file"}),
        )?;
        Ok(mirror)
    }

    /// Publishing at the first server, acknowledged by its stream; and watching this server's stream, from now on.
    pub fn script(&self, name: &str, server: usize) -> Result<Script> {
        self.caught_up()?;
        let stream = STREAMS[server];
        let consumer = json!({"stream_name": stream, "config": {"name": name, "durable_name": name,
            "deliver_subject": format!("deliver.{name}"), "deliver_policy": "new", "ack_policy": "none"}});
        self.ask(server, &format!("$JS.API.CONSUMER.DURABLE.CREATE.{stream}.{name}"), &consumer)?;
        let payload = payload()?;
        let publication: Vec<u8> = format!("PUB bench acknowledged.{name} {}\r\n{payload}\r\n", payload.len()).into();
        Ok(Script {
            address: Address::Tcp(self.addresses[server]),
            framing: frame,
            greeting: Some(greeting(&format!("SUB acknowledged.{name} 1\r\n"))),
            subscription: Some(greeting(&format!("SUB deliver.{name} 1\r\n"))),
            request: None,
            publication: Box::new(move |_| publication.clone()),
            acknowledges: true,
        })
    }

    /// Waits until the mirror holds what the stream holds: what is late must not be counted by who comes next.
    fn caught_up(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        let last = |server: usize| -> Result<Value> {
            let info = self.ask(server, &format!("$JS.API.STREAM.INFO.{}", STREAMS[server]), &json!({}))?;
            Ok(info["state"]["last_seq"].clone())
        };
        while last(0)? != last(1)? {
            if Instant::now() > end {
                return Err(Error::internal("the mirror does not get what the stream holds"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// A request to a server's JetStream, again until it is up.
    fn ask(&self, server: usize, subject: &str, request: &Value) -> Result<Value> {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = ask_once(self.addresses[server], subject, request);
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

/// Who we are and what we want; the answer to the `PING` says that both were understood.
fn greeting(request: &str) -> Vec<u8> {
    format!("CONNECT {{\"verbose\":false,\"pedantic\":false}}\r\n{request}PING\r\n").into()
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
