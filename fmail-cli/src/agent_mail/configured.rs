//! The server that the user's own configuration describes: the section of the plugin http.

use std::net::SocketAddr;

use fmail_api::{Error, ErrorKind, Result};
use fmail_host::{Environment, PluginSettings, Settings, token_file};

use crate::session::overrides;

/// The plugin that serves MCP over HTTP.
const PLUGIN: &str = "http";

/// What the section says.
pub(super) struct Configured {
    /// The address, as a URL.
    pub(super) base: String,
    /// The path.
    pub(super) path: Option<String>,
    token: Option<String>,
    token_file: Option<String>,
    section: String,
}

impl Configured {
    /// The server of the configuration, if it has one with an address. No project's file counts: the server is the user's.
    pub(super) fn find(environment: &Environment, set: &[String]) -> Result<Option<Configured>> {
        let settings = Settings::load(environment, None, &overrides(set)?)?;
        let sections: Vec<PluginSettings> =
            settings.plugin_sections().into_iter().filter(|section| section.plugin.as_str() == PLUGIN).collect();
        let served =
            |section: &&PluginSettings| settings.mail.transports.iter().any(|name| *name == *section.name.as_str());
        let Some(section) = sections.iter().find(served).or(sections.first()) else { return Ok(None) };
        let text = |key: &str| section.config[key].as_str().filter(|text| !text.is_empty()).map(String::from);
        Ok(Some(Configured {
            base: base(text("address").as_deref(), section)?,
            path: text("path"),
            token: text("token"),
            token_file: text("token_file"),
            section: section.name.to_string(),
        }))
    }

    /// Whether the server wants a token.
    pub(super) fn wants_token(&self) -> bool {
        self.token.is_some() || self.token_file.is_some()
    }

    /// The token, and where it stands.
    pub(super) fn token(&self, environment: &Environment) -> Result<Option<(String, String)>> {
        let key = |name: &str| format!("mail.plugin.{}.config.{name}", self.section);
        match (&self.token, &self.token_file) {
            (Some(token), _) => Ok(Some((token.clone(), key("token")))),
            (None, Some(file)) => Ok(Some((token_file(file, &key("token_file"), environment)?, file.clone()))),
            (None, None) => Ok(None),
        }
    }
}

/// The URL of the address that the server listens on. Whoever listens everywhere is on this machine too; a port that is
/// chosen anew each time is known to nobody, so that the default is as good as any.
fn base(address: Option<&str>, section: &PluginSettings) -> Result<String> {
    let Some(address) = address else { return Ok(super::address::BASE.to_string()) };
    let mut address: SocketAddr = address.parse().map_err(|_| {
        let key = section.key("config.address");
        Error::new(ErrorKind::InvalidConfig, format!("`{key}` is not an address with a port: {address}"))
            .help("write it as 127.0.0.1:8765, or name the server with --url")
    })?;
    if address.port() == 0 {
        return Ok(super::address::BASE.to_string());
    }
    if address.ip().is_unspecified() {
        let loopback: [std::net::IpAddr; 2] =
            [std::net::Ipv4Addr::LOCALHOST.into(), std::net::Ipv6Addr::LOCALHOST.into()];
        address.set_ip(loopback[usize::from(address.is_ipv6())]);
    }
    Ok(format!("http://{address}"))
}
