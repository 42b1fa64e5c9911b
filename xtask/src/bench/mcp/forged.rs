//! A daemon that serves MCP.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fmail_api::{Error, Result};

use crate::bench::daemon::peer::Address;
use crate::bench::daemon::process::Process;
use crate::bench::stage::Stage;
use crate::install::doing;

/// A running daemon with a project of its own.
pub struct Forged {
    /// The project's directory.
    pub project: PathBuf,
    /// Its socket, for the raw protocol.
    pub unix: Address,
    /// Where it serves MCP.
    pub http: Address,
    process: Process,
}

impl Forged {
    /// Starts a daemon and waits until it answers both ways.
    pub fn start(stage: &Stage, name: &str) -> Result<Self> {
        configure(stage)?;
        let project = stage.project(name, 0)?;
        let unix = Address::Unix(project.join(".fmail/forged.sock"));
        let forged = stage.programs().join("forged");
        let command = stage.command(&forged, &project, &["--log", "info"]);
        let log = stage.directory().join(format!("{name}.log"));
        let process = Process::start(command, &unix, &log)?;
        let http = address(&log)?;
        Ok(Forged { project, unix, http, process })
    }

    /// The processor time that it has used, in seconds.
    pub fn worked(&self) -> f64 {
        self.process.worked()
    }
}

/// Writes the configuration that every daemon of the stage reads.
fn configure(stage: &Stage) -> Result<()> {
    let directory = stage.directory().join(".config/fmail");
    std::fs::create_dir_all(&directory).map_err(doing("creating", &directory))?;
    let file = directory.join("config.toml");
    let text = format!(
        "[mail]\ntransports = [\"unix\", \"http\"]\n[mail.plugins]\npath = [{:?}]\n\
         [mail.plugin.http.config]\naddress = \"127.0.0.1:0\"\n",
        stage.programs()
    );
    std::fs::write(&file, text).map_err(doing("writing", &file))
}

/// The address in the line of the log that says where MCP is served.
fn address(log: &Path) -> Result<Address> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let text = std::fs::read_to_string(log).map_err(doing("reading", log))?;
        if let Some(address) = text.lines().filter(|line| line.contains(" listening ")).find_map(served) {
            return Ok(address);
        }
        if Instant::now() > deadline {
            let last = text.lines().last().unwrap_or("nothing");
            return Err(Error::internal(format!("forged does not serve MCP; it said: {last}")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn served(line: &str) -> Option<Address> {
    let (_, address) = line.split_once("http://")?;
    address.split(['/', '"', ' ']).next()?.parse().ok().map(Address::Tcp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_the_line_of_the_log() {
        let line = r#"2026-01-10T15:30:00Z  INFO forged: listening endpoint="http://127.0.0.1:41233/mcp/""#;
        assert!(matches!(served(line), Some(Address::Tcp(address)) if address.port() == 41233));
    }
}
