//! Every key, and what it may hold. A key that is not in this table does not exist.

use std::time::Duration;

use figment::value::Value;
use fmail_api::parse_duration;

use super::commands;
use super::document::{Found, Node, shown};
use super::mail::format_duration;
use crate::near::suggestion;
use crate::plugin::PluginName;
use crate::registry::PluginKind;

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
    /// A list of names of this kind, in the order that is wanted.
    Names(PluginKind),
    /// A list of directories.
    Directories,
    /// A list of directories that decides what a daemon may touch.
    Roots,
    /// A text that is never shown, of at least this many bytes; or nothing.
    Secret(usize),
    /// The path of a file, or nothing.
    File,
    /// The path of a file that decides whom to believe, or nothing.
    Credential,
    /// Commands by the name of an agent.
    Commands,
    /// The name of a plugin.
    Name,
    /// A command: the program and its arguments; or nothing.
    Command,
    /// Where a plugin runs: none or process.
    Isolation,
    /// A SHA-256 in hexadecimal digits, or nothing.
    Digest,
}

/// The shortest token. A proof can be tried against guesses by whoever has heard one, so a token must not be guessable.
pub const MIN_TOKEN: usize = 32;

const fn key(name: &'static str, form: Form) -> Key {
    Key { name, alias: None, form }
}

const MILLISECOND: Duration = Duration::from_millis(1);
pub const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// All keys, in the order in which they are shown.
pub static KEYS: [Key; 26] = [
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
    key("mail.transports", Form::Names(PluginKind::Transport)),
    key("mail.relays", Form::Names(PluginKind::Relay)),
    key("mail.plugins.path", Form::Directories),
    key("mail.projects.roots", Form::Roots),
    key("mail.projects.open", Form::Number(1, 10_000)),
    key("mail.tcp.address", Form::Address),
    key("mail.tcp.listen", Form::Switch),
    key("mail.tcp.insecure", Form::Switch),
    key("mail.tcp.token", Form::Secret(MIN_TOKEN)),
    key("mail.tcp.token_file", Form::Credential),
    key("mail.tcp.tls.certificate", Form::Credential),
    key("mail.tcp.tls.key", Form::Credential),
    key("mail.tcp.tls.authority", Form::Credential),
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

    /// Whether it matters who wrote its value. Finding out costs a look at what the user has trusted.
    pub fn asks_author(&self) -> bool {
        use Form::{
            Command, Commands, Credential, Digest, Directories, File, Isolation, Name, Names, Roots, Secret, Store,
        };
        let form = matches!(
            self.form,
            Store
                | Name
                | Names(_)
                | Commands
                | Command
                | Isolation
                | Digest
                | Directories
                | Roots
                | File
                | Credential
                | Secret(_)
        );
        form || self.needs_trust()
    }
}

/// Who wrote a value decides how it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The user or the administrator.
    Owner,
    /// A file inside the project, which the user has trusted as it stands.
    Trusted,
    /// A file inside the project, which may have come with a clone.
    Project,
    /// Such a file, which the user trusted before it changed.
    Changed,
}

/// What to do about what only a trusted file may say.
pub const TRUST: &str =
    "set it in your own file (`fmail config path` shows where); or read the project's file and run `fmail trust`";
const TRUST_AGAIN: &str =
    "the file was trusted and has changed since: read it, and run `fmail trust` again, or set it in your own file";

impl Author {
    /// Whether what is written may have come with a clone.
    pub fn is_stranger(self) -> bool {
        matches!(self, Author::Project | Author::Changed)
    }

    /// What to do about what only a trusted file may say.
    pub fn trust(self) -> &'static str {
        if self == Author::Changed { TRUST_AGAIN } else { TRUST }
    }
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
            Form::Names(kind) => format!("a list of names of {kind}s"),
            Form::Directories | Form::Roots => "a list of absolute paths, or ones that begin with ~/".into(),
            Form::Secret(min) => format!("a text of {min} bytes or more"),
            Form::File | Form::Credential => "an absolute path, or one that begins with ~/".into(),
            Form::Commands => commands::ALLOWED.into(),
            Form::Name => format!("the name of a plugin: {}", PluginName::ALLOWED),
            Form::Command => "a list of texts, the program first".into(),
            Form::Isolation => "none or process".into(),
            Form::Digest => "64 hexadecimal digits".into(),
        }
    }

    /// Reads the text of a variable or a flag as this form would stand in a file. What does not fit stays text and is
    /// refused as such.
    pub fn read(&self, text: &str) -> Found {
        let as_text = || Found::Text(text.to_string());
        match self {
            Form::Switch => text.parse().map_or_else(|_| as_text(), Found::Bool),
            Form::Number(..) => text.parse().map_or_else(|_| as_text(), Found::Integer),
            Form::Addresses | Form::Names(_) | Form::Directories | Form::Roots => Found::List(
                text.split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty())
                    .map(|item| Node { line: 0, value: Found::Text(item.to_string()) })
                    .collect(),
            ),
            Form::Commands => commands::read(text),
            Form::Command => commands::read_one(text),
            Form::Store
            | Form::Word(_)
            | Form::Time(..)
            | Form::Address
            | Form::Secret(_)
            | Form::File
            | Form::Credential
            | Form::Name
            | Form::Isolation
            | Form::Digest => as_text(),
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
            (Form::Command, found) => commands::check_one(found, author),
            (Form::Name, Found::Text(name)) if name.parse::<PluginName>().is_ok() => Ok(name.as_str().into()),
            (Form::Isolation, Found::Text(word)) => check_isolation(word, author),
            (Form::Digest, Found::Text(_)) if author.is_stranger() => Err(not_in_a_project(author)),
            (Form::Digest, Found::Text(text)) if is_digest(text) => Ok(text.as_str().into()),
            (Form::Store, Found::Text(name)) => {
                check_name(PluginKind::Store, name, author).map(|()| name.as_str().into())
            }
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
            (Form::File, Found::Text(_)) if author.is_stranger() => Err(not_in_a_project(author)),
            (Form::Credential, Found::Text(_)) if author != Author::Owner => Err(not_in_any_project()),
            (Form::File | Form::Credential, Found::Text(path)) if path.is_empty() || is_whole_path(path) => {
                Ok(path.as_str().into())
            }
            (Form::Directories, Found::List(_)) if author.is_stranger() => Err(not_in_a_project(author)),
            (Form::Roots, Found::List(_)) if author != Author::Owner => Err(not_in_any_project()),
            (Form::Directories | Form::Roots, Found::List(items)) => texts(items, |path| match is_whole_path(path) {
                true => Ok(()),
                false => Err(refused(None)),
            }),
            (Form::Names(kind), Found::List(items)) => texts(items, |name| check_name(*kind, name, author)),
            (Form::Addresses, Found::List(items)) => {
                items.iter().map(check_address).collect::<Result<Vec<&str>, Wrong>>().map(|list| list.into())
            }
            _ => Err(refused(None)),
        }
    }
}

/// The texts of a list, each checked.
fn texts(items: &[Node], check: impl Fn(&str) -> Result<(), Wrong>) -> Result<Value, Wrong> {
    let line = |item: &Node| (item.line > 0).then_some(item.line);
    let text = |item: &Node| match &item.value {
        Found::Text(text) => {
            check(text).map(|()| text.clone()).map_err(|wrong| Wrong { line: wrong.line.or(line(item)), ..wrong })
        }
        other => {
            Err(Wrong { what: format!("contains {other}; allowed is a list of texts"), help: None, line: line(item) })
        }
    };
    items.iter().map(text).collect::<Result<Vec<String>, Wrong>>().map(Value::from)
}

fn is_whole_path(path: &str) -> bool {
    (path.starts_with('/') || path.starts_with("~/")) && !path.contains('\0')
}

fn is_digest(text: &str) -> bool {
    text.is_empty() || (text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Names are chosen among what is installed. Whether there is such a thing is asked when everything is merged; here, only
/// whether it is a name at all. A path or a command in a project's file could make the program run what a clone brought
/// along.
fn check_name(kind: PluginKind, name: &str, author: Author) -> Result<(), Wrong> {
    let path_or_command =
        |c: char| c.is_whitespace() || matches!(c, '/' | '\\' | '~' | '$' | '|' | ';' | '&' | '`' | ':');
    if author.is_stranger() && (name.contains(path_or_command) || name.starts_with('.') || name.ends_with(".so")) {
        let built_in = match kind.built_in() {
            [] => String::new(),
            names => format!("{}, or ", names.join(" or ")),
        };
        return Err(Wrong {
            what: format!("is the text {}; a project file may not name a path or a command", shown(name)),
            help: Some(format!(
                "a project file chooses a {kind} by its name: {built_in}a plugin that is installed; a file of its own \
                 stands in mail.plugin.<name>.file, and counts after `fmail trust`"
            )),
            line: None,
        });
    }
    match name.parse::<PluginName>() {
        Ok(_) => Ok(()),
        Err(_) => Err(Wrong {
            what: format!("is the text {}; allowed is the name of a {kind}: {}", shown(name), PluginName::ALLOWED),
            help: None,
            line: None,
        }),
    }
}

/// What runs in our own process can do whatever we can, so that is for the user to say.
fn check_isolation(word: &str, author: Author) -> Result<Value, Wrong> {
    match word {
        "none" if author.is_stranger() => Err(not_in_a_project(author)),
        "none" | "process" => Ok(word.into()),
        _ => Err(Wrong {
            what: format!("is the text {}; allowed is none or process", shown(word)),
            help: Some(suggestion(word, ["none", "process"])),
            line: None,
        }),
    }
}

/// A secret is checked without being shown, also where it is wrong.
fn check_secret(found: &Found, min: usize, author: Author) -> Result<Value, Wrong> {
    let wrong = |what: String| Wrong {
        what: format!("{what}; allowed is a text of {min} bytes or more"),
        help: Some("make one with `openssl rand -hex 32`".into()),
        line: None,
    };
    match found {
        Found::Text(_) if author != Author::Owner => Err(not_in_any_project()),
        Found::Text(text) if text.is_empty() || text.len() >= min => Ok(text.as_str().into()),
        Found::Text(text) => Err(wrong(format!("is a text of {} bytes (not shown)", text.len()))),
        _ => Err(wrong("is not a text".into())),
    }
}

/// What came with a clone must not make us load, run or search anything, nor turn off what the user has set.
fn not_in_a_project(author: Author) -> Wrong {
    Wrong {
        what: "stands in a project's file, which may have come with a clone and may not set it".into(),
        help: Some(author.trust().into()),
        line: None,
    }
}

/// Whom we believe, and what a daemon may touch, is one thing for all projects that it serves, so no project decides it,
/// trusted or not.
fn not_in_any_project() -> Wrong {
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
        refused(
            "mail.transports",
            Form::Addresses.read("unix,Carrier"),
            "is the text \"Carrier\"; allowed is the name",
        );
        refused("mail.transports", text("unix"), "allowed is a list of names of transports");
        refused("mail.plugins.path", Form::Addresses.read("/a,b"), "allowed is a list of absolute paths");
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
