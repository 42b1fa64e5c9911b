//! What it means that there is no answer.

use std::io;
use std::time::Duration;

use fmail_api::{Error, ErrorKind};
use ureq::Timeout;

use super::address::{Address, TOKEN_VARIABLE};
use super::answer::{Refusal, shortened};

/// A request without an answer.
pub(super) struct Failed {
    pub(super) error: Error,
    /// The server may have done what it was asked.
    pub(super) unknown: bool,
}

impl Failed {
    pub(super) fn before(error: Error) -> Failed {
        Failed { error, unknown: false }
    }

    pub(super) fn midway(error: Error) -> Failed {
        Failed { error, unknown: true }
    }

    /// The error. Of a request that changes something it says what is not known.
    pub(super) fn into_error(self, changes: bool) -> Error {
        if !(self.unknown && changes) {
            return self.error;
        }
        let text = format!("{}; whether the call took effect is not known", self.error.message());
        let error = Error::new(self.error.kind(), text);
        match self.error.help_text() {
            Some(help) => error.help(help),
            None => error,
        }
    }
}

/// Nobody answered, or what came is no HTTP.
pub(super) fn transport(address: &Address, error: ureq::Error, time: Duration) -> Failed {
    let url = &address.url;
    match error {
        ureq::Error::Timeout(phase) => {
            let error = Error::new(ErrorKind::Timeout, format!("{url} did not answer within {time:?}"))
                .help("allow it more with --timeout");
            match phase {
                Timeout::Resolve | Timeout::Connect => Failed::before(error),
                _ => Failed::midway(error),
            }
        }
        ureq::Error::Io(error) => lost(url, &error),
        ureq::Error::Rustls(error) => unencrypted(url, &error),
        ureq::Error::Tls(why) => Failed::before(unavailable(format!("no encrypted connection to {url}: {why}"))),
        ureq::Error::HostNotFound => Failed::before(
            unavailable(format!("there is no host of this name: {url}")).help("look at AGENT_MAIL_BASE_URL"),
        ),
        ureq::Error::ConnectionFailed => Failed::before(unavailable(format!("{url} cannot be reached"))),
        // What is said in these places is no HTTP, or not what HTTP allows.
        other => Failed::midway(not_mcp(address, &format!("its answer is not understood ({other})"))),
    }
}

fn unavailable(why: String) -> Error {
    Error::new(ErrorKind::Unavailable, why)
}

/// The connection failed, before or after something was said.
fn lost(url: &str, error: &io::Error) -> Failed {
    // What is wrong with the encryption comes as a failure to read.
    if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        return unencrypted(url, error);
    }
    let text = error.to_string();
    // The resolver has no kind of its own for a name that nobody has.
    if text.contains("failed to lookup address") {
        return Failed::before(
            unavailable(format!("the name of the host in {url} is not known: {text}"))
                .help("look at AGENT_MAIL_BASE_URL, and at the network"),
        );
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Failed::before(
            unavailable(format!("nobody listens at {url}"))
                .help("start forged with the transport http (docs/mcp.md), or set AGENT_MAIL_BASE_URL"),
        ),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::AddrNotAvailable => {
            Failed::before(unavailable(format!("{url} cannot be reached: {error}")))
        }
        _ => Failed::midway(unavailable(format!("the connection to {url} was lost: {error}"))),
    }
}

fn unencrypted(url: &str, error: &rustls::Error) -> Failed {
    let help = match error {
        rustls::Error::InvalidCertificate(_) => {
            "a certificate that the system does not know can be named by SSL_CERT_FILE"
        }
        _ => "look whether the server speaks https there, or http",
    };
    Failed::before(unavailable(format!("no encrypted connection to {url}: {error}")).help(help))
}

/// The server refused by an HTTP status.
pub(super) fn status(address: &Address, status: u16, location: Option<&str>, body: &str) -> Failed {
    let url = &address.url;
    let said = said(address, body);
    let text = |what: &str| format!("{url} {what} (HTTP {status}{said})");
    match status {
        300..=399 => {
            let to = location.map_or("elsewhere".to_string(), |to| format!("to {}", address.hidden(&shortened(to))));
            Failed::before(
                Error::new(ErrorKind::InvalidConfig, text(&format!("redirects {to}, which is not followed")))
                    .help("set AGENT_MAIL_BASE_URL and AGENT_MAIL_PATH to where the server really is"),
            )
        }
        401 => {
            let (what, help) = match &address.token {
                Some(_) => ("refuses the token", format!("compare {TOKEN_VARIABLE} with the server's token")),
                None => ("wants a token", format!("set {TOKEN_VARIABLE}, or use --token-file")),
            };
            Failed::before(Error::new(ErrorKind::Denied, text(what)).help(help))
        }
        403 => Failed::before(Error::new(ErrorKind::Denied, text("does not allow this"))),
        404 | 405 => Failed::before(
            Error::new(ErrorKind::InvalidConfig, text("is no MCP endpoint"))
                .help("look at AGENT_MAIL_BASE_URL and AGENT_MAIL_PATH; some servers have theirs at /api/"),
        ),
        408 | 504 => Failed::midway(Error::new(ErrorKind::Timeout, text("gave up waiting"))),
        413 => Failed::before(Error::new(ErrorKind::TooLarge, text("does not take so large a request"))),
        429 => Failed::before(Error::new(ErrorKind::Backpressure, text("has too much to do")).help("try again later")),
        400..=499 => Failed::before(Error::invalid(text("refuses the request"))),
        _ => Failed::midway(Error::new(ErrorKind::Unavailable, text("failed"))),
    }
}

/// What a refusing server says, behind a status.
fn said(address: &Address, body: &str) -> String {
    let refusal = serde_json::from_str(body).ok().and_then(|message| Refusal::of(&message));
    let text = refusal.map_or_else(|| body.trim().to_string(), |refusal| refusal.message);
    let text = if text.starts_with('<') { words_of_page(&text) } else { text };
    match text.is_empty() {
        true => String::new(),
        false => format!(": {}", shortened(&address.hidden(&text))),
    }
}

/// The beginning of what a page for people says, which tells mostly who is there.
fn words_of_page(page: &str) -> String {
    const MOST: usize = 120;
    let text: Vec<&str> = page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    let words = text.join(" ");
    words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MOST).collect()
}

/// Somebody answers who is no MCP server.
pub(super) fn not_mcp(address: &Address, found: &str) -> Error {
    let found = address.hidden(found);
    Error::new(ErrorKind::InvalidConfig, format!("{} does not answer as an MCP server: {found}", address.url))
        .help("look at AGENT_MAIL_BASE_URL and AGENT_MAIL_PATH")
}
