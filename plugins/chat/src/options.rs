//! How the store is opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fmail_api::{DEFAULT_MAX_MESSAGE_BYTES, Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// The chat file of a project, unless the configuration names another.
const DEFAULT_FILE: &str = ".workplace/chat.md";

/// How a [`ChatStore`](crate::ChatStore) is opened.
#[derive(Debug, Clone)]
pub struct ChatOptions {
    /// The chat file. It is made with the first message if it is missing, and so are the directories above it.
    pub file: PathBuf,
    /// The directory that keeps what a line has no room for.
    pub sidecar: PathBuf,
    /// Where the file has to lie when nobody has named it: a repository that came from elsewhere must not lead out of
    /// itself.
    pub within: Option<PathBuf>,
    /// Whether an acknowledgement is written as a line.
    pub acknowledgements: bool,
    /// The largest message, in bytes of its compact JSON.
    pub max_message_bytes: usize,
    /// How long to wait for other processes.
    pub patience: Duration,
    /// How often a watch looks at the file where the kernel does not wake it.
    pub poll_interval: Duration,
}

impl ChatOptions {
    /// The usual options for this file.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        ChatOptions {
            sidecar: beside(&file),
            file,
            within: None,
            acknowledgements: true,
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            patience: Duration::from_secs(10),
            poll_interval: Duration::from_millis(25),
        }
    }

    /// The options that the plugin's section of the configuration asks for. Relative paths lie in the project.
    pub fn from_config(config: &Value, project: &Path) -> Result<Self> {
        let none = Map::new();
        let fields = match config {
            Value::Null => &none,
            Value::Object(fields) => fields,
            other => return Err(invalid("config", other, "an object")),
        };
        let named =
            fields.get("file").map(|value| path("file", value)).transpose()?.filter(|path| *path != DEFAULT_FILE);
        let mut options = ChatOptions::new(project.join(named.unwrap_or(DEFAULT_FILE)));
        if named.is_none() {
            options.within = Some(project.to_path_buf());
        }
        for (key, value) in fields {
            match key.as_str() {
                "file" => {}
                "sidecar" => options.sidecar = project.join(path("sidecar", value)?),
                "acknowledgements" => {
                    options.acknowledgements =
                        value.as_bool().ok_or_else(|| invalid("acknowledgements", value, "true or false"))?;
                }
                _ => {
                    return Err(Error::new(ErrorKind::InvalidConfig, format!("the chat store has no key `{key}`"))
                        .help("its keys are file, sidecar and acknowledgements"));
                }
            }
        }
        Ok(options)
    }

    /// Refuses a file that was not named and lies outside of the project, by way of a symlink.
    pub(crate) fn check_place(&self) -> Result<()> {
        let Some(root) = self.within.as_ref().and_then(|root| root.canonicalize().ok()) else { return Ok(()) };
        for path in [&self.file, &self.sidecar] {
            let there = path.ancestors().find_map(|path| path.canonicalize().ok());
            if let Some(outside) = there.filter(|there| !there.starts_with(&root)) {
                let text = format!("{} leads out of the project, to {}", path.display(), outside.display());
                return Err(Error::new(ErrorKind::Denied, text).help(
                    "name the file yourself if that is what you want: mail.plugin.chat.config.file in your own \
                           configuration",
                ));
            }
        }
        Ok(())
    }
}

/// Where the sidecar of a chat file is: `.chat.md.fmail` beside `chat.md`.
fn beside(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.fmail"))
}

fn path<'a>(key: &str, value: &'a Value) -> Result<&'a str> {
    value.as_str().filter(|path| !path.is_empty()).ok_or_else(|| invalid(key, value, "a path"))
}

fn invalid(key: &str, found: &Value, allowed: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, format!("the chat store's `{key}` is {found}, it has to be {allowed}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(config: Value) -> Result<ChatOptions> {
        ChatOptions::from_config(&config, Path::new("/project"))
    }

    #[test]
    fn paths_lie_in_the_project_and_the_sidecar_beside_the_file() {
        let options = read(json!({})).unwrap();
        assert_eq!(options.file, Path::new("/project/.workplace/chat.md"));
        assert_eq!(options.sidecar, Path::new("/project/.workplace/.chat.md.fmail"));
        let options = read(json!({"file": "/elsewhere/talk.md", "acknowledgements": false})).unwrap();
        assert_eq!(options.sidecar, Path::new("/elsewhere/.talk.md.fmail"));
        assert!(!options.acknowledgements && options.within.is_none());
        assert_eq!(read(json!({"sidecar": "x"})).unwrap().sidecar, Path::new("/project/x"));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_what_was_found_and_what_is_allowed() {
        for (config, part) in [
            (json!([]), "an object"),
            (json!({"file": ""}), "a path"),
            (json!({"sidecar": 1}), "a path"),
            (json!({"acknowledgements": "no"}), "true or false"),
            (json!({"path": "x"}), "`path`"),
        ] {
            let error = read(config.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{config}");
            assert!(error.to_string().contains(part), "{config}: {error}");
        }
    }
}
