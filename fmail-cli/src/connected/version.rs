//! Two sides that were not installed together.

use std::cmp::Ordering;

use fmail_api::{Error, ErrorKind, Hello, PROTOCOL_VERSION};

/// Our version.
const OURS: &str = env!("CARGO_PKG_VERSION");

/// Whether the daemon speaks a protocol that we know. A daemon that still knew ours would have answered with it.
pub(super) fn speaks_ours(hello: &Hello) -> Result<(), Error> {
    if hello.protocol <= PROTOCOL_VERSION {
        return Ok(());
    }
    let text = format!(
        "forged {} speaks protocol {}, and fmail {OURS} knows {PROTOCOL_VERSION} and no newer one",
        hello.version, hello.protocol
    );
    Err(Error::new(ErrorKind::Unsupported, text).help("upgrade fmail"))
}

/// Says which side is the older one when a daemon does not know what it was asked.
pub(super) fn explained(error: Error, hello: Option<&Hello>) -> Error {
    let Some(hello) = hello else { return error };
    let older = older(hello);
    let not_known = error.kind() == ErrorKind::InvalidRequest && older.is_some();
    if !not_known && hello.protocol <= PROTOCOL_VERSION {
        return error;
    }
    let (theirs, protocol) = (&hello.version, hello.protocol);
    let text = format!(
        "{} (forged has version {theirs} and protocol {protocol}, fmail has {OURS} and {PROTOCOL_VERSION})",
        error.message()
    );
    Error::new(error.kind(), text).help(match older {
        Some(side) => format!("upgrade {side}"),
        None => "upgrade the older of the two".into(),
    })
}

/// The program that is older, if one is.
fn older(hello: &Hello) -> Option<&'static str> {
    let theirs = (hello.protocol, numbers(&hello.version));
    match theirs.cmp(&(PROTOCOL_VERSION, numbers(OURS))) {
        Ordering::Less => Some("forged"),
        Ordering::Equal => None,
        Ordering::Greater => Some("fmail"),
    }
}

/// The numbers of a version, so that 0.10 comes behind 0.9.
fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(version: &str, protocol: u32) -> Hello {
        let project = serde_json::json!({"id": "p", "created": "2026-01-10T15:00:00Z"});
        let project = serde_json::from_value(project).unwrap();
        Hello {
            version: version.into(),
            protocol,
            operations: Vec::new(),
            project,
            store_id: String::new(),
            node: None,
        }
    }

    #[test]
    fn the_older_side_is_named() {
        let help = |version: &str, protocol| {
            let error = explained(Error::invalid("unknown command"), Some(&hello(version, protocol)));
            error.help_text().map(str::to_string)
        };
        assert_eq!(help("0.0.9", PROTOCOL_VERSION).as_deref(), Some("upgrade forged"));
        assert_eq!(help("0.10.0", PROTOCOL_VERSION).as_deref(), Some("upgrade fmail"));
        assert_eq!(help("0.0.1", PROTOCOL_VERSION + 1).as_deref(), Some("upgrade fmail"));
        assert_eq!(help(OURS, PROTOCOL_VERSION), None);
        let other = explained(Error::not_found("nobody"), Some(&hello("0.10.0", PROTOCOL_VERSION)));
        assert_eq!(other.message(), "nobody");
    }

    #[test]
    fn a_protocol_that_we_do_not_know_is_not_ours() {
        assert!(speaks_ours(&hello("9.0.0", PROTOCOL_VERSION)).is_ok());
        assert_eq!(speaks_ours(&hello("9.0.0", PROTOCOL_VERSION + 1)).unwrap_err().help_text(), Some("upgrade fmail"));
    }
}
