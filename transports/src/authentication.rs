//! Proving a shared token to each other, without telling it.
//!
//! Each side chooses a nonce and proves the token by an HMAC over both nonces, its own role and the project. Whoever records
//! a proof cannot use it again, since the other side's next nonce is another; whoever sends it back has the wrong role.

use std::fmt;

use fmail_api::{Error, Result};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The first line of what is proved. Another way to prove would have another name.
pub const SCHEME: &str = "fmail-auth-1";

/// The first line of what a token is made from when an invitation is claimed.
const CLAIM: &str = "fmail-pair-1";

/// What both sides know and nobody else should.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is called where a daemon knows several.
    name: Option<String>,
    text: String,
}

impl Token {
    /// A token with this text. Whether it is long enough is for the configuration to say.
    pub fn new(text: impl Into<String>) -> Self {
        Token { name: None, text: text.into() }
    }

    /// One of several tokens that a daemon knows. The name is public: a client tells by it which one it will prove.
    pub fn named(name: impl Into<String>, text: impl Into<String>) -> Self {
        Token { name: Some(name.into()), text: text.into() }
    }

    /// The token that an invitation becomes in the hands of one host. The claim is a random number of that host's, and part
    /// of the token's name, `<id>.<claim>`; who invited remembers the first that was proved, so that the invitation
    /// is of no use to anybody who reads it later.
    pub fn claimed(secret: &str, id: &str, claim: &str) -> Self {
        let mut code = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes a key of any length");
        code.update(format!("{CLAIM}\n{id}\n{claim}").as_bytes());
        Token::named(format!("{id}.{claim}"), hex(&code.finalize().into_bytes()))
    }

    /// The text, to be kept where nobody else reads it.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Its public name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Proves the token to the other side of this exchange, in 64 hexadecimal digits.
    pub fn proof(&self, role: Role, exchange: &Exchange<'_>) -> String {
        hex(&self.code(role, exchange).finalize().into_bytes())
    }

    /// Whether this is the proof of that side. Takes as long for a nearly right one as for a wrong one.
    pub fn is_proved_by(&self, proof: &str, role: Role, exchange: &Exchange<'_>) -> bool {
        unhex(proof).is_some_and(|proof| self.code(role, exchange).verify_slice(&proof).is_ok())
    }

    fn code(&self, role: Role, exchange: &Exchange<'_>) -> Hmac<Sha256> {
        let Exchange { client, server, project } = exchange;
        // Every part but the last has one length, so no two exchanges give one text.
        let text = format!("{SCHEME}\n{}\n{client}\n{server}\n{project}", role.as_str());
        let mut code = Hmac::<Sha256>::new_from_slice(self.text.as_bytes()).expect("HMAC takes a key of any length");
        code.update(text.as_bytes());
        code
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(not shown)")
    }
}

/// Which side proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The daemon.
    Server,
    /// Who connects to it.
    Client,
}

impl Role {
    fn as_str(self) -> &'static str {
        match self {
            Role::Server => "server",
            Role::Client => "client",
        }
    }
}

/// What makes one conversation different from all others.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// The client's number.
    pub client: &'a Nonce,
    /// The daemon's number.
    pub server: &'a Nonce,
    /// The id of the project that the conversation is about.
    pub project: &'a str,
}

/// A number that is used once: 64 hexadecimal digits, in small letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nonce(String);

impl Nonce {
    /// A new one, from the system's random source.
    pub fn fresh() -> Result<Nonce> {
        let mut bytes = [0; 32];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
                .map_err(|error| Error::io("the system gives no random numbers", &error.into()))?;
        }
        Ok(Nonce(hex(&bytes)))
    }

    /// The nonce that the other side wrote.
    pub fn parse(text: &str) -> Option<Nonce> {
        unhex(text).map(|_| Nonce(text.to_string()))
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Thirty-two bytes out of 64 digits. Capital letters are no digits here: two texts must not mean one number.
pub(crate) fn unhex(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let digits: &[u8; 64] = text.as_bytes().try_into().ok()?;
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(digit: char) -> Nonce {
        Nonce::parse(&digit.to_string().repeat(64)).unwrap()
    }

    /// Computed with `openssl dgst -sha256 -hmac`; docs/protocol.md has the same numbers.
    #[test]
    fn the_example_of_the_document() {
        let token = Token::new("correct-horse-battery-staple-0042");
        let (client, server) = (nonce('1'), nonce('2'));
        let exchange = Exchange { client: &client, server: &server, project: "proj-abc123" };
        let document = include_str!("../../docs/protocol.md");
        for role in [Role::Server, Role::Client] {
            let proof = token.proof(role, &exchange);
            assert!(document.contains(&proof), "{role:?} {proof}");
        }
        assert!(document.contains(&nonce('1').to_string()) && document.contains(&nonce('2').to_string()));
    }

    #[test]
    fn a_proof_holds_for_its_own_exchange_only() {
        let (token, one, two, three) = (Token::new("t"), nonce('1'), nonce('2'), nonce('3'));
        let exchange = Exchange { client: &one, server: &two, project: "p" };
        let proof = token.proof(Role::Client, &exchange);
        assert!(token.is_proved_by(&proof, Role::Client, &exchange));
        assert!(!token.is_proved_by(&proof, Role::Server, &exchange), "sent back");
        assert!(!Token::new("u").is_proved_by(&proof, Role::Client, &exchange));
        for other in [
            Exchange { client: &three, ..exchange },
            Exchange { server: &three, ..exchange },
            Exchange { project: "q", ..exchange },
            Exchange { client: &two, server: &one, project: "p" },
        ] {
            assert!(!token.is_proved_by(&proof, Role::Client, &other), "{other:?}");
        }
        for wrong in ["", "0", &proof[1..], &proof.to_uppercase(), &"é".repeat(32)] {
            assert!(!token.is_proved_by(wrong, Role::Client, &exchange), "{wrong}");
        }
    }

    #[test]
    fn an_invitation_becomes_another_token_in_other_hands() {
        let one = Token::claimed("secret", "id", "claim");
        assert_eq!(one.name(), Some("id.claim"));
        assert_eq!(one, Token::claimed("secret", "id", "claim"));
        for other in [("other", "id", "claim"), ("secret", "other", "claim"), ("secret", "id", "other")] {
            assert_ne!(Token::claimed(other.0, other.1, other.2).reveal(), one.reveal());
        }
        assert_ne!(one.reveal(), "secret");
    }

    #[test]
    fn nonces_are_fresh_and_read_back_and_a_token_is_never_shown() {
        let (one, two) = (Nonce::fresh().unwrap(), Nonce::fresh().unwrap());
        assert_ne!(one, two);
        assert_eq!(Nonce::parse(&one.to_string()), Some(one));
        assert!(!format!("{:?}", Token::new("secret")).contains("secret"));
    }
}
