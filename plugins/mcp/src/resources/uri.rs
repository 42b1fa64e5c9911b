//! The addresses of resources: `resource://{kind}/{identifier}?project={path}&{params}`.
//!
//! Clients write the project in several ways, and each of them is understood: percent-encoded as the contract wants it, as
//! it is, or as its slug; in the query, and for `agents` also as the identifier. A parameter that no resource has is passed
//! over, as upstream does it: addresses are kept and passed on, and outlive what they were made for.

use crate::errors::{Failure, Kind, Result, shown};

/// Where every address begins.
const SCHEME: &str = "resource://";

/// An address, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// What kind of resource.
    pub(crate) kind: String,
    /// Which one; empty when the address does not say.
    pub(crate) identifier: String,
    query: Vec<(String, String)>,
}

impl Address {
    /// Takes an address apart.
    pub(crate) fn parse(uri: &str) -> Result<Address> {
        let unknown = || Failure::new(Kind::UnknownResource, format!("Unknown resource: '{}'", shown(uri)));
        let rest = uri.strip_prefix(SCHEME).ok_or_else(unknown)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (kind, identifier) = place.split_once('/').unwrap_or((place, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let query = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        Ok(Address { kind: kind.to_lowercase(), identifier: decoded(identifier), query: query.collect() })
    }

    /// A parameter that says something.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }

    /// A parameter that is yes or no.
    pub(crate) fn flag(&self, name: &str) -> Result<bool> {
        match self.parameter(name).map(str::to_lowercase).as_deref() {
            None | Some("false" | "0" | "no") => Ok(false),
            Some("true" | "1" | "yes") => Ok(true),
            Some(other) => Err(Failure::argument(format!("{name} must be true or false, got '{}'.", shown(other)))),
        }
    }

    /// A parameter that is a number from 1 to `most`.
    pub(crate) fn number(&self, name: &str, most: u64) -> Result<Option<u64>> {
        let Some(text) = self.parameter(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) if (1..=most).contains(&number) => Ok(Some(number)),
            _ => Err(Failure::argument(format!("{name} must be a number from 1 to {most}, got '{}'.", shown(text)))),
        }
    }

    /// How the project may be meant, the likeliest first; nothing when the address does not say. A `+` may be a blank: some
    /// programs encode it so, and others leave the sign alone.
    pub(crate) fn projects(&self) -> Vec<String> {
        let from_query = self.parameter("project").map(String::from);
        let from_place = (self.kind == "agents").then(|| self.identifier.clone()).filter(|text| !text.is_empty());
        let Some(written) = from_query.or(from_place) else { return Vec::new() };
        let mut candidates = vec![written.clone()];
        if !written.starts_with('/') && written.contains('/') {
            // A slash was lost where an absolute path came behind the one of the address.
            candidates.push(format!("/{written}"));
        }
        if written.contains('+') {
            candidates.push(written.replace('+', " "));
        }
        candidates
    }
}

/// The text without its percent signs. One that is followed by anything but two digits stands for itself.
fn decoded(text: &str) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16)).map(|digit| digit as u8);
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                found.push(high << 4 | low);
                at += 3;
            }
            _ => {
                found.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&found).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(uri: &str) -> Address {
        Address::parse(uri).unwrap()
    }

    #[test]
    fn the_contracts_examples_are_read() {
        let inbox = address("resource://inbox/GreenDog?project=%2Fdata%2Fprojects%2Fbrenner_bot&limit=20");
        assert_eq!((&*inbox.kind, &*inbox.identifier), ("inbox", "GreenDog"));
        assert_eq!(inbox.projects(), ["/data/projects/brenner_bot"]);
        assert_eq!(inbox.number("limit", 1000).unwrap(), Some(20));
        let thread = address("resource://thread/RS-1?project=%2Fhome%2Fuser%2Fmy%20project&include_bodies=true");
        assert_eq!(thread.projects(), ["/home/user/my project"]);
        assert!(thread.flag("include_bodies").unwrap());
        assert_eq!(address("resource://agents/data-projects-brenner-bot").projects(), ["data-projects-brenner-bot"]);
    }

    #[test]
    fn every_way_to_write_a_project_is_understood() {
        for (uri, first) in [
            ("resource://agents?project=%2Fdata%2Fx", "/data/x"),
            ("resource://agents/%2Fdata%2Fx", "/data/x"),
            ("resource://agents//data/x", "/data/x"),
            ("resource://inbox/A?project=/data/x", "/data/x"),
            ("resource://inbox/A?project=data-x", "data-x"),
            ("resource://inbox/A?project=/a%zz", "/a%zz"),
        ] {
            assert_eq!(address(uri).projects()[0], first, "{uri}");
        }
        assert_eq!(address("resource://agents/data/x").projects(), ["data/x", "/data/x"]);
        assert_eq!(address("resource://inbox/A?project=/my+project").projects(), ["/my+project", "/my project"]);
        assert!(address("resource://inbox/A").projects().is_empty());
        assert!(address("resource://agents").projects().is_empty());
    }

    #[test]
    fn wrong_parameters_are_told() {
        let wrong = address("resource://inbox/A?limit=0&urgent_only=perhaps");
        assert!(wrong.number("limit", 1000).is_err() && wrong.flag("urgent_only").is_err());
        assert!(Address::parse("file:///etc/passwd").unwrap_err().message().contains("Unknown resource"));
    }
}
