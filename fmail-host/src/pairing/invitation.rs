//! An invitation: one line that one host prints and the other one reads.

use std::fmt;
use std::str::FromStr;

use fmail_api::{Error, Result, Timestamp, hex_sha256};
use fmail_transports::peer::{Fingerprint, HostPort};
use serde::{Deserialize, Serialize};

/// What every invitation begins with, and the version behind it.
const PREFIX: &str = "fmail-invitation-";
const VERSION: &str = "1";
/// How many digits of the SHA-256 stand at the end.
const CHECK: usize = 8;

/// What a host has to know to be paired with another one.
#[derive(Clone, PartialEq, Eq)]
pub struct Invitation {
    /// Where the other host is reached.
    pub address: HostPort,
    /// The project that is exchanged.
    pub project: String,
    /// The pairing's id.
    pub id: String,
    /// What only the two of them know, until it is accepted.
    pub secret: String,
    /// The certificate that the other host shows; without it, TLS is not spoken.
    pub fingerprint: Option<Fingerprint>,
    /// What the other host is called.
    pub host: Option<String>,
    /// Until when it can be accepted.
    pub expires: Timestamp,
}

/// An invitation on its way. Fields that are not known yet are left to a later version.
#[derive(Serialize, Deserialize)]
struct Carried {
    address: String,
    project: String,
    id: String,
    secret: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    expires: Timestamp,
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invitation").field("id", &self.id).field("project", &self.project).finish_non_exhaustive()
    }
}

impl fmt::Display for Invitation {
    /// The whole text, with the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let carried = Carried {
            address: self.address.to_string(),
            project: self.project.clone(),
            id: self.id.clone(),
            secret: self.secret.clone(),
            certificate: self.fingerprint.map(|fingerprint| fingerprint.to_string()),
            host: self.host.clone(),
            expires: self.expires,
        };
        let json = serde_json::to_string(&carried).map_err(|_| fmt::Error)?;
        let checked = format!("{json}{}", check(&json));
        write!(f, "{PREFIX}{VERSION}.{}", encoded(checked.as_bytes()))
    }
}

impl FromStr for Invitation {
    type Err = Error;

    /// Blanks and ends of lines do not count: a terminal may have wrapped the text.
    fn from_str(text: &str) -> Result<Self> {
        let text: String = text.split_whitespace().collect();
        let Some((version, rest)) = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.')) else {
            return Err(Error::invalid(format!("this is not an invitation: one begins with {PREFIX}{VERSION}."))
                .help("`fmail relay invite` on the other host prints one"));
        };
        if version != VERSION {
            return Err(Error::invalid(format!(
                "this invitation has version {}, and this fmail knows {VERSION}",
                version.escape_debug()
            ))
            .help("use the same version of fmail on both hosts"));
        }
        let json = decoded(rest).and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(damaged)?;
        let cut = json.len().checked_sub(CHECK).filter(|cut| json.is_char_boundary(*cut)).ok_or_else(damaged)?;
        let (json, expected) = json.split_at(cut);
        if check(json) != expected {
            return Err(damaged());
        }
        let carried: Carried = serde_json::from_str(json).map_err(|_| damaged())?;
        Ok(Invitation {
            address: carried.address.parse()?,
            project: carried.project,
            id: carried.id,
            secret: carried.secret,
            fingerprint: carried.certificate.map(|text| text.parse()).transpose()?,
            host: carried.host,
            expires: carried.expires,
        })
    }
}

fn damaged() -> Error {
    Error::invalid("this invitation is not whole: a part is missing, or something in it has changed")
        .help("copy the line again, from its beginning to its end")
}

fn check(json: &str) -> String {
    hex_sha256(json.as_bytes())[..CHECK].to_string()
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// RFC 4648's base64url without padding: nothing in it means anything to a shell.
fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(char::from(ALPHABET[(number >> (18 - 6 * place)) as usize & 63]));
        }
    }
    text
}

/// The bytes; nothing when the text is not what [`encoded`] makes.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.as_bytes().chunks(4) {
        let mut number = 0_u32;
        for digit in chunk {
            number = number << 6 | ALPHABET.iter().position(|known| known == digit)? as u32;
        }
        number <<= 6 * (4 - chunk.len());
        let count = match chunk.len() {
            4 => 3,
            3 => 2,
            2 => 1,
            _ => return None,
        };
        bytes.extend_from_slice(&number.to_be_bytes()[1..=count]);
    }
    (encoded(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invitation() -> Invitation {
        Invitation {
            address: "host-a:7465".parse().unwrap(),
            project: "proj-abc123".into(),
            id: "0123456789abcdef0123".into(),
            secret: "5".repeat(64),
            fingerprint: Some(Fingerprint([9; 32])),
            host: Some("höst-a".into()),
            expires: "2026-01-10T15:30:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn an_invitation_reads_back_also_when_it_was_wrapped() {
        let text = invitation().to_string();
        assert!(text.starts_with("fmail-invitation-1.") && !text.contains(char::is_whitespace), "{text}");
        assert_eq!(text.parse::<Invitation>().unwrap(), invitation());
        let wrapped = format!("  {}\r\n  {}\n", &text[..70], &text[70..]);
        assert_eq!(wrapped.parse::<Invitation>().unwrap(), invitation());
        assert!(!format!("{:?}", invitation()).contains("555"));
    }

    #[test]
    fn whatever_is_cut_off_or_changed_is_noticed() {
        let text = invitation().to_string();
        for end in 0..text.len() {
            assert!(text[..end].parse::<Invitation>().is_err(), "cut after {end}");
        }
        for place in PREFIX.len() + 2..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            assert!(String::from_utf8(changed).unwrap().parse::<Invitation>().is_err(), "changed at {place}");
        }
        let newer = text.replacen("-1.", "-2.", 1).parse::<Invitation>().unwrap_err();
        assert!(newer.to_string().contains("version 2"), "{newer}");
        let other = "hello".parse::<Invitation>().unwrap_err();
        assert!(other.to_string().contains("begins with fmail-invitation-1."), "{other}");
    }

    /// The examples of RFC 4648.
    #[test]
    fn base64_is_the_one_of_the_rfc() {
        for (plain, text) in
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE")]
        {
            assert_eq!(
                (encoded(plain.as_bytes()).as_str(), decoded(text).unwrap().as_slice()),
                (text, plain.as_bytes())
            );
        }
        assert_eq!(encoded(&[0xfb, 0xff, 0xfe]), "-__-");
        for wrong in ["Z", "Zg==", "Zh", "Zm9v+", "é"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
