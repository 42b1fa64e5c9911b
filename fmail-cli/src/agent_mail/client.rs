//! Asking a server.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fmail_api::{Error, ErrorKind, Result};
use rustls::crypto::ring;
use serde_json::{Value, json};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Proxy};

use super::address::Address;
use super::answer::tool_result;
use super::exchange::{Line, Outcome, Session};
use super::failure::not_mcp;

/// The version of MCP that a server is offered which insists on a session. All that is used here is in every version.
const PROTOCOL: &str = "2025-06-18";

/// A client of one server, for as long as its caller has patience.
pub(crate) struct Client {
    agent: Agent,
    address: Address,
    deadline: Instant,
    patience: Duration,
    session: Option<Session>,
}

impl Client {
    /// A client that waits for so long, all in all. Nothing is connected yet.
    pub(crate) fn new(address: Address, patience: Duration) -> Result<Client> {
        // A time too far ahead to be expressed is a year.
        let now = Instant::now();
        let deadline = now.checked_add(patience).unwrap_or(now + Duration::from_secs(31_536_000));
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("fmail/", env!("CARGO_PKG_VERSION")));
        // Nobody stands between this machine and itself.
        config = config.proxy(if address.is_loopback() { None } else { Proxy::try_from_env() });
        if address.is_encrypted() {
            config = config.tls_config(tls()?);
        }
        address.warn_of_plain_token();
        Ok(Client { agent: config.build().new_agent(), address, deadline, patience, session: None })
    }

    /// The definitions of all tools, over all the pages of the list.
    pub(crate) fn tools(&mut self) -> Result<Vec<Value>> {
        let (mut tools, mut seen) = (Vec::new(), HashSet::new());
        let mut params = json!({});
        loop {
            let mut page = self.request("tools/list", params, false)?;
            let Some(Value::Array(found)) = page.get_mut("tools").map(Value::take) else {
                return Err(not_mcp(&self.address, "its list of tools is none"));
            };
            tools.extend(found);
            match page["nextCursor"].as_str() {
                None => return Ok(tools),
                Some(cursor) if seen.insert(cursor.to_string()) => params = json!({"cursor": cursor}),
                Some(_) => return Err(not_mcp(&self.address, "its list of tools begins anew and has no end")),
            }
        }
    }

    /// Calls a tool. One that has failed is an error.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Result<Value> {
        let result = self.request("tools/call", json!({"name": tool, "arguments": arguments}), true)?;
        if !result.is_object() {
            return Err(not_mcp(&self.address, "the result of the tool is not an object"));
        }
        tool_result(result).map_err(|error| self.without_token(&error))
    }

    /// Reads a resource: its contents.
    pub(crate) fn read(&mut self, uri: &str) -> Result<Vec<Value>> {
        let mut result = self.request("resources/read", json!({"uri": uri}), false)?;
        match result.get_mut("contents").map(Value::take) {
            Some(Value::Array(contents)) => Ok(contents),
            _ => Err(not_mcp(&self.address, "there is no resource in its answer")),
        }
    }

    /// Sends a request and gives its result. `changes` says whether it may change something: then an error tells when it is
    /// not known whether it did.
    fn request(&mut self, method: &str, params: Value, changes: bool) -> Result<Value> {
        let id = fresh_id();
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let mut outcome = self.line().ask(&message, &id);
        if let Ok(Outcome::WantsSession(_)) = outcome {
            self.session = Some(self.initialized()?);
            outcome = self.line().ask(&message, &id);
        }
        match outcome.map_err(|failed| failed.into_error(changes))? {
            Outcome::Result(result, _) => Ok(result),
            Outcome::Refused(refusal) => Err(self.without_token(&refusal.into_error())),
            Outcome::WantsSession(failed) => Err(failed.into_error(changes)),
        }
    }

    /// Begins a session with a server that answers nothing without one.
    fn initialized(&self) -> Result<Session> {
        let id = fresh_id();
        let client = json!({"name": "fmail", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params});
        let session = match self.line().ask(&message, &id).map_err(|failed| failed.into_error(false))? {
            Outcome::Result(result, id) => match result["protocolVersion"].as_str() {
                Some(protocol) => Session { id, protocol: protocol.to_string() },
                None => return Err(not_mcp(&self.address, "it names no version of the protocol")),
            },
            Outcome::Refused(refusal) => return Err(self.without_token(&refusal.into_error())),
            Outcome::WantsSession(failed) => return Err(failed.into_error(false)),
        };
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let line = Line { session: Some(&session), ..self.line() };
        line.tell(&ready).map_err(|failed| failed.into_error(false))?;
        Ok(session)
    }

    fn line(&self) -> Line<'_> {
        let (agent, address, session) = (&self.agent, &self.address, self.session.as_ref());
        Line { agent, address, session, deadline: self.deadline, patience: self.patience }
    }

    fn without_token(&self, error: &Error) -> Error {
        Error::new(error.kind(), self.address.hidden(error.message()))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.line().leave();
    }
}

/// Believes what the system believes: its certificates, or those that SSL_CERT_FILE and SSL_CERT_DIR name.
fn tls() -> Result<TlsConfig> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        let why = if why.is_empty() { "the system has none".to_string() } else { why.join("; ") };
        return Err(Error::new(ErrorKind::InvalidConfig, format!("there are no certificates to trust: {why}"))
            .help("install the system's CA certificates, or name a file of them with SSL_CERT_FILE"));
    }
    let certificates = found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned());
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(certificates.collect())))
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build())
}

/// An id that no other request of anybody has: drawn from the system's random source.
fn fresh_id() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("fmail-{:016x}{:016x}", random(), random())
}
