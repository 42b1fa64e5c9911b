//! Counting the lines of a file without holding it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How much is read at once.
pub(crate) const BLOCK: usize = 64 * 1024;

/// How many newlines stand in `from..to`, or before the end of the file when it is shorter.
pub(crate) fn newlines(file: &File, from: u64, to: u64) -> io::Result<u64> {
    let mut block = vec![0; BLOCK];
    let (mut at, mut count) = (from, 0);
    while at < to {
        let wanted = usize::try_from(to - at).map_or(BLOCK, |left| left.min(BLOCK));
        match file.read_at(&mut block[..wanted], at) {
            Ok(0) => break,
            Ok(length) => {
                count += memchr::memchr_iter(b'\n', &block[..length]).count() as u64;
                at += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// How far a scan has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// How many newlines were passed.
    pub(crate) newlines: u64,
    /// Where the byte behind the last of them stands.
    pub(crate) offset: u64,
    /// How many bytes stand behind it. Not known when the scan ended before the file.
    pub(crate) rest: u64,
}

/// Passes this many newlines, or as many as there are.
pub(crate) fn scan(file: &File, newlines: u64) -> io::Result<Scanned> {
    let mut block = vec![0; BLOCK];
    let mut found = Scanned { newlines: 0, offset: 0, rest: 0 };
    while found.newlines < newlines {
        let start = found.offset + found.rest;
        let length = match file.read_at(&mut block, start) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        found.rest += length as u64;
        for at in memchr::memchr_iter(b'\n', &block[..length]) {
            let offset = start + at as u64 + 1;
            found = Scanned { newlines: found.newlines + 1, offset, rest: start + length as u64 - offset };
            if found.newlines == newlines {
                break;
            }
        }
    }
    Ok(found)
}

/// The byte before this offset; nothing at the start of the file.
pub(crate) fn byte_before(file: &File, offset: u64) -> io::Result<Option<u8>> {
    let Some(at) = offset.checked_sub(1) else { return Ok(None) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    Ok(Some(byte[0]))
}
