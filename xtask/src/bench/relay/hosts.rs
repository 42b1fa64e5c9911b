//! Two daemons that relay one project, each with a home and a directory of its own.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fmail_api::{Error, Result};
use serde_json::Value;

use crate::bench::daemon::forged;
use crate::bench::daemon::nats::free_port;
use crate::bench::daemon::peer::{Address, Script};
use crate::bench::daemon::process::Process;
use crate::bench::stage::Stage;
use crate::install::doing;

/// The second dials the first.
pub struct Hosts {
    sockets: [PathBuf; 2],
    _processes: [Process; 2],
}

/// The link has to work within this time.
const PATIENCE: Duration = Duration::from_secs(30);

impl Hosts {
    /// Starts both with this `mail.durability`, and waits until they exchange.
    pub fn start(stage: &Stage, durability: &str) -> Result<Self> {
        let ports = [free_port()?, free_port()?];
        let start = |host: usize| -> Result<(PathBuf, Process)> {
            let name = format!("relay-{durability}-{host}");
            let project = stage.project(&name, 0)?;
            let home = stage.directory().join(format!("{name}-home"));
            let peers = if host == 1 { format!("\"127.0.0.1:{}\"", ports[0]) } else { String::new() };
            configure(&home, ports[host], &peers)?;
            let socket = project.join(".fmail/forged.sock");
            let mut command = stage.forged(&project);
            command.env("HOME", &home).env("FMAIL_ROOT", &project).env("FMAIL_PROJECT", "bench-relay");
            command.env("FMAIL_DURABILITY", durability);
            let log = stage.directory().join(format!("{name}.log"));
            let process = Process::start(command, &Address::Unix(socket.clone()), &log)?;
            Ok((socket, process))
        };
        let ((first, one), (second, other)) = (start(0)?, start(1)?);
        let hosts = Hosts { sockets: [first, second], _processes: [one, other] };
        hosts.await_link()?;
        Ok(hosts)
    }

    fn await_link(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let status = ask(&self.sockets[1], r#"{"cmd":"relay_status","agent":"bench"}"#)?;
            let links = status.pointer("/relay/relays/0/links").and_then(Value::as_array);
            if links.is_some_and(|links| links.iter().any(|link| link["connected"] == true)) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(Error::internal(format!("the two daemons do not relay: {status}")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Speaking to one of them, one request after the other.
    pub fn script(&self, host: usize) -> Result<Script> {
        forged::script(&Address::Unix(self.sockets[host].clone()))
    }

    /// The same, with several requests at a time.
    pub fn pipelining_script(&self, host: usize) -> Result<Script> {
        forged::pipelining_script(&Address::Unix(self.sockets[host].clone()))
    }
}

fn configure(home: &Path, port: u16, peers: &str) -> Result<()> {
    let directory = home.join(".config/fmail");
    fs::create_dir_all(&directory).map_err(doing("creating", &directory))?;
    let text = format!(
        "[mail.tcp]\naddress = \"127.0.0.1:{port}\"\n\n[mail.relay]\nenabled = true\npeers = [{peers}]\n\
         reconnect_interval = \"100ms\"\n"
    );
    let file = directory.join("config.toml");
    fs::write(&file, text).map_err(doing("writing", &file))
}

fn ask(socket: &Path, request: &str) -> Result<Value> {
    let asked = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    };
    let line = asked().map_err(|error: std::io::Error| Error::io("asking a daemon", &error))?;
    serde_json::from_str(&line).map_err(|error| Error::internal(format!("forged said `{}`: {error}", line.trim_end())))
}
