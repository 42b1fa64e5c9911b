//! The page that a request comes from.
//!
//! A browser lets any page ask any address, this machine's too, and says which page it is. Programs say nothing. So a
//! request that names a page is refused unless the configuration allows that page.

use fmail_plugin::{Error, ErrorKind, Result};

use crate::host_name::HostName;

/// A page as a browser names it: scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// An entry of `origins`.
    pub fn configured(text: &str) -> Result<Origin> {
        Origin::parse(text).ok_or_else(|| {
            Error::new(ErrorKind::InvalidConfig, format!("`origins` has {text:?}, which no browser sends"))
                .help("write scheme, host and port, without a path: http://localhost:3000")
        })
    }

    /// The value of an `Origin` header; nothing when no page is named, as with `null`.
    pub fn parse(text: &str) -> Option<Origin> {
        let (scheme, host) = text.split_once("://")?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        if scheme.is_empty() || !scheme.bytes().all(plain) || HostName::parse(host).is_none() {
            return None;
        }
        Some(Origin(text.to_ascii_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        assert_eq!(Origin::parse("HTTP://Localhost:3000"), Origin::parse("http://localhost:3000"));
        assert!(Origin::parse("chrome-extension://abcdef").is_some());
        for text in ["", "null", "*", "localhost:3000", "http://", "http://a/", "http://a/b", "://a", "http://*"] {
            assert_eq!(Origin::parse(text), None, "{text}");
        }
    }
}
