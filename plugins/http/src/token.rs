//! The token: where it is kept, and proving that one knows it.

use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fmail_plugin::{Error, ErrorKind, Result as Answer};
use rustix::fs::{Mode, OFlags};

/// The shortest token, as for `mail.tcp.token`.
const SHORTEST: usize = 32;
/// A file with more is something else.
const MOST: u64 = 10_000;

/// The token in a file, by the rule of `mail.tcp.token_file`: it is our own, and nobody else may read it.
pub fn in_file(path: &Path) -> Answer<String> {
    let unusable = |what: &str| {
        Error::new(ErrorKind::InvalidConfig, format!("`token_file` cannot be used: {what} ({})", path.display()))
    };
    let failed = |error: std::io::Error| unusable(&error.to_string());
    // Without blocking: a named pipe must not hang the daemon. What is asked about the file is asked of the opened one.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?);
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(unusable("it is not a regular file"));
    }
    let (user, mode) = (rustix::process::geteuid().as_raw(), metadata.mode() & 0o777);
    if metadata.uid() != user {
        let what = format!("it belongs to user {}, not to us (user {user})", metadata.uid());
        return Err(unusable(&what).help("use a file of your own with mode 0600"));
    }
    if mode & 0o077 != 0 {
        let what = format!("others may use it: its mode is {mode:04o}, allowed is 0600");
        return Err(unusable(&what).help(format!("chmod 600 {}", path.display())));
    }
    let mut text = String::new();
    file.take(MOST).read_to_string(&mut text).map_err(failed)?;
    let token = text.trim();
    if token.len() < SHORTEST || token.contains(char::is_control) {
        let what = format!("its text has {} bytes; a token is one line of {SHORTEST} bytes or more", token.len());
        return Err(unusable(&what).help("make one with `openssl rand -hex 32`"));
    }
    Ok(token.to_string())
}

/// Why a client is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It shows none.
    Missing,
    /// It does not say `Bearer`, and one token.
    Form,
    /// It shows something else.
    Other,
}

/// Looks at the values of the `Authorization` headers.
pub fn check<'a>(token: &str, mut shown: impl Iterator<Item = &'a [u8]>) -> Result<(), Wrong> {
    let first = shown.next().ok_or(Wrong::Missing)?;
    if shown.next().is_some() {
        return Err(Wrong::Form);
    }
    let space = first.iter().position(|byte| *byte == b' ').ok_or(Wrong::Form)?;
    let (scheme, rest) = first.split_at(space);
    if !scheme.eq_ignore_ascii_case(b"Bearer") {
        return Err(Wrong::Form);
    }
    if equal(rest.trim_ascii(), token.as_bytes()) { Ok(()) } else { Err(Wrong::Other) }
}

/// Compares without telling by the time it takes how much was right, nor how long the token is.
fn equal(given: &[u8], token: &[u8]) -> bool {
    let mut differs = u8::from(given.len() != token.len());
    for (byte, own) in given.iter().zip(token.iter().cycle()) {
        differs |= black_box(byte ^ own);
    }
    black_box(differs) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "correct-horse-battery-staple-0042";

    fn checked(values: &[&str]) -> Result<(), Wrong> {
        check(TOKEN, values.iter().map(|value| value.as_bytes()))
    }

    #[test]
    fn the_token_and_nothing_else_opens() {
        for scheme in ["Bearer", "bearer", "BEARER", "Bearer  "] {
            assert_eq!(checked(&[&format!("{scheme} {TOKEN}")]), Ok(()), "{scheme}");
        }
        assert_eq!(checked(&[]), Err(Wrong::Missing));
        let own = format!("Bearer {TOKEN}");
        let double = format!("Bearer {TOKEN}{TOKEN}");
        for wrong in ["Bearer ", &own[..own.len() - 1], &double] {
            assert_eq!(checked(&[wrong]), Err(Wrong::Other), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_bearer_token_is_not_called_a_wrong_token() {
        let own = format!("Bearer {TOKEN}");
        for wrong in ["", "Bearer", TOKEN, &own.replace("Bearer", "Basic")] {
            assert_eq!(checked(&[wrong]), Err(Wrong::Form), "{wrong}");
        }
        assert_eq!(checked(&[&own, &own]), Err(Wrong::Form));
    }
}
