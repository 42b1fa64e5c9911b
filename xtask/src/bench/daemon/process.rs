//! A server that the benchmark runs.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use fmail_api::{Error, Result};

use super::peer::{Address, is_up};
use crate::cargo;
use crate::install::doing;

/// A server has to answer within this time.
const PATIENCE: Duration = Duration::from_secs(20);

/// So many ticks are a second in `/proc`, on every Linux that people run.
const TICKS: f64 = 100.0;

/// A running server. It ends with this value.
pub struct Process(Child);

impl Process {
    /// Starts a server and waits until it answers. What it prints goes into `log`, and its end into the error.
    pub fn start(mut command: Command, address: &Address, log: &Path) -> Result<Self> {
        let output = File::create(log).map_err(doing("creating", log))?;
        let errors = output.try_clone().map_err(doing("opening", log))?;
        let line = cargo::describe(&command);
        let child = command.stdout(output).stderr(errors).spawn();
        let mut process = Process(child.map_err(|error| Error::io(format_args!("starting `{line}`"), &error))?);
        let deadline = Instant::now() + PATIENCE;
        while !is_up(address) {
            let ended = process.0.try_wait().map_err(|error| Error::io("waiting for a server", &error))?;
            if ended.is_some() || Instant::now() > deadline {
                let told = fs::read_to_string(log).unwrap_or_default();
                let last = told.lines().last().unwrap_or("nothing");
                return Err(Error::internal(format!("`{line}` did not come up; it said: {last}")));
            }
            // Servers do not tell the one who started them that they listen, so this asks again.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(process)
    }

    /// The memory that it has in use now, in millions of bytes.
    pub fn resident(&self) -> Result<f64> {
        let path = format!("/proc/{}/status", self.0.id());
        let status = fs::read_to_string(&path).map_err(doing("reading", Path::new(&path)))?;
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        let kilobytes: Option<f64> = kilobytes.and_then(|text| text.parse().ok());
        kilobytes.map(|text| text * 1024.0 / 1e6).ok_or_else(|| Error::internal(format!("{path} tells no VmRSS")))
    }

    /// The processor time that it has used, in seconds.
    pub fn worked(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
        // Behind the name, which may contain anything, the time in user mode and in the kernel are the 12th and 13th.
        let fields =
            stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().skip(11).take(2)).into_iter().flatten();
        let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
        ticks as f64 / TICKS
    }
}

impl Process {
    /// A figure of the kernel about its memory, in megabytes: `VmRSS` is what is resident, `VmHWM` the most that was.
    pub fn memory(&self, name: &str) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kilobytes.unwrap_or(0.0) / 1_024.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a program prints.
pub fn output(command: &mut Command) -> Result<String> {
    let line = cargo::describe(command);
    let output = command.output().map_err(|error| Error::io(format_args!("starting `{line}`"), &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let last = told.trim_end().lines().last().unwrap_or("nothing").to_owned();
    Err(Error::internal(format!("`{line}` failed: {last}")))
}

/// The first word in the text that looks like a version.
pub fn version(text: &str) -> &str {
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    text.split(|c: char| !c.is_ascii_digit() && c != '.').find(is_version).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_servers_say_of_themselves() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=e84aaa27";
        assert_eq!((version(redis), version("nats-server: v2.15.1\n"), version("what?")), ("7.0.15", "2.15.1", ""));
    }

    #[test]
    fn a_server_that_ends_at_once_is_told_with_its_last_words() {
        let scratch = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no; echo port taken >&2; exit 3"]);
        let address = Address::Unix(scratch.path().join("socket"));
        let Err(error) = Process::start(command, &address, &scratch.path().join("log")) else { panic!("it runs") };
        assert!(error.message().ends_with("it said: port taken"), "{error}");
    }
}
