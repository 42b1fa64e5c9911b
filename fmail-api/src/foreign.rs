//! Names of neighbours: what another system calls an agent, as an agent name, and back.
//!
//! fmail's own names are `[a-z0-9-]`; others use `gastown/crew-1`, `GreenDog` or `build_bot`. [`AgentName::from_foreign`]
//! gives each of them an agent name of its own, [`AgentName::foreign`] gives the name back as it was written. Both follow
//! from the name alone: nothing is kept, and every host comes to the same result.
//!
//! | foreign | agent |
//! |---|---|
//! | `coder-1` | `coder-1` |
//! | `gastown/crew-1` | `gastown-crew-1--x7s` |
//! | `GreenDog` | `greendog--x0u-5u` |
//! | `build_bot` | `build-bot--x5l` |
//! | `zoë` | `zo---x2heb` |
//!
//! Behind the last `--x` stand the places, counted from 0, at which the readable part differs, each with a letter: `u` a
//! capital, `s` a slash, `l` a low line, `p` a point, `c` a colon, `a` an at sign, `b` a blank, `h` and the code point in
//! hexadecimal anything else. A name of fmail's that already looks like this gets an empty list behind it, so that no two
//! foreign names ever share an agent.

use crate::{AgentName, Error, ErrorKind, Result};

/// Stands between the readable part and the places at which it differs.
const MARK: &str = "--x";

/// Characters with a letter of their own.
const LETTERS: [(char, char); 6] = [('/', 's'), ('_', 'l'), ('.', 'p'), (':', 'c'), ('@', 'a'), (' ', 'b')];

impl AgentName {
    /// The agent that a neighbour calls by this name. No two names lead to the same agent.
    pub fn from_foreign(name: &str) -> Result<AgentName> {
        let own = !name.is_empty() && name.chars().all(is_own);
        let text = if own && decoded(name).is_none() { name.to_string() } else { encoded(name) };
        if name.is_empty() {
            return Err(Error::new(ErrorKind::InvalidAgent, "an agent's name is empty"));
        }
        text.parse().map_err(|_| {
            let start: String = name.chars().take(60).flat_map(char::escape_debug).collect();
            let what = format!("the name `{start}` is too long: as an agent of fmail it has {} characters", text.len());
            Error::new(ErrorKind::InvalidAgent, what)
                .help("a name may have 100 characters; capitals and signs need more")
        })
    }

    /// The name as the neighbour writes it; an agent's own name where no neighbour has another.
    pub fn foreign(&self) -> String {
        decoded(self.as_str()).unwrap_or_else(|| self.as_str().to_string())
    }
}

fn is_own(c: char) -> bool {
    matches!(c, 'a'..='z' | '0'..='9' | '-')
}

fn encoded(name: &str) -> String {
    let mut readable = String::new();
    let mut places = Vec::new();
    for (place, c) in name.chars().enumerate() {
        let known = LETTERS.iter().find(|(sign, _)| *sign == c);
        match (c, known) {
            _ if is_own(c) => readable.push(c),
            ('A'..='Z', _) => {
                readable.push(c.to_ascii_lowercase());
                places.push(format!("{place}u"));
            }
            (_, Some((_, letter))) => {
                readable.push('-');
                places.push(format!("{place}{letter}"));
            }
            _ => {
                readable.push('-');
                places.push(format!("{place}h{:x}", u32::from(c)));
            }
        }
    }
    format!("{readable}{MARK}{}", places.join("-"))
}

/// The foreign name, when the text is exactly what that name is encoded as.
fn decoded(text: &str) -> Option<String> {
    let (readable, places) = text.rsplit_once(MARK)?;
    let mut name: Vec<char> = readable.chars().collect();
    for place in places.split('-').filter(|place| !place.is_empty()) {
        let digits = place.find(|c: char| !c.is_ascii_digit())?;
        let at = name.get_mut(place[..digits].parse::<usize>().ok()?)?;
        let mut kind = place[digits..].chars();
        *at = match (kind.next()?, kind.as_str()) {
            ('u', "") => at.to_ascii_uppercase(),
            ('h', code) => char::from_u32(u32::from_str_radix(code, 16).ok()?)?,
            (letter, "") => LETTERS.iter().find(|(_, known)| *known == letter)?.0,
            _ => return None,
        };
    }
    let name = String::from_iter(name);
    let needed = name.chars().any(|c| !is_own(c)) || decoded(&name).is_some();
    (needed && encoded(&name) == text).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn agent(name: &str) -> String {
        AgentName::from_foreign(name).unwrap().to_string()
    }

    #[test]
    fn names_are_readable_and_lead_back() {
        for (name, expected) in [
            ("coder-1", "coder-1"),
            ("gastown/crew-1", "gastown-crew-1--x7s"),
            ("GreenDog", "greendog--x0u-5u"),
            ("build_bot", "build-bot--x5l"),
            ("zoë", "zo---x2heb"),
            ("a--x0u", "a--x0u--x"),
            ("a--x", "a--x"),
            ("a--x0u--x", "a--x0u--x--x"),
            ("--x", "--x"),
            (" ", "---x0b"),
            ("a--x9u", "a--x9u"),
        ] {
            assert_eq!(agent(name), expected);
            assert_eq!(AgentName::from_foreign(name).unwrap().foreign(), name);
        }
    }

    #[test]
    fn no_two_names_share_an_agent() {
        let alphabet = ['a', 'A', '-', 'x', '0', 'u', '/', '_'];
        let mut names = vec![String::new()];
        let mut seen = BTreeMap::new();
        for _ in 0..6 {
            names = names.iter().flat_map(|name| alphabet.map(|c| format!("{name}{c}"))).collect();
            for name in &names {
                let agent = AgentName::from_foreign(name).unwrap();
                assert_eq!(agent.foreign(), *name);
                assert_eq!(seen.insert(agent, name.clone()), None, "{name}");
            }
        }
        for (name, own) in [("A--x", "a--x--x0u"), ("a--x0u--X", "a--x0u--x--x8u")] {
            assert_eq!(agent(name), own);
        }
    }

    #[test]
    fn what_is_no_name_is_told() {
        let error = AgentName::from_foreign("").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidAgent);
        let error = AgentName::from_foreign(&"A".repeat(60)).unwrap_err();
        assert!(error.message().contains("too long"), "{error}");
    }
}
