//! The host that a request says it is for.
//!
//! A page whose name was made to mean this machine (DNS rebinding) comes with its own name in `Host`. So a request is
//! believed only when it names an address, or a name that nobody else can give to this machine.

use std::net::IpAddr;

use fmail_plugin::{Error, ErrorKind, Result};

/// A name or an address, and perhaps a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName {
    name: String,
    address: Option<IpAddr>,
    port: Option<u16>,
}

impl HostName {
    /// The value of a `Host` header, or what stands between `//` and `/` in a URL; nothing when it is neither.
    pub fn parse(text: &str) -> Option<HostName> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                (address, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
            }
            None => match text.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        let port = port.map(|digits| digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit())));
        let port = match port {
            Some(None) => return None,
            Some(port) => port,
            None => None,
        };
        let address: Option<IpAddr> = name.parse().ok();
        // Only addresses of IPv6 stand in brackets, and only there.
        if text.starts_with('[') != matches!(address, Some(IpAddr::V6(_))) {
            return None;
        }
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if address.is_none() && (name.is_empty() || !name.bytes().all(plain)) {
            return None;
        }
        Some(HostName { name, address, port })
    }

    /// An entry of `hosts`.
    pub fn configured(text: &str) -> Result<HostName> {
        HostName::parse(text).ok_or_else(|| {
            Error::new(ErrorKind::InvalidConfig, format!("`hosts` has {text:?}, which is no name of a host"))
                .help("write a name or an address, with or without a port: mail.example.org, 10.0.0.5:8765, [fd00::1]")
        })
    }

    /// Whether it can only mean this machine.
    pub fn is_loopback(&self) -> bool {
        self.name == "localhost" || self.address.is_some_and(|address| address.is_loopback())
    }

    /// Whether it is this address.
    pub fn is_address(&self, address: IpAddr) -> bool {
        self.address == Some(address)
    }

    /// Whether this entry of the configuration allows that host. Without a port it allows all.
    pub fn covers(&self, host: &HostName) -> bool {
        self.name == host.name && self.address == host.address && (self.port.is_none() || self.port == host.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_read_and_nothing_else() {
        for text in ["localhost", "localhost:1", "LOCALHOST.", "127.0.0.1:8765", "127.9.9.9", "[::1]", "[::1]:80"] {
            assert!(HostName::parse(text).is_some_and(|host| host.is_loopback()), "{text}");
        }
        for text in ["localhost.evil.example", "evil.example", "10.0.0.1", "[fd00::1]:1", "127.0.0.1.evil.example"] {
            assert!(HostName::parse(text).is_some_and(|host| !host.is_loopback()), "{text}");
        }
        for text in ["", ":80", "a b", "u@localhost", "localhost:", "localhost:+1", "localhost:99999", "[::1", "::1"] {
            assert_eq!(HostName::parse(text), None, "{text}");
        }
        for text in ["[localhost]", "[127.0.0.1]", "[::1]x", "a/b", "a,b"] {
            assert_eq!(HostName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_entry_without_a_port_allows_all() {
        let host = |text: &str| HostName::parse(text).unwrap();
        assert!(host("mail.example").covers(&host("MAIL.example:99")));
        assert!(host("mail.example:99").covers(&host("mail.example:99")));
        assert!(!host("mail.example:99").covers(&host("mail.example")));
        assert!(!host("mail.example").covers(&host("x.mail.example")));
    }
}
