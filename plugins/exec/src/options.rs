//! How the store is opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fmail_api::{DEFAULT_MAX_MESSAGE_BYTES, Error, ErrorKind, Result, parse_duration};
use serde_json::{Map, Value};

/// The longest that one call may be allowed to take.
const HOUR: Duration = Duration::from_secs(60 * 60);

/// What is spoken with the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Gas City's contract for mail scripts.
    #[default]
    Gc,
    /// fmail's envelope of JSON.
    Native,
}

/// How many calls a process of the script answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// One.
    #[default]
    Once,
    /// All of them, a line each.
    Lines,
}

/// How an [`ExecStore`](crate::ExecStore) is opened.
#[derive(Debug, Clone)]
pub struct ExecOptions {
    /// The script and its arguments. No shell is between.
    pub command: Vec<String>,
    /// What is spoken with it.
    pub protocol: Protocol,
    /// How many calls a process answers.
    pub mode: Mode,
    /// How long one call may take.
    pub timeout: Duration,
    /// The most bytes of an answer.
    pub max_output: usize,
    /// The most processes at the same time.
    pub parallel: usize,
    /// How often a watch asks the script.
    pub poll: Duration,
    /// Whether `ensure-running` comes before the first call.
    pub ensure_running: bool,
    /// The largest message, in bytes of its compact JSON.
    pub max_message_bytes: usize,
    /// Where the records and the map of ids are kept.
    pub data_dir: PathBuf,
    /// The directory that the script runs in; that of this process when it is not set.
    pub directory: Option<PathBuf>,
}

impl ExecOptions {
    /// The usual options for this script, with this directory for what it has no room for.
    pub fn new<W: Into<String>>(command: impl IntoIterator<Item = W>, data_dir: impl Into<PathBuf>) -> Self {
        ExecOptions {
            command: command.into_iter().map(Into::into).collect(),
            protocol: Protocol::Gc,
            mode: Mode::Once,
            timeout: Duration::from_secs(20),
            max_output: 16 << 20,
            parallel: 8,
            poll: Duration::from_secs(2),
            ensure_running: true,
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            data_dir: data_dir.into(),
            directory: None,
        }
    }

    /// The options that the plugin's section of the configuration asks for.
    pub fn from_config(config: &Value, data_dir: &Path) -> Result<Self> {
        let none = Map::new();
        let fields = match config {
            Value::Null => &none,
            Value::Object(fields) => fields,
            other => return Err(invalid("config", other, "an object")),
        };
        let mut options = ExecOptions::new(Vec::<String>::new(), data_dir);
        for (key, value) in fields {
            match key.as_str() {
                "command" => options.command = command(value)?,
                "protocol" => {
                    options.protocol = choice(key, value, [("gc", Protocol::Gc), ("native", Protocol::Native)])?
                }
                "mode" => options.mode = choice(key, value, [("once", Mode::Once), ("lines", Mode::Lines)])?,
                "timeout" => options.timeout = duration(key, value)?,
                "max_output" => options.max_output = number(key, value, 1024, 1 << 30)?,
                "parallel" => options.parallel = number(key, value, 1, 64)?,
                "poll" => options.poll = duration(key, value)?,
                "ensure_running" => {
                    options.ensure_running = value.as_bool().ok_or_else(|| invalid(key, value, "true or false"))?;
                }
                _ => {
                    return Err(Error::new(ErrorKind::InvalidConfig, format!("the exec store has no key `{key}`")).help(
                        "its keys are command, protocol, mode, timeout, max_output, parallel, poll and ensure_running",
                    ));
                }
            }
        }
        options.check()?;
        Ok(options)
    }

    /// Refuses what cannot work together.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: &str| Error::new(ErrorKind::InvalidConfig, what.to_string());
        match self.command.first() {
            None => Err(wrong("the exec store has no `command`: which script keeps the mail is not known").help(EXAMPLE)),
            Some(program) if program.trim().is_empty() => {
                Err(wrong("the exec store's `command` begins with an empty text; it is the program").help(EXAMPLE))
            }
            Some(program) if program.contains('/') && !program.starts_with('/') => Err(wrong(&format!(
                "the exec store's `command` names the program `{program}`, which would be another one in every directory"
            ))
            .help("write an absolute path, or a name that is found in PATH")),
            _ if self.command.iter().any(|word| word.contains('\0')) => {
                Err(wrong("the exec store's `command` has a NUL, which no argument can have"))
            }
            _ if self.mode == Mode::Lines && self.protocol == Protocol::Gc => {
                Err(wrong("the exec store's `mode` is \"lines\", which the protocol \"gc\" does not know")
                    .help("scripts of Gas City's contract run once per call; write protocol = \"native\" for lines"))
            }
            _ => Ok(()),
        }
    }
}

const EXAMPLE: &str = "write for example command = [\"/usr/local/bin/mail-script\"]";

fn command(value: &Value) -> Result<Vec<String>> {
    let words = value.as_array().map(|words| words.iter().map(|word| word.as_str().map(String::from)).collect());
    words.flatten().ok_or_else(|| invalid("command", value, "a list of texts, the program first").help(EXAMPLE))
}

fn choice<T: Copy, const N: usize>(key: &str, value: &Value, choices: [(&str, T); N]) -> Result<T> {
    let found = choices.iter().find(|(word, _)| value.as_str() == Some(word));
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let words: Vec<String> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        invalid(key, value, &words.join(" or "))
    })
}

fn duration(key: &str, value: &Value) -> Result<Duration> {
    let wrong = || invalid(key, value, "a length of time from 10ms to an hour, such as \"20s\"");
    let duration = parse_duration(value.as_str().ok_or_else(wrong)?).map_err(|_| wrong())?;
    if (Duration::from_millis(10)..=HOUR).contains(&duration) { Ok(duration) } else { Err(wrong()) }
}

fn number(key: &str, value: &Value, min: u64, max: u64) -> Result<usize> {
    let number = value.as_u64().filter(|number| (min..=max).contains(number));
    number.map(|number| number as usize).ok_or_else(|| invalid(key, value, &format!("a number from {min} to {max}")))
}

fn invalid(key: &str, found: &Value, allowed: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, format!("the exec store's `{key}` is {found}, it has to be {allowed}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(config: Value) -> Result<ExecOptions> {
        ExecOptions::from_config(&config, Path::new("/data"))
    }

    #[test]
    fn every_key_is_read() {
        let options = read(json!({
            "command": ["python3", "/x.py"], "protocol": "native", "mode": "lines", "timeout": "1m", "max_output": 2048,
            "parallel": 2, "poll": "500ms", "ensure_running": false
        }));
        let options = options.unwrap();
        assert_eq!(options.command, ["python3", "/x.py"]);
        assert_eq!((options.protocol, options.mode), (Protocol::Native, Mode::Lines));
        assert_eq!((options.timeout, options.poll), (Duration::from_secs(60), Duration::from_millis(500)));
        assert_eq!((options.max_output, options.parallel, options.ensure_running), (2048, 2, false));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_what_was_found_and_what_is_allowed() {
        for (config, expect) in [
            (json!({}), "no `command`"),
            (json!({"command": "x y"}), "a list of texts"),
            (json!({"command": []}), "no `command`"),
            (json!({"command": [""]}), "empty text"),
            (json!({"command": ["./mail.sh"]}), "./mail.sh"),
            (json!({"command": ["x", "a\u{0}"]}), "NUL"),
            (json!({"command": ["x"], "protocol": "gascity"}), "\"gc\" or \"native\""),
            (json!({"command": ["x"], "mode": "lines"}), "does not know"),
            (json!({"command": ["x"], "timeout": "2h"}), "from 10ms to an hour"),
            (json!({"command": ["x"], "timeout": 20}), "from 10ms to an hour"),
            (json!({"command": ["x"], "max_output": 10}), "from 1024"),
            (json!({"command": ["x"], "parallel": 0}), "from 1 to 64"),
            (json!({"command": ["x"], "ensure_running": "no"}), "true or false"),
            (json!({"command": ["x"], "comand": ["y"]}), "no key `comand`"),
        ] {
            let error = read(config.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.message().contains(expect), "{config}: {error}");
        }
    }
}
