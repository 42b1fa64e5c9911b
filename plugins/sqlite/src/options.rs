//! How the store is opened.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fmail_api::{Clock, DEFAULT_MAX_MESSAGE_BYTES, Error, ErrorKind, Result, parse_duration};
use serde_json::{Map, Value};

use crate::SystemClock;

/// The name of the database in the plugin's data directory.
const FILE_NAME: &str = "mail.sqlite";
/// The most reading threads that may be asked for.
const MAX_READERS: u64 = 64;

/// What an answer is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// What was answered survives a power cut: each commit is synced.
    #[default]
    Full,
    /// What was answered survives the end of every process. A power cut may take the last seconds, never more than
    /// that, and never a part of a message.
    Normal,
}

/// How a [`SqliteStore`](crate::SqliteStore) is opened.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The database file. It is created if it is missing, and so is its directory.
    pub path: PathBuf,
    /// The largest message, in bytes of its compact JSON.
    pub max_message_bytes: usize,
    /// How long to wait for other processes that write.
    pub busy_timeout: Duration,
    /// What an answer is worth.
    pub durability: Durability,
    /// The most threads that read at the same time. They are started when they are needed.
    pub readers: usize,
    /// How often a watch looks whether another process has written.
    pub poll_interval: Duration,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// The largest that the database file may become, in pages of 4 KiB. What does not fit is answered as on a full disk.
    pub max_pages: Option<u32>,
}

impl SqliteOptions {
    /// The usual options for this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        SqliteOptions {
            path: path.into(),
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            busy_timeout: Duration::from_secs(10),
            durability: Durability::Full,
            readers: 4,
            poll_interval: Duration::from_millis(50),
            clock: Arc::new(SystemClock),
            max_pages: None,
        }
    }

    /// The options that the plugin's section of the configuration asks for. A relative path, and the default one, lie in
    /// the data directory.
    pub fn from_config(config: &Value, data_dir: &Path) -> Result<Self> {
        let none = Map::new();
        let fields = match config {
            Value::Null => &none,
            Value::Object(fields) => fields,
            other => return Err(invalid("config", other, "an object")),
        };
        let mut options = SqliteOptions::new(data_dir.join(FILE_NAME));
        for (key, value) in fields {
            match key.as_str() {
                "path" => options.path = data_dir.join(path(value)?),
                "durability" => options.durability = durability(value)?,
                "busy_timeout" => options.busy_timeout = duration(value)?,
                "readers" => options.readers = readers(value)?,
                _ => {
                    return Err(Error::new(ErrorKind::InvalidConfig, format!("the sqlite store has no key `{key}`"))
                        .help("its keys are path, durability, busy_timeout and readers"));
                }
            }
        }
        Ok(options)
    }
}

fn path(value: &Value) -> Result<&str> {
    value.as_str().filter(|path| !path.is_empty()).ok_or_else(|| invalid("path", value, "the path of a file"))
}

fn durability(value: &Value) -> Result<Durability> {
    match value.as_str() {
        Some("full") => Ok(Durability::Full),
        Some("normal") => Ok(Durability::Normal),
        _ => Err(invalid("durability", value, "\"full\" or \"normal\"")),
    }
}

fn duration(value: &Value) -> Result<Duration> {
    let wrong = || invalid("busy_timeout", value, "a length of time up to a day, such as \"10s\"");
    let duration = parse_duration(value.as_str().ok_or_else(wrong)?).map_err(|_| wrong())?;
    if duration <= Duration::from_secs(24 * 60 * 60) { Ok(duration) } else { Err(wrong()) }
}

fn readers(value: &Value) -> Result<usize> {
    let number = value.as_u64().filter(|number| (1..=MAX_READERS).contains(number));
    number.map(|number| number as usize).ok_or_else(|| invalid("readers", value, "a number from 1 to 64"))
}

fn invalid(key: &str, found: &Value, allowed: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, format!("the sqlite store's `{key}` is {found}, it has to be {allowed}"))
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("path", &self.path)
            .field("max_message_bytes", &self.max_message_bytes)
            .field("busy_timeout", &self.busy_timeout)
            .field("durability", &self.durability)
            .field("readers", &self.readers)
            .field("poll_interval", &self.poll_interval)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(config: Value) -> Result<SqliteOptions> {
        SqliteOptions::from_config(&config, Path::new("/data"))
    }

    #[test]
    fn every_key_is_read_and_paths_lie_in_the_data_directory() {
        let options = read(json!({})).unwrap();
        assert_eq!(options.path, Path::new("/data/mail.sqlite"));
        assert_eq!((options.durability, options.readers), (Durability::Full, 4));
        let options = read(json!({
            "path": "sub/m.db", "durability": "normal", "busy_timeout": "1m30s", "readers": 64
        }));
        let options = options.unwrap();
        assert_eq!(options.path, Path::new("/data/sub/m.db"));
        assert_eq!((options.durability, options.readers), (Durability::Normal, 64));
        assert_eq!(options.busy_timeout, Duration::from_secs(90));
        assert_eq!(read(json!({"path": "/elsewhere/m.db"})).unwrap().path, Path::new("/elsewhere/m.db"));
        assert_eq!(read(Value::Null).unwrap().path, Path::new("/data/mail.sqlite"));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_what_was_found_and_what_is_allowed() {
        for (config, part) in [
            (json!([]), "an object"),
            (json!({"path": ""}), "the path of a file"),
            (json!({"path": 1}), "the path of a file"),
            (json!({"durability": "none"}), "\"none\""),
            (json!({"busy_timeout": "10"}), "\"10s\""),
            (json!({"busy_timeout": "25h"}), "up to a day"),
            (json!({"readers": 0}), "from 1 to 64"),
            (json!({"readers": 65}), "from 1 to 64"),
            (json!({"pathh": "x"}), "`pathh`"),
        ] {
            let error = read(config.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{config}");
            assert!(error.to_string().contains(part), "{config}: {error}");
        }
    }
}
