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

/// The byte before this offset; nothing at the start of the file.
pub(crate) fn byte_before(file: &File, offset: u64) -> io::Result<Option<u8>> {
    let Some(at) = offset.checked_sub(1) else { return Ok(None) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    Ok(Some(byte[0]))
}
