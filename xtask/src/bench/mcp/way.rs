//! The two ways in which an agent can talk to the daemon: what is said, and when the answer is whole.

use fmail_api::{Error, Result};

use super::forged::Forged;
use crate::bench::daemon::peer::{Frame, Peer, Script};

/// A way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// MCP over HTTP, each agent on one connection that it keeps.
    Mcp,
    /// The raw protocol, lines of JSON on the Unix socket.
    Lines,
}

/// What an agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Sends a message.
    Send,
    /// Looks at its mail.
    Fetch,
}

impl Way {
    /// Its name in that of a project.
    pub fn name(self) -> &'static str {
        match self {
            Way::Mcp => "mcp",
            Way::Lines => "lines",
        }
    }

    /// Its name in the table.
    pub fn shown(self) -> &'static str {
        match self {
            Way::Mcp => "MCP over HTTP",
            Way::Lines => "JSON lines over the socket",
        }
    }

    /// A connection of its own for an agent.
    pub fn connect(self, forged: &Forged) -> Result<Peer> {
        let (address, framing): (_, fn(&[u8]) -> _) = match self {
            Way::Mcp => (&forged.http, response),
            Way::Lines => (&forged.unix, line),
        };
        Peer::sender(&Script {
            address: address.clone(),
            framing,
            greeting: None,
            subscription: None,
            request: None,
            publication: Box::new(|_| Vec::new()),
            acknowledges: true,
        })
    }

    /// What makes an agent known.
    pub fn registration(self, forged: &Forged, agent: &str) -> Vec<u8> {
        let project = forged.project.display();
        match self {
            Way::Mcp => call(
                "register_agent",
                &format!(r#""project_key":"{project}","name":"{agent}","program":"bench","model":"none""#),
            ),
            Way::Lines => format!("{{\"cmd\":\"register\",\"agent\":\"{agent}\"}}\n").into(),
        }
    }

    /// A message.
    pub fn send(self, forged: &Forged, agent: &str, to: &str, text: &str) -> Vec<u8> {
        let project = forged.project.display();
        match self {
            Way::Mcp => call(
                "send_message",
                &format!(
                    r#""project_key":"{project}","sender_name":"{agent}","to":["{to}"],"subject":"INFO: load","body_md":"{text}""#
                ),
            ),
            Way::Lines => {
                format!("{{\"cmd\":\"send\",\"agent\":\"{agent}\",\"to\":\"@{to}\",\"body\":\"{text}\"}}\n").into()
            }
        }
    }

    /// A look at the mail, which changes nothing.
    pub fn fetch(self, forged: &Forged, agent: &str) -> Vec<u8> {
        let project = forged.project.display();
        match self {
            Way::Mcp => call("fetch_inbox", &format!(r#""project_key":"{project}","agent_name":"{agent}","limit":20"#)),
            Way::Lines => format!("{{\"cmd\":\"check\",\"agent\":\"{agent}\",\"limit\":20}}\n").into(),
        }
    }

    /// What ends the answer to a call.
    pub fn end(self, call: Call) -> Frame {
        match (self, call) {
            (Way::Lines, Call::Fetch) => Frame::Delivery,
            _ => Frame::Acknowledgement,
        }
    }
}

/// A call of a tool, as a request of HTTP.
fn call(tool: &str, arguments: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{{arguments}}}}}}}"#
    );
    format!(
        "POST /mcp/ HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into()
}

/// An answer of HTTP is a frame. Only a tool that succeeded may be counted.
fn response(bytes: &[u8]) -> Result<Option<(Frame, usize)>> {
    let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|end| end + 4) else { return Ok(None) };
    let refused = |bytes: &[u8]| Error::internal(format!("the server said: {}", String::from_utf8_lossy(bytes)));
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let length = length.ok_or_else(|| refused(bytes))?;
    let Some(body) = bytes.get(head..head + length) else { return Ok(None) };
    let holds = |part: &[u8]| body.windows(part.len()).any(|some| some == part);
    if !text.starts_with("http/1.1 200 ") || !holds(b"\"structuredContent\"") || holds(b"\"isError\":true") {
        return Err(refused(&bytes[..head + length]));
    }
    Ok(Some((Frame::Acknowledgement, head + length)))
}

/// A line is a frame: an answer, something that follows it, or the end of that.
fn line(bytes: &[u8]) -> Result<Option<(Frame, usize)>> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = &bytes[..end];
    let frame = match line {
        _ if line.starts_with(br#"{"ok":true"#) => Frame::Acknowledgement,
        _ if line.starts_with(br#"{"msg":"#) => Frame::Other,
        _ if line.starts_with(br#"{"event":"end""#) => Frame::Delivery,
        _ => return Err(Error::internal(format!("forged said: {}", String::from_utf8_lossy(line)))),
    };
    Ok(Some((frame, end + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_with_its_body_and_counts_only_when_the_tool_succeeded() {
        let answer = |status: &str, body: &str| {
            format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let good = answer("200 OK", r#"{"result":{"structuredContent":{},"isError":false}}"#);
        assert_eq!(response(good.as_bytes()).unwrap(), Some((Frame::Acknowledgement, good.len())));
        for length in 0..good.len() {
            assert_eq!(response(&good.as_bytes()[..length]).unwrap(), None, "{length}");
        }
        let bad = answer("200 OK", r#"{"result":{"structuredContent":{},"isError":true}}"#);
        assert!(response(bad.as_bytes()).unwrap_err().message().contains("isError"));
        assert!(response(answer("401 Unauthorized", "{}").as_bytes()).is_err());
    }

    #[test]
    fn a_look_at_the_mail_ends_with_its_last_line() {
        let lines: [(&[u8], Frame); 3] = [
            (b"{\"ok\":true,\"more\":0}\n", Frame::Acknowledgement),
            (b"{\"msg\":{}}\n", Frame::Other),
            (b"{\"event\":\"end\"}\n", Way::Lines.end(Call::Fetch)),
        ];
        for (bytes, frame) in lines {
            assert_eq!(line(bytes).unwrap(), Some((frame, bytes.len())));
        }
        assert!(line(b"{\"ok\":false,\"error\":{}}\n").is_err());
    }
}
