//! Every key, and what it may hold. A key that is not in this table does not exist.

use std::time::Duration;

use figment::value::Value;
use fmail_api::parse_duration;

use super::commands;
use super::document::{Found, Node, shown};
use super::mail::format_duration;
use crate::near::suggestion;
use crate::registry;

/// A key of the configuration.
#[derive(Debug)]
pub struct Key {
    /// Its full name, such as `mail.watch.events`.
    pub name: &'static str,
    /// Another name for it.
    pub alias: Option<&'static str>,
    /// What it may hold.
    pub form: Form,
}

/// What a key may hold.
#[derive(Debug)]
pub enum Form {
    /// The name of a store.
    Store,
    /// One of these words.
    Word(&'static [&'static str]),
    /// true or false.
    Switch,
    /// A whole number within these bounds.
    Number(u64, u64),
    /// A length of time within these bounds.
    Time(Duration, Duration),
    /// A list of `host:port`.
    Addresses,
    /// An address of this or another machine, in numbers: `127.0.0.1:7463`.
    Address,
    /// A list of some of these words, in the order that is wanted.
    Words(&'static [&'static str]),
    /// A text that is never shown, of at least this many bytes; or nothing.
    Secret(usize),
    /// The path of a file, or nothing.
    File,
    /// Commands by the name of an agent.
    Commands,
}

/// The shortest token. A proof can be tried against guesses by whoever has heard one, so a token must not be guessable.
pub const MIN_TOKEN: usize = 32;

const fn key(name: &'static str, form: Form) -> Key {
    Key { name, alias: None, form }
}

const MILLISECOND: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// All keys, in the order in which they are shown.
pub static KEYS: [Key; 22] = [
    Key { name: "mail.store", alias: Some("mail.provider"), form: Form::Store },
    key("mail.durability", Form::Word(&["disk", "os"])),
    key("mail.max_message_bytes", Form::Number(128, 64 * 1024 * 1024)),
    key("mail.lock_timeout", Form::Time(MILLISECOND, HOUR)),
    key("mail.strict_recipients", Form::Switch),
    key("mail.watch.events", Form::Switch),
    // Below ten milliseconds a poll would be a busy loop.
    key("mail.watch.poll_interval", Form::Time(Duration::from_millis(10), MINUTE)),
    key("mail.gc.days", Form::Number(1, 36_500)),
    key("mail.nudge", Form::Commands),
    key("mail.transports", Form::Words(&["unix", "tcp"])),
    key("mail.tcp.address", Form::Address),
    key("mail.tcp.listen", Form::Switch),
    key("mail.tcp.insecure", Form::Switch),
    key("mail.tcp.token", Form::Secret(MIN_TOKEN)),
    key("mail.tcp.token_file", Form::File),
    key("mail.tcp.tls.certificate", Form::File),
    key("mail.tcp.tls.key", Form::File),
    key("mail.tcp.tls.authority", Form::File),
    key("mail.relay.enabled", Form::Switch),
    key("mail.relay.peers", Form::Addresses),
    key("mail.relay.dial_timeout", Form::Time(Duration::from_millis(10), HOUR)),
    key("mail.relay.reconnect_interval", Form::Time(Duration::from_millis(10), HOUR)),
];

impl Key {
    /// The key with this name or alias.
    pub fn named(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name || key.alias == Some(name))
    }

    /// Whether this name is a part of the path to a key, and so a section.
    pub fn is_section(name: &str) -> bool {
        KEYS.iter().any(|key| key.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
    }

    /// Every name that may be written, aliases included.
    pub fn all_names() -> impl Iterator<Item = &'static str> + Clone {
        KEYS.iter().flat_map(|key| [Some(key.name), key.alias].into_iter().flatten())
    }

    /// The environment variable of a name: `mail.watch.events` is `FMAIL_WATCH__EVENTS`.
    pub fn variable(name: &str) -> String {
        format!("FMAIL_{}", name.trim_start_matches("mail.").replace('.', "__").to_ascii_uppercase())
    }

    /// Whether its value is never shown.
    pub fn is_secret(&self) -> bool {
        matches!(self.form, Form::Secret(_))
    }

    /// Whether only a trusted file may make the program act on this key, because it would dial an address.
    pub fn needs_trust(&self) -> bool {
        self.name.starts_with("mail.relay.") || self.name.starts_with("mail.tcp.")
    }
}

/// Who wrote a value decides how it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The user or the administrator.
    Owner,
    /// A file inside the project, which may have come with a clone.
    Project,
}

/// What is wrong with a value: the end of the sentence that begins with the key, and what to do.
#[derive(Debug)]
pub struct Wrong {
    pub what: String,
    pub help: Option<String>,
    /// The line, when it is that of an item within the value.
    pub line: Option<usize>,
}

impl Form {
    /// What is allowed, as an error says it.
    fn allowed(&self) -> String {
        match self {
            Form::Store => "the name of a store".into(),
            Form::Word(words) => words.join(" or "),
            Form::Switch => "true or false".into(),
            Form::Number(min, max) => format!("a whole number from {min} to {max}"),
            Form::Time(min, max) => {
                format!("a length of time from {} to {}, such as 2s", format_duration(*min), format_duration(*max))
            }
            Form::Addresses => "a list of addresses host:port".into(),
            Form::Address => "an address such as 127.0.0.1:7463".into(),
            Form::Words(words) => format!("a list of {}", words.join(" and ")),
            Form::Secret(min) => format!("a text of {min} bytes or more"),
            Form::File => "an absolute path, or one that begins with ~/".into(),
            Form::Commands => commands::ALLOWED.into(),
        }
    }

    /// Reads the text of a variable or a flag as this form would stand in a file. What does not fit stays text and is
    /// refused as such.
    pub fn read(&self, text: &str) -> Found {
        let as_text = || Found::Text(text.to_string());
        match self {
            Form::Switch => text.parse().map_or_else(|_| as_text(), Found::Bool),
            Form::Number(..) => text.parse().map_or_else(|_| as_text(), Found::Integer),
            Form::Addresses | Form::Words(_) => Found::List(
                text.split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty())
                    .map(|item| Node { line: 0, value: Found::Text(item.to_string()) })
                    .collect(),
            ),
            Form::Commands => commands::read(text),
            Form::Store | Form::Word(_) | Form::Time(..) | Form::Address | Form::Secret(_) | Form::File => as_text(),
        }
    }

    /// The value to merge, or why it cannot be used.
    pub fn check(&self, found: &Found, author: Author) -> Result<Value, Wrong> {
        if let Form::Secret(min) = self {
            return check_secret(found, *min, author);
        }
        let refused = |help| Wrong { what: format!("is {found}; allowed is {}", self.allowed()), help, line: None };
        match (self, found) {
            (Form::Commands, found) => commands::check(found, author),
            (Form::Store, Found::Text(name)) => check_store(name, author).map(|()| name.as_str().into()),
            (Form::Word(words), Found::Text(word)) if words.contains(&word.as_str()) => Ok(word.as_str().into()),
            (Form::Word(words), Found::Text(word)) => Err(refused(Some(suggestion(word, words.iter().copied())))),
            (Form::Switch, Found::Bool(value)) => Ok((*value).into()),
            (Form::Number(min, max), Found::Integer(number)) => match u64::try_from(*number) {
                Ok(number) if (*min..=*max).contains(&number) => Ok(number.into()),
                _ => Err(refused(None)),
            },
            (Form::Time(min, max), Found::Text(text)) => match parse_duration(text) {
                Ok(time) if (*min..=*max).contains(&time) => Ok(text.as_str().into()),
                Ok(_) => Err(refused(None)),
                Err(error) => Err(refused(error.help_text().map(str::to_string))),
            },
            (Form::Time(..), Found::Integer(number)) => {
                Err(refused(Some(format!("write the unit too, for example \"{number}s\""))))
            }
            (Form::Address, Found::Text(text)) if text.parse::<std::net::SocketAddr>().is_ok() => {
                Ok(text.as_str().into())
            }
            (Form::File, Found::Text(_)) if author == Author::Project => Err(not_in_a_project()),
            (Form::File, Found::Text(path)) if path.is_empty() || path.starts_with('/') || path.starts_with("~/") => {
                Ok(path.as_str().into())
            }
            (Form::Words(words), Found::List(items)) => items
                .iter()
                .map(|item| match &item.value {
                    Found::Text(word) if words.contains(&word.as_str()) => Ok(word.as_str()),
                    Found::Text(word) => Err(refused(Some(suggestion(word, words.iter().copied())))),
                    _ => Err(refused(None)),
                })
                .collect::<Result<Vec<&str>, Wrong>>()
                .map(|list| list.into()),
            (Form::Addresses, Found::List(items)) => {
                items.iter().map(check_address).collect::<Result<Vec<&str>, Wrong>>().map(|list| list.into())
            }
            _ => Err(refused(None)),
        }
    }
}

/// A project file chooses among what is installed, by name; a path or a command in it could make the program run what a
/// clone brought along.
fn check_store(name: &str, author: Author) -> Result<(), Wrong> {
    let path_or_command =
        |c: char| c.is_whitespace() || matches!(c, '/' | '\\' | '~' | '$' | '|' | ';' | '&' | '`' | ':');
    if author == Author::Project && (name.contains(path_or_command) || name.starts_with('.') || name.ends_with(".so")) {
        return Err(Wrong {
            what: format!("is the text {}; a project file may not name a path or a command", shown(name)),
            help: Some(format!("a project file chooses a store by its name: {}", registry::STORES.join(" or "))),
            line: None,
        });
    }
    registry::check_name(name).map_err(|error| Wrong {
        what: format!("is the text {}; {}", shown(name), error.message()),
        help: error.help_text().map(str::to_string),
        line: None,
    })
}

/// A secret is checked without being shown, also where it is wrong.
fn check_secret(found: &Found, min: usize, author: Author) -> Result<Value, Wrong> {
    let wrong = |what: String| Wrong {
        what: format!("{what}; allowed is a text of {min} bytes or more"),
        help: Some("make one with `openssl rand -hex 32`".into()),
        line: None,
    };
    match found {
        Found::Text(_) if author == Author::Project => Err(not_in_a_project()),
        Found::Text(text) if text.is_empty() || text.len() >= min => Ok(text.as_str().into()),
        Found::Text(text) => Err(wrong(format!("is a text of {} bytes (not shown)", text.len()))),
        _ => Err(wrong("is not a text".into())),
    }
}

/// What came with a clone must not decide whom we believe: it could turn off what the user has set.
fn not_in_a_project() -> Wrong {
    Wrong {
        what: "stands in a project's file, which may have come with a clone and may not set it".into(),
        help: Some("set it in your own file, ~/.config/fmail/config.toml, or in the environment".into()),
        line: None,
    }
}

fn check_address(item: &Node) -> Result<&str, Wrong> {
    let wrong = |why: &str| Wrong {
        what: format!("contains {}; {why}", item.value),
        help: Some("write host:port, for example \"host-a:7463\" or \"[2001:db8::1]:7463\"".into()),
        line: (item.line > 0).then_some(item.line),
    };
    let Found::Text(address) = &item.value else { return Err(wrong("an address is a text")) };
    let Some((host, port)) = address.rsplit_once(':') else { return Err(wrong("the port is missing")) };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let good_host = match bare {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_')),
    };
    if !good_host {
        return Err(wrong("the host is not a name or an address"));
    }
    match port.parse::<u16>() {
        Ok(1..) => Ok(address),
        _ => Err(wrong("the port is not a number from 1 to 65535")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(key: &str, found: Found, expect: &str) {
        let wrong = Key::named(key).unwrap().form.check(&found, Author::Owner).unwrap_err();
        assert!(wrong.what.contains(expect), "{wrong:?}");
    }

    #[test]
    fn wrong_values_say_what_was_found_and_what_is_allowed() {
        let text = |text: &str| Found::Text(text.into());
        refused("mail.watch.events", text("yes"), "is the text \"yes\"; allowed is true or false");
        refused("mail.gc.days", Found::Integer(0), "is the number 0; allowed is a whole number from 1 to 36500");
        refused("mail.gc.days", Found::Integer(i128::MAX), "allowed is a whole number");
        refused("mail.gc.days", Found::Bool(true), "is true; allowed");
        refused("mail.watch.poll_interval", text("0s"), "from 10ms to 1m");
        refused("mail.watch.poll_interval", Found::Integer(2), "is the number 2; allowed is a length of time");
        refused("mail.durability", Found::Nothing, "is empty; allowed is disk or os");
        refused("mail.store", Found::List(vec![]), "is a list; allowed is the name of a store");
        refused("mail.relay.peers", text("host:1"), "allowed is a list of addresses");
        refused("mail.tcp.address", text("localhost"), "allowed is an address such as 127.0.0.1:7463");
        refused("mail.transports", Form::Words(&[]).read("unix,carrier"), "allowed is a list of unix and tcp");
    }

    #[test]
    fn a_secret_is_long_enough_and_never_shown() {
        let text = |text: &str| Found::Text(text.into());
        refused("mail.tcp.token", text("too-short"), "is a text of 9 bytes (not shown); allowed is a text of 32 bytes");
        refused("mail.tcp.token", Found::Integer(7), "is not a text");
        let wrong = Form::Secret(32).check(&text("hunter2"), Author::Owner).unwrap_err();
        assert!(!format!("{wrong:?}").contains("hunter2"));
        assert!(Form::Secret(32).check(&text(&"x".repeat(32)), Author::Owner).is_ok());
        refused("mail.tcp.token_file", text("token"), "allowed is an absolute path, or one that begins with ~/");
    }

    #[test]
    fn addresses_are_checked_one_by_one() {
        let check = |text: &str| Form::Addresses.check(&Form::Addresses.read(text), Author::Owner);
        assert!(check("host-a:7463, 10.0.0.1:1 ,[2001:db8::1]:65535").is_ok());
        assert!(check("").is_ok());
        for wrong in ["host", "host:", ":1", "host:0", "host:65536", "a b:1", "2001:db8::1:1", "[x]:1", "http://h:1"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn variables_are_named_after_keys() {
        assert_eq!(Key::variable("mail.watch.poll_interval"), "FMAIL_WATCH__POLL_INTERVAL");
        assert_eq!(Key::variable("mail.provider"), "FMAIL_PROVIDER");
    }
}
