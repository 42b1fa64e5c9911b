//! What a project's file would make fmail do, for the user who is about to trust it.

use std::path::PathBuf;

use fmail_api::{Error, ErrorKind, Result};

use super::source::{self, Gathered, Origin};
use super::{Settings, plugin};
use crate::trust::{self, Standing, TrustNotes, Trusted};
use crate::{Environment, Project};

/// A project's file, read for the one question whether it is trusted. No other source is read, so that a mistake in one of
/// them does not stand in the way.
#[derive(Debug)]
pub struct Review {
    /// The project's directory.
    pub root: PathBuf,
    /// Its configuration file.
    pub file: PathBuf,
    /// The SHA-256 of the file.
    pub sha256: String,
    /// What the user has said about it so far.
    pub standing: Standing,
    /// What in it counts only when it is trusted, in the order of the file.
    pub asks: Vec<Ask>,
    /// What is wrong with it apart from trust.
    pub mistakes: Vec<Error>,
    text: String,
}

/// Something in a project's file that counts only when it is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The key.
    pub key: String,
    /// Its value; not shown when it is a secret.
    pub value: String,
    /// The line of the file.
    pub line: usize,
    /// What fmail would do with it.
    pub what: &'static str,
}

impl Review {
    /// Reads the project's file.
    pub fn of(environment: &Environment, project: &Project) -> Result<Review> {
        let Some(source) = source::project_file(project)? else {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "this project has no configuration file, so there is nothing to trust: {}",
                    project.root.display()
                ),
            )
            .help("`fmail config path` shows where one would stand"));
        };
        // What cannot be read at all cannot be shown, and so not be trusted.
        source.parsed()?;
        let mut gathered = Gathered::default();
        source.gather(None, &mut gathered);
        let standing = TrustNotes::of(environment).standing(&project.root, &source.text)?;
        let asks = asks(&gathered)?;
        Ok(Review {
            root: project.root.clone(),
            sha256: trust::sha256(&source.text),
            file: source.path,
            standing,
            asks,
            mistakes: gathered.mistakes,
            text: source.text,
        })
    }

    /// Notes that the user trusts the file as it was read here.
    pub fn trust(&self, environment: &Environment) -> Result<Trusted> {
        trust::check_writers(&self.file)?;
        TrustNotes::of(environment).trust(&self.root, &self.file, &self.text)
    }
}

fn asks(gathered: &Gathered) -> Result<Vec<Ask>> {
    let settings = Settings::merged(&gathered.settings)?;
    let line = |origin: &Origin| match origin {
        Origin::File { line, .. } => *line,
        _ => 0,
    };
    let value = |key: &str| settings.entries().into_iter().find(|entry| entry.key == key).map(|entry| entry.value);
    let mut asks: Vec<Ask> = Vec::new();
    for setting in gathered.settings.iter().filter(|setting| setting.key.asks_author()) {
        let Some(what) = consequence(setting.key.name) else { continue };
        let value = value(setting.key.name).unwrap_or_default();
        asks.push(Ask { key: setting.key.name.to_string(), value, line: line(&setting.origin), what });
    }
    for (name, section) in plugin::merged(gathered.parts.clone()) {
        for (key, value, origin) in section.leaves() {
            let what = match key.as_str() {
                "file" => "load this library into fmail, or run this program",
                "command" => "run this command",
                "isolation" if value == "none" => "let the plugin run inside of fmail",
                "sha256" => "believe this file in the place of the one that you have pinned",
                "use" | "isolation" | "timeout" => continue,
                _ => "pass this to the plugin, also if it is a path, a command or an address",
            };
            // Only the plugin's schema says which of its values are secrets, and nothing of a stranger is asked for it.
            asks.push(Ask { key: format!("mail.plugin.{name}.{key}"), value, line: line(origin), what });
        }
    }
    asks.sort_by_key(|ask| ask.line);
    Ok(asks)
}

/// What fmail would do with a key of a trusted file; none for keys that a stranger may set as well.
fn consequence(key: &str) -> Option<&'static str> {
    Some(match key {
        "mail.nudge" => "run these commands for a nudge",
        "mail.plugins.path" => "look for plugins in these directories, and load what is there",
        "mail.tcp.token" | "mail.tcp.token_file" => "prove this token, and ask daemons for it",
        "mail.tcp.tls.authority" => "believe daemons that this certificate vouches for",
        "mail.tcp.tls.certificate" | "mail.tcp.tls.key" => "show this certificate to who connects",
        "mail.tcp.address" => "connect to this address, and listen on it if that is configured",
        "mail.tcp.listen" | "mail.tcp.insecure" => "listen for connections over TCP",
        "mail.relay.enabled" | "mail.relay.peers" => "exchange messages with other hosts",
        "mail.relay.dial_timeout" | "mail.relay.reconnect_interval" => "wait so long for other hosts",
        _ => return None,
    })
}
