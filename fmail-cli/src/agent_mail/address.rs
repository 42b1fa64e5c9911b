//! Where the server is, and what is shown to it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fmail_api::{Error, ErrorKind, Result, parse_duration};
use fmail_host::Environment;
use ureq::http::Uri;

use super::configured::Configured;
use crate::output::note;

/// The variables of the contract.
const BASE_VARIABLE: &str = "AGENT_MAIL_BASE_URL";
const PATH_VARIABLE: &str = "AGENT_MAIL_PATH";
pub(crate) const TOKEN_VARIABLE: &str = "AGENT_MAIL_BEARER_TOKEN";

pub(super) const BASE: &str = "http://127.0.0.1:8765";
const PATH: &str = "/mcp/";

/// A shorter text is not looked for in what a server says: it would be found in innocent words.
const TELLING: usize = 8;

// (Not doc comments: clap would show them as the description of the command.)
// A token has no flag of its own: every user of the machine can read the arguments of a process.
#[derive(Args)]
pub(crate) struct ServerFlags {
    /// The server [env: AGENT_MAIL_BASE_URL] [default: that of the plugin http in your configuration, http://127.0.0.1:8765 without one]
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// The path of its MCP endpoint [env: AGENT_MAIL_PATH] [default: the same, /mcp/]
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// A file with the bearer token, if the server wants one [env: AGENT_MAIL_BEARER_TOKEN, the token itself]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl ServerFlags {
    /// Refuses flags that would be forgotten without another one.
    pub(crate) fn must_be_absent(&self, without: &str) -> Result<()> {
        let given = [
            ("--url", self.url.is_some()),
            ("--path", self.path.is_some()),
            ("--token-file", self.token_file.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Error::invalid(format!("{flag} says nothing without {without}"))),
            None => Ok(()),
        }
    }

    /// Refuses a file with a token where only the name of a variable can be written down.
    pub(crate) fn must_have_no_token_file(&self) -> Result<()> {
        match self.token_file {
            Some(_) => Err(Error::invalid("an agent takes the token from a variable, not from a file")
                .help("name the variable with --token-env")),
            None => Ok(()),
        }
    }
}

// (As above.)
#[derive(Args)]
pub(crate) struct PatienceFlag {
    /// How long the answer may take, all in all
    #[arg(long, value_name = "TIME", default_value = "60s")]
    timeout: String,
}

impl PatienceFlag {
    /// The time.
    pub(crate) fn time(&self) -> Result<Duration> {
        parse_duration(&self.timeout)
    }
}

/// A server.
pub(crate) struct Address {
    /// The whole address of its endpoint.
    pub(crate) url: String,
    /// What it wants to be shown.
    pub(crate) token: Option<Token>,
}

/// A token. It is shown to its server and to nobody else.
pub(crate) struct Token(String);

impl Address {
    /// The server that flags and environment mean; without them that of the configuration, with its token. A server that
    /// is named otherwise never gets that token.
    pub(crate) fn of(flags: &ServerFlags, environment: &Environment, set: &[String]) -> Result<Address> {
        let configured = configured(flags, environment, set)?;
        let url = url(flags, environment, configured.as_ref())?;
        let token = match (Token::of(flags, environment)?, &configured) {
            (None, Some(configured)) => {
                let found = configured.token(environment)?;
                found.map(|(text, from)| Token::checked(&text, &from)).transpose()?
            }
            (token, _) => token,
        };
        Ok(Address { url, token })
    }

    /// Says so when the token would be readable by everybody on the way.
    pub(crate) fn warn_of_plain_token(&self) {
        if self.token.is_some() && !self.is_encrypted() && !self.is_loopback() {
            note(&format!("the token goes to {} unencrypted; use https where others share the network", self.url));
        }
    }

    /// Whether what is said is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.url.starts_with("https://")
    }

    /// Whether it is on this machine, by its address alone.
    pub(crate) fn is_loopback(&self) -> bool {
        let uri: Option<Uri> = self.url.parse().ok();
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost")
            || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// A text of the server without the token.
    pub(crate) fn hidden(&self, text: &str) -> String {
        match &self.token {
            Some(Token(token)) if token.len() >= TELLING => text.replace(token.as_str(), "(token)"),
            _ => text.to_string(),
        }
    }
}

/// Where a server is, for somebody else's configuration.
pub(crate) struct Endpoint {
    /// The whole address.
    pub(crate) url: String,
    /// The configuration says that it wants a token.
    pub(crate) wants_token: bool,
}

impl Endpoint {
    /// The one that flags and environment mean; without them that of the configuration.
    pub(crate) fn of(flags: &ServerFlags, environment: &Environment, set: &[String]) -> Result<Endpoint> {
        let configured = configured(flags, environment, set)?;
        let wants_token = configured.as_ref().is_some_and(Configured::wants_token);
        Ok(Endpoint { url: url(flags, environment, configured.as_ref())?, wants_token })
    }
}

/// The server of the configuration, unless another one is named.
fn configured(flags: &ServerFlags, environment: &Environment, set: &[String]) -> Result<Option<Configured>> {
    let named = flags.url.is_some() || environment.var(BASE_VARIABLE).is_some_and(|base| !base.is_empty());
    if named { Ok(None) } else { Configured::find(environment, set) }
}

/// The address of the endpoint: base and path, the path with a slash at both ends.
fn url(flags: &ServerFlags, environment: &Environment, configured: Option<&Configured>) -> Result<String> {
    let default = configured.map_or(BASE, |configured| &configured.base);
    let (base, from) = chosen(flags.url.as_deref(), "--url", BASE_VARIABLE, default, environment);
    let base = checked(base).map_err(|why| {
        Error::new(ErrorKind::InvalidConfig, format!("{from} is not the address of a server: {why}"))
            .help(format!("write it as {BASE}"))
    })?;
    let default = configured.and_then(|configured| configured.path.as_deref()).unwrap_or(PATH);
    let (path, from) = chosen(flags.path.as_deref(), "--path", PATH_VARIABLE, default, environment);
    let path = path.trim().trim_matches('/');
    let odd = |c: char| !c.is_ascii_graphic() || matches!(c, '?' | '#' | '"' | '<' | '>' | '\\');
    if path.contains(odd) {
        return Err(Error::new(ErrorKind::InvalidConfig, format!("{from} is not a path: `{}`", path.escape_debug()))
            .help(format!("write it as {PATH}")));
    }
    Ok(if path.is_empty() { format!("{base}/") } else { format!("{base}/{path}/") })
}

/// The flag, else the variable, else the default; and which it was.
fn chosen<'a>(
    flag: Option<&'a str>,
    flag_name: &'static str,
    variable: &'static str,
    default: &'a str,
    environment: &'a Environment,
) -> (&'a str, &'static str) {
    let set = || environment.var(variable).filter(|value| !value.is_empty()).map(|value| (value, variable));
    flag.map(|flag| (flag, flag_name)).or_else(set).unwrap_or((default, "the default"))
}

/// The base without its last slash; the error says what is wrong with it. It is not repeated when it may hold a password.
fn checked(base: &str) -> Result<&str, String> {
    let base = base.trim();
    let uri: Uri = base.parse().map_err(|error| format!("`{}` ({error})", base.escape_debug()))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(format!("`{}` begins with neither http:// nor https://", base.escape_debug()));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(format!("it holds a name or a password; a token goes into {TOKEN_VARIABLE}"));
    }
    let port = uri.authority().and_then(|authority| authority.as_str().rsplit_once(':')).map(|(_, port)| port);
    if port.is_some_and(|port| !port.ends_with(']') && port.parse::<u16>().is_err()) {
        return Err(format!("`{}` has a port that is none; there are those up to 65535", base.escape_debug()));
    }
    if base.contains(['?', '#']) {
        return Err(format!("`{}` has more than a host and a path", base.escape_debug()));
    }
    Ok(base.trim_end_matches('/'))
}

impl Token {
    fn of(flags: &ServerFlags, environment: &Environment) -> Result<Option<Token>> {
        let (text, from) = match (&flags.token_file, environment.var(TOKEN_VARIABLE)) {
            (Some(file), _) => {
                let read = fs::read_to_string(file)
                    .map_err(|error| Error::io(format_args!("cannot read the token in {}", file.display()), &error))?;
                (read, file.display().to_string())
            }
            (None, Some(token)) if !token.trim().is_empty() => (token.to_string(), TOKEN_VARIABLE.to_string()),
            (None, _) => return Ok(None),
        };
        Token::checked(&text, &from).map(Some)
    }

    fn checked(text: &str, from: &str) -> Result<Token> {
        let token = text.trim();
        if token.is_empty() || !token.chars().all(|c| c.is_ascii_graphic()) {
            // Without the token: an error goes to logs.
            return Err(Error::new(ErrorKind::InvalidConfig, format!("what is in {from} cannot be a token"))
                .help("a token is one line of letters, digits and punctuation"));
        }
        Ok(Token(token.to_string()))
    }

    /// The header that shows it.
    pub(super) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(vars: &[(&str, &str)]) -> Environment {
        Environment::new("/", vars.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    fn none() -> ServerFlags {
        ServerFlags { url: None, path: None, token_file: None }
    }

    #[test]
    fn the_address_is_base_and_path_with_a_slash_at_its_end() {
        let check = |base: &str, path: &str, expect: &str| {
            let environment = environment(&[(BASE_VARIABLE, base), (PATH_VARIABLE, path)]);
            assert_eq!(url(&none(), &environment, None).unwrap(), expect);
        };
        check("", "", "http://127.0.0.1:8765/mcp/");
        check("http://localhost:1/", "api", "http://localhost:1/api/");
        check("https://mail.example/team", "/mcp", "https://mail.example/team/mcp/");
        check("http://[::1]:8765", "/", "http://[::1]:8765/");
        let flags = ServerFlags { url: Some("http://a:1".into()), path: Some("/x/y".into()), token_file: None };
        let environment = environment(&[(BASE_VARIABLE, "http://b"), (PATH_VARIABLE, "/z/")]);
        assert_eq!(url(&flags, &environment, None).unwrap(), "http://a:1/x/y/", "a flag wins");
    }

    #[test]
    fn what_is_no_address_is_refused_and_a_password_is_not_repeated() {
        for base in [
            "127.0.0.1:8765",
            "ftp://a",
            "http://",
            "http://a b",
            "http://a/?x",
            "http://a/#x",
            "unix:/x",
            "http://a:99999",
        ] {
            let error = url(&none(), &environment(&[(BASE_VARIABLE, base)]), None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{base}");
            assert!(error.to_string().contains(BASE_VARIABLE), "{error}");
        }
        let error = url(&none(), &environment(&[(BASE_VARIABLE, "http://me:secret@a")]), None).unwrap_err();
        assert!(!format!("{error:?}").contains("secret"));
        for path in ["/a b/", "/a?b", "/a#b", "/ä/"] {
            assert!(url(&none(), &environment(&[(PATH_VARIABLE, path)]), None).is_err(), "{path}");
        }
    }

    #[test]
    fn a_token_is_one_word_and_is_never_told() {
        let told = |value: &str| Address::of(&none(), &environment(&[(TOKEN_VARIABLE, value)]), &[]);
        assert!(told(" ").unwrap().token.is_none());
        let address = told("s3cret-token\n").unwrap();
        assert_eq!(address.token.as_ref().unwrap().header(), "Bearer s3cret-token");
        assert_eq!(address.hidden("no: s3cret-token!"), "no: (token)!");
        for wrong in ["two words", "a\r\nX-Evil: b", "ünï"] {
            let error = told(wrong).err().expect("refused");
            assert!(!format!("{error:?}").contains(wrong), "{error:?}");
        }
    }

    #[test]
    fn this_machine_is_told_from_others() {
        for (url, expect) in [
            ("http://127.0.0.1:8765/mcp/", true),
            ("http://127.8.9.1/", true),
            ("http://localhost/", true),
            ("https://[::1]:1/", true),
            ("http://10.0.0.1/", false),
            ("http://localhost.example/", false),
        ] {
            assert_eq!(Address { url: url.into(), token: None }.is_loopback(), expect, "{url}");
        }
    }
}
