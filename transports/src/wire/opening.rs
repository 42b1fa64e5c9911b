//! The lines with which both sides prove a token, before anything else is said.

use fmail_api::{Context, HelloRequest, Request, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Call, ReqId, outgoing, parse};
use crate::authentication::{Nonce, SCHEME, Token};

/// What a line says to a daemon that wants a token.
pub struct Opening {
    /// The caller's own name for the request.
    pub req_id: Option<ReqId>,
    /// The nonce of a `hello`.
    pub nonce: Option<Nonce>,
    /// Which token a `hello` will prove, where it is one that has a name.
    pub key: Option<String>,
    /// The proof of an `auth`.
    pub proof: Option<String>,
    /// The request; an `auth` is none.
    pub call: Result<Call>,
}

/// Understands a line for a daemon that wants a token.
pub fn opening(line: &[u8]) -> Opening {
    let incoming = parse(line);
    let fields: Value = serde_json::from_slice(line).unwrap_or_default();
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let auth = text("cmd") == Some("auth");
    Opening {
        req_id: incoming.req_id,
        nonce: text("nonce").and_then(Nonce::parse),
        key: text("key").map(str::to_string),
        proof: auth.then(|| text("proof").unwrap_or_default().to_string()),
        call: incoming.call,
    }
}

/// A daemon's answer to a `hello` with a nonce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    scheme: String,
    nonce: String,
    /// The daemon's own proof.
    pub proof: String,
}

impl Challenge {
    /// The challenge of a daemon.
    pub fn new(nonce: Nonce, proof: String) -> Self {
        Challenge { scheme: SCHEME.into(), nonce: nonce.to_string(), proof }
    }

    /// The challenge in a daemon's answer, with its nonce; nothing when there is none that we understand.
    pub fn within(answer: &mut super::outgoing::Fields) -> Option<(Challenge, Nonce)> {
        let challenge: Challenge = serde_json::from_value(answer.remove("auth")?).ok()?;
        let nonce = Nonce::parse(&challenge.nonce)?;
        (challenge.scheme == SCHEME).then_some((challenge, nonce))
    }
}

/// The `hello` of a client that wants the daemon to prove the token.
pub fn hello_with_nonce(context: &Context, hello: HelloRequest, nonce: &Nonce, token: &Token) -> Result<String> {
    let mut fields = vec![("nonce", json!(nonce.to_string()))];
    fields.extend(token.name().map(|name| ("key", json!(name))));
    outgoing::line(context, &Request::Hello(hello), "hello", &fields)
}

/// The client's proof.
pub fn auth(proof: &str) -> String {
    format!("{}\n", json!({"cmd": "auth", "proof": proof, "req_id": "auth"}))
}
