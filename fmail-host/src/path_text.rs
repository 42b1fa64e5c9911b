//! A path in a JSON file of ours, for `#[serde(with)]`.
//!
//! A path is bytes, and JSON holds text. One that is text is written as it is, any other as the list of its bytes: what is
//! read back has to be the same path, and not one that looks like it. What people and programs are shown is not written
//! this way, but by `Path::display`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path as it is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&Path> for Written {
    fn from(path: &Path) -> Self {
        let name: &OsStr = path.as_os_str();
        name.to_str().map_or_else(|| Written::Bytes(name.as_bytes().to_vec()), |text| Written::Text(text.into()))
    }
}

impl From<Written> for PathBuf {
    fn from(written: Written) -> Self {
        match written {
            Written::Text(text) => text.into(),
            Written::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }
    }
}

/// Writes a path.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    Written::from(path).serialize(serializer)
}

/// Reads a path.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Written::deserialize(deserializer).map(PathBuf::from)
}

/// The same for several paths.
pub mod list {
    use super::{Deserialize, Deserializer, Path, PathBuf, Serializer, Written};

    /// Writes paths.
    pub fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path: &PathBuf| Written::from(path as &Path)))
    }

    /// Reads paths.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<Written>::deserialize(deserializer)?.into_iter().map(PathBuf::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Noted {
        #[serde(with = "super")]
        root: PathBuf,
        #[serde(with = "list")]
        all: Vec<PathBuf>,
    }

    fn check(path: &[u8], expect: &str) {
        let path: PathBuf = OsString::from_vec(path.to_vec()).into();
        let noted = Noted { root: path.clone(), all: vec![path] };
        let text = serde_json::to_string(&noted).unwrap();
        assert_eq!(text, format!(r#"{{"root":{expect},"all":[{expect}]}}"#));
        assert_eq!(serde_json::from_str::<Noted>(&text).unwrap(), noted);
    }

    #[test]
    fn a_path_that_is_not_text_is_read_back_as_it_was() {
        check("/a/ä".as_bytes(), r#""/a/ä""#);
        check(b"/n\xff", "[47,110,255]");
    }
}
