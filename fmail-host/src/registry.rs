//! What a name in the configuration can mean without any plugin: the one table of what is built in.

use std::fmt;

/// What a plugin is, and what a key of the configuration asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PluginKind {
    /// Keeps the messages: `mail.store`.
    Store,
    /// Carries requests between a command and the daemon: `mail.transports`.
    Transport,
    /// Exchanges messages with other hosts: `mail.relays`.
    Relay,
}

impl PluginKind {
    /// Every kind.
    pub const ALL: [PluginKind; 3] = [PluginKind::Store, PluginKind::Transport, PluginKind::Relay];

    /// Its word, as in a manifest.
    pub const fn word(self) -> &'static str {
        match self {
            PluginKind::Store => "store",
            PluginKind::Transport => "transport",
            PluginKind::Relay => "relay",
        }
    }

    /// The key of the configuration that names one.
    pub const fn key(self) -> &'static str {
        match self {
            PluginKind::Store => "mail.store",
            PluginKind::Transport => "mail.transports",
            PluginKind::Relay => "mail.relays",
        }
    }

    /// The names that are built in. The relay to peers has no name here: `mail.relay` turns it on.
    pub const fn built_in(self) -> &'static [&'static str] {
        match self {
            PluginKind::Store => &["files", "memory"],
            PluginKind::Transport => &["unix", "tcp"],
            PluginKind::Relay => &[],
        }
    }

    /// Whether this name is built in.
    pub fn has(self, name: &str) -> bool {
        self.built_in().contains(&name)
    }
}

impl fmt::Display for PluginKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The kind that has this name built in, if any.
pub fn built_in(name: &str) -> Option<PluginKind> {
    PluginKind::ALL.into_iter().find(|kind| kind.has(name))
}

/// Whether several processes can have a built-in store open and see the same messages; nothing for any other store, which
/// tells only when it is open.
pub fn is_shared(name: &str) -> Option<bool> {
    match name {
        "files" => Some(true),
        "memory" => Some(false),
        _ => None,
    }
}
