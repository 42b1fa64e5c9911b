//! Reading small files that others may have prepared.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use fmail_api::{Error, ErrorKind, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// No file that is read here has a reason to be larger.
const MAX_BYTES: u64 = 1_000_000;

/// Whether a symbolic link at the end of the path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Followed: the user's own files, which are often links into a collection of settings.
    Follow,
    /// Refused: files that came with a project.
    Refuse,
}

/// The text of a small regular file; nothing when there is no such file. `kind` is the kind of the error when the file
/// is there and cannot be used.
///
/// Opened without blocking, so that a named pipe in a hostile project cannot hang a command.
pub fn read_small(path: &Path, links: Links, kind: ErrorKind) -> Result<Option<String>> {
    let wrong = |what: String| Error::new(kind, what).context("file", path.display());
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let mut file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(Errno::LOOP) if links == Links::Refuse => {
            return Err(wrong("this is a symbolic link, and links inside a project are not followed".into())
                .help("put the file itself in its place"));
        }
        Err(errno) => return Err(unreadable(path, &errno.into())),
    };
    let metadata = file.metadata().map_err(|error| unreadable(path, &error))?;
    if !metadata.is_file() {
        return Err(wrong("this is not a regular file".into()));
    }
    let mut bytes = Vec::with_capacity(metadata.len().min(MAX_BYTES) as usize + 1);
    (&mut file).take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(wrong(format!("the file has more than {MAX_BYTES} bytes, which is the most that is read")));
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count() + 1;
        wrong(format!("line {line} is not UTF-8 text"))
    })
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    // A directory that may not be entered hides whether the file is there at all.
    let directory = path.parent().filter(|directory| std::fs::symlink_metadata(directory.join(".")).is_err());
    Error::io(format_args!("cannot read {}", directory.unwrap_or(path).display()), error)
        .help("ask its owner for permission to read it, or set FMAIL_ROOT to use another project")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_is_nothing_and_the_rest_is_text_or_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let read = |links| read_small(&path, links, ErrorKind::Corrupt);
        assert_eq!(read(Links::Refuse).unwrap(), None);
        assert_eq!(read_small(&path.join("y"), Links::Follow, ErrorKind::Corrupt).unwrap(), None);

        std::fs::write(&path, "a\n\u{fc}").unwrap();
        assert_eq!(read(Links::Refuse).unwrap().as_deref(), Some("a\n\u{fc}"));
        assert_eq!(read_small(&path.join("y"), Links::Follow, ErrorKind::Corrupt).unwrap(), None);

        std::fs::write(&path, b"a\n\xff").unwrap();
        let error = read(Links::Refuse).unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("line 2"), "{error}");

        std::fs::write(&path, vec![b'#'; MAX_BYTES as usize + 1]).unwrap();
        assert!(read(Links::Refuse).unwrap_err().to_string().contains("1000000 bytes"));
        std::fs::write(&path, vec![b'#'; MAX_BYTES as usize]).unwrap();
        assert!(read(Links::Refuse).is_ok());
    }

    #[test]
    fn links_pipes_and_directories() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        std::fs::write(&target, "text").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert_eq!(read_small(&link, Links::Follow, ErrorKind::Corrupt).unwrap().as_deref(), Some("text"));
        assert!(
            read_small(&link, Links::Refuse, ErrorKind::Corrupt).unwrap_err().to_string().contains("symbolic link")
        );

        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(read_small(&pipe, Links::Refuse, ErrorKind::Corrupt).unwrap_err().to_string().contains("regular file"));
        assert!(read_small(dir.path(), Links::Refuse, ErrorKind::Corrupt).unwrap_err().to_string().contains("regular"));
    }
}
