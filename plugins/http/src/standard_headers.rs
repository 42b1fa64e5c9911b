//! Headers that repeat what the message says, for who routes requests without reading them.
//!
//! From 2026-07-28 on, a client names the method and the tool or resource in headers too. One that contradicts its message is
//! refused, since somebody on the way may have decided by it. One that says nothing is served: not all clients do.

use axum::http::{HeaderMap, HeaderName};
use fmail_plugin::serde_json::{Value, json};
use fmail_plugin::{Error, ErrorKind};

use crate::refusal::{Refusal, code};

/// The version that a client speaks.
pub const PROTOCOL: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The session that a request belongs to.
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The first version in which a request stands for itself, without a session.
pub const STATELESS: &str = "2026-07-28";
/// Where such a request names its version.
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The version that a request is in, as far as it says; one that is not spoken here is refused.
pub fn protocol(headers: &HeaderMap, message: &Value) -> Result<Option<String>, Refusal> {
    let header = single(headers, &PROTOCOL)?;
    let Some(version) = header else { return Ok(None) };
    if let Some(meta) = message["params"]["_meta"].get(META_VERSION)
        && meta != version
    {
        return Err(mismatch(format!("the header MCP-Protocol-Version says {version:?}, and the message says {meta}")));
    }
    let known = fmail_mcp::versions();
    if known.contains(&version) {
        return Ok(Some(version.to_string()));
    }
    let error =
        Error::invalid(format!("Unsupported protocol version: {version}. Supported versions: {}", known.join(", ")));
    let refusal = Refusal::new(axum::http::StatusCode::BAD_REQUEST, code::UNSUPPORTED_VERSION, error);
    Err(refusal.data(json!({"supported": known, "requested": version})))
}

/// Whether the other headers agree with the message.
pub fn check(headers: &HeaderMap, message: &Value) -> Result<(), Refusal> {
    let method = message["method"].as_str().unwrap_or_default();
    if let Some(named) = single(headers, &METHOD)?
        && named != method
    {
        return Err(mismatch(format!("the header Mcp-Method says {named:?}, and the message says {method:?}")));
    }
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
        _ => return Ok(()),
    };
    let (named, said) = (single(headers, &NAME)?, message["params"][key].as_str());
    match (named, said) {
        (Some(named), Some(said)) if named != said && named != wrapped(said) => {
            Err(mismatch(format!("the header Mcp-Name says {named:?}, and the message says {said:?}")))
        }
        _ => Ok(()),
    }
}

/// The value of a header that may come once.
pub fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    match (first.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text)),
        (_, Some(_)) => Err(mismatch(format!("the header {name} comes more than once"))),
        (Err(_), None) => Err(mismatch(format!("the header {name} has characters that no header has"))),
    }
}

fn mismatch(message: String) -> Refusal {
    let error = Error::new(ErrorKind::InvalidRequest, message);
    Refusal::new(axum::http::StatusCode::BAD_REQUEST, code::HEADER_MISMATCH, error)
}

/// A text as it stands in a header that could not hold it otherwise.
fn wrapped(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut digits = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(group >> (18 - 6 * place)) as usize & 63];
            digits.push(if place > chunk.len() { '=' } else { char::from(digit) });
        }
    }
    format!("=?base64?{digits}?=")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(headers: &[(HeaderName, &str)], message: &Value) -> Result<(), i64> {
        let headers: HeaderMap = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        protocol(&headers, message).and_then(|_| check(&headers, message)).map_err(|refusal| refusal.code())
    }

    #[test]
    fn a_name_may_be_wrapped() {
        for (text, digits) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("é✓", "w6ninJM=")] {
            assert_eq!(wrapped(text), format!("=?base64?{digits}?="));
        }
    }

    #[test]
    fn what_contradicts_the_message_is_refused() {
        let call = json!({"method": "tools/call", "params": {"name": "health_check"}});
        assert_eq!(checked(&[], &call), Ok(()));
        assert_eq!(checked(&[(METHOD, "tools/call"), (NAME, "health_check")], &call), Ok(()));
        assert_eq!(checked(&[(NAME, "=?base64?aGVhbHRoX2NoZWNr?=")], &call), Ok(()));
        for headers in [
            [(METHOD, "tools/list"), (NAME, "health_check")],
            [(METHOD, "tools/call"), (NAME, "send_message")],
            [(METHOD, "tools/call"), (METHOD, "tools/call")],
            [(METHOD, "tools/call"), (NAME, "=?base64?broken?=")],
        ] {
            assert_eq!(checked(&headers, &call), Err(code::HEADER_MISMATCH), "{headers:?}");
        }
        let read = json!({"method": "resources/read", "params": {"uri": "resource://x"}});
        assert_eq!(checked(&[(NAME, "resource://x")], &read), Ok(()));
        assert_eq!(checked(&[(NAME, "resource://y")], &read), Err(code::HEADER_MISMATCH));
    }

    #[test]
    fn a_version_is_known_and_the_same_everywhere() {
        let message = |version: &str| json!({"method": "ping", "params": {"_meta": {META_VERSION: version}}});
        assert_eq!(checked(&[(PROTOCOL, STATELESS)], &message(STATELESS)), Ok(()));
        assert_eq!(checked(&[(PROTOCOL, "2025-06-18")], &json!({"method": "ping"})), Ok(()));
        assert_eq!(checked(&[(PROTOCOL, "2025-06-18")], &message(STATELESS)), Err(code::HEADER_MISMATCH));
        assert_eq!(checked(&[(PROTOCOL, "bogus")], &json!({"method": "ping"})), Err(code::UNSUPPORTED_VERSION));
    }
}
