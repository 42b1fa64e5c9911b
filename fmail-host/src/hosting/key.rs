//! A path as a client writes it, in the one form that stands for all its spellings.

use std::fmt;
use std::path::{Path, PathBuf};

use fmail_api::{Error, Result};

/// The longest path that Linux takes.
const MAX_BYTES: usize = 4096;

/// An absolute path without `.`, `..`, and empty parts.
///
/// `..` takes away the part before it, whatever that is on disk, as a shell's `cd` does: which project is meant must not
/// depend on which links exist today.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProjectKey(String);

impl ProjectKey {
    /// Reads a path; the error says what is wrong with it.
    pub fn parse(path: &Path) -> Result<ProjectKey> {
        let wrong = |what: &str| {
            Err(Error::invalid(format!("a project is named by an absolute path; {path:?} {what}"))
                .help("use the path of the agent's working directory, for example /home/me/app"))
        };
        let Some(text) = path.to_str() else { return wrong("is not UTF-8 text") };
        if !text.starts_with('/') {
            return wrong(if text.is_empty() { "is empty" } else { "is relative" });
        }
        if text.len() > MAX_BYTES {
            return Err(Error::invalid(format!("the path has {} bytes, at most {MAX_BYTES} are allowed", text.len())));
        }
        if text.contains(char::is_control) {
            return wrong("contains a control character");
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        Ok(ProjectKey(format!("/{}", parts.join("/"))))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its text as a path.
    pub fn to_path(&self) -> PathBuf {
        PathBuf::from(&self.0)
    }
}

impl fmt::Display for ProjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn spellings_of_one_path_are_one_key() {
        for (path, key) in [
            ("/col/a", "/col/a"),
            ("/col/a/", "/col/a"),
            ("//col///a//", "/col/a"),
            ("/./col/./a/.", "/col/a"),
            ("/col/b/../a", "/col/a"),
            ("/../../col/a", "/col/a"),
            ("/col/a/..", "/col"),
            ("/", "/"),
            ("/..", "/"),
            ("/col/a b/\u{e9}", "/col/a b/\u{e9}"),
            ("/col/...", "/col/..."),
            ("/col/.a", "/col/.a"),
        ] {
            assert_eq!(ProjectKey::parse(Path::new(path)).unwrap().as_str(), key, "{path}");
        }
    }

    #[test]
    fn what_is_no_absolute_path_is_refused_with_the_reason() {
        let long = format!("/{}", "x".repeat(MAX_BYTES));
        for (path, why) in [
            (OsStr::new(""), "is empty"),
            (OsStr::new("app"), "\"app\" is relative"),
            (OsStr::new("./app"), "is relative"),
            (OsStr::new("~/app"), "is relative"),
            (OsStr::new("C:\\app"), "is relative"),
            (OsStr::new(" /app"), "is relative"),
            (OsStr::new("/a\nb"), "control character"),
            (OsStr::from_bytes(b"/a\xff"), "is not UTF-8"),
            (OsStr::new(&long), "4097 bytes, at most 4096"),
        ] {
            let error = ProjectKey::parse(Path::new(path)).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    /// Every path of up to six parts out of these.
    #[test]
    fn a_key_is_its_own_normal_form_and_means_what_its_path_means() {
        const PARTS: [&str; 5] = ["a", "B", ".", "..", ""];
        for number in 0..PARTS.len().pow(6) {
            let mut rest = number;
            let mut path = String::new();
            for _ in 0..6 {
                path.push('/');
                path.push_str(PARTS[rest % PARTS.len()]);
                rest /= PARTS.len();
            }
            let key = ProjectKey::parse(Path::new(&path)).unwrap();
            assert_eq!(ProjectKey::parse(&key.to_path()).unwrap(), key, "{path}");
            let mut walked = PathBuf::from("/");
            for part in Path::new(&path).components() {
                match part {
                    std::path::Component::ParentDir => drop(walked.pop()),
                    std::path::Component::Normal(name) => walked.push(name),
                    _ => {}
                }
            }
            assert_eq!(key.to_path(), walked, "{path}");
        }
    }
}
