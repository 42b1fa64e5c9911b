//! Proving that one knows the token.

use std::hint::black_box;

/// Why a client is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It shows none.
    Missing,
    /// It shows something else.
    Other,
}

/// Looks at the values of the `Authorization` headers.
pub fn check<'a>(token: &str, mut shown: impl Iterator<Item = &'a [u8]>) -> Result<(), Wrong> {
    let first = shown.next().ok_or(Wrong::Missing)?;
    if shown.next().is_some() {
        return Err(Wrong::Other);
    }
    let space = first.iter().position(|byte| *byte == b' ').ok_or(Wrong::Other)?;
    let (scheme, rest) = first.split_at(space);
    if !scheme.eq_ignore_ascii_case(b"Bearer") {
        return Err(Wrong::Other);
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
        for wrong in ["", "Bearer", "Bearer ", TOKEN, &own[..own.len() - 1], &double, &own.replace("Bearer", "Basic")] {
            assert_eq!(checked(&[wrong]), Err(Wrong::Other), "{wrong}");
        }
        assert_eq!(checked(&[&own, &own]), Err(Wrong::Other));
    }
}
