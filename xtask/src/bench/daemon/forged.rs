//! Our daemon, spoken to in raw lines.

use fmail_api::{Error, Result};
use memchr::memchr;

use super::message::{NAME, QUIET, body};
use super::peer::{Address, Frame, Script};
use super::process::Process;
use crate::bench::stage::Stage;

/// A running daemon with a project of its own.
pub struct Forged {
    address: Address,
    process: Process,
}

impl Forged {
    /// Starts a daemon with this `mail.durability`.
    pub fn start(stage: &Stage, durability: &str) -> Result<Self> {
        Forged::start_in(stage, &format!("daemon-{durability}"), durability)
    }

    /// The same in a project of this name.
    pub fn start_in(stage: &Stage, name: &str, durability: &str) -> Result<Self> {
        let project = stage.project(name, 0)?;
        let address = Address::Unix(project.join(".fmail/forged.sock"));
        let mut command = stage.forged(&project);
        command.env("FMAIL_DURABILITY", durability);
        let log = stage.directory().join(format!("forged-{name}.log"));
        Ok(Forged { process: Process::start(command, &address, &log)?, address })
    }

    /// The memory that it has in use now, in millions of bytes.
    pub fn resident(&self) -> Result<f64> {
        self.process.resident()
    }

    /// One request after the other, as PROTOCOL.md has it.
    pub fn script(&self) -> Result<Script> {
        script(&self.address)
    }

    /// The same about a topic that nothing else is sent to.
    pub fn quiet_script(&self) -> Result<Script> {
        script_about(&self.address, QUIET)
    }

    /// Several requests at a time, which needs a `hello`.
    pub fn pipelining_script(&self) -> Result<Script> {
        pipelining_script(&self.address)
    }
}

/// One request after the other to a daemon at this address.
pub fn script(address: &Address) -> Result<Script> {
    script_about(address, NAME)
}

fn script_about(address: &Address, topic: &str) -> Result<Script> {
    let send = request(&format!(r#""cmd":"send","to":"{topic}","body":"{}""#, body()?));
    Ok(Script {
        address: address.clone(),
        framing: frame,
        greeting: None,
        subscription: Some(request(&format!(r#""cmd":"watch","topic":"{topic}""#))),
        request: None,
        publication: Box::new(move |_| send.clone()),
        acknowledges: true,
    })
}

/// Several requests at a time to it.
pub fn pipelining_script(address: &Address) -> Result<Script> {
    Ok(Script { greeting: Some(request(r#""cmd":"hello""#)), ..script(address)? })
}

fn request(fields: &str) -> Vec<u8> {
    format!("{{\"agent\":\"{NAME}\",{fields}}}\n").into()
}

/// A line is a frame, and its beginning says which.
fn frame(bytes: &[u8]) -> Result<Option<(Frame, usize)>> {
    let Some(end) = memchr(b'\n', bytes) else { return Ok(None) };
    let line = &bytes[..end];
    let frame = match line {
        _ if line.starts_with(br#"{"ok":true"#) => Frame::Acknowledgement,
        _ if line.starts_with(br#"{"msg":"#) => Frame::Delivery,
        _ if line.starts_with(br#"{"event":"#) => Frame::Other,
        _ => return Err(Error::internal(format!("forged said: {}", String::from_utf8_lossy(line)))),
    };
    Ok(Some((frame, end + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart_and_refusals_are_errors() {
        for (bytes, expected) in [
            (&b"{\"ok\":true,\"id\":\"x\"}\nrest"[..], Some((Frame::Acknowledgement, 21))),
            (b"{\"msg\":{}}\n", Some((Frame::Delivery, 11))),
            (b"{\"event\":\"ping\"}\n", Some((Frame::Other, 17))),
            (b"{\"ok\":true", None),
        ] {
            assert_eq!(frame(bytes).unwrap(), expected);
        }
        let refused = frame(b"{\"ok\":false,\"error\":{\"code\":\"backpressure\"}}\n").unwrap_err();
        assert!(refused.message().contains("backpressure"), "{refused}");
    }

    #[test]
    fn requests_are_lines_of_json() {
        let line = request(r#""cmd":"watch","topic":"t""#);
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&value["agent"], &value["topic"]), (&NAME.into(), &"t".into()));
        assert!(line.ends_with(b"\n"));
    }
}
