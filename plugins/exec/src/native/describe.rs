//! What a script says about itself.

use std::collections::BTreeSet;

use fmail_api::{Error, ErrorKind, Mark, Result};
use serde_json::Value;

use crate::output::word_for;
use crate::script::{Call, excerpt, excerpt_of};

/// The version of the protocol that this store speaks.
const PROTOCOL: u64 = 1;
/// What every script has to know; the rest can be derived, or is refused.
const CORE: [&str; 4] = ["send", "get", "all", "mark"];

/// The answer to `describe`.
#[derive(Debug)]
pub(super) struct Description {
    pub name: String,
    pub ops: BTreeSet<String>,
    pub features: BTreeSet<String>,
    max_message_bytes: Option<u64>,
}

impl Description {
    pub(super) fn read(call: &Call<'_>, value: &Value) -> Result<Description> {
        let wrong = |name: &str, allowed: &str| {
            let found = value.get(name).map_or("missing".into(), word_for);
            call.error(ErrorKind::Corrupt, format!("answers with a `{name}` that is {found}; it has to be {allowed}"))
        };
        match value.get("protocol").and_then(Value::as_u64) {
            Some(PROTOCOL) => {}
            Some(other) => {
                let what = format!("speaks version {other} of the protocol, this fmail speaks {PROTOCOL}");
                return Err(call.error(ErrorKind::Unsupported, what));
            }
            None => return Err(wrong("protocol", "the number 1")),
        }
        let words = |name: &str| -> Result<BTreeSet<String>> {
            let items = match value.get(name) {
                None | Some(Value::Null) => return Ok(BTreeSet::new()),
                Some(items) => items.as_array().ok_or_else(|| wrong(name, "a list of texts"))?,
            };
            let texts: Option<BTreeSet<String>> = items.iter().map(|item| item.as_str().map(String::from)).collect();
            texts.ok_or_else(|| wrong(name, "a list of texts"))
        };
        let ops = words("ops")?;
        let missing: Vec<String> = CORE.iter().filter(|op| !ops.contains(**op)).map(|op| format!("`{op}`")).collect();
        if !missing.is_empty() {
            let has: Vec<String> = ops.iter().map(|op| format!("`{}`", excerpt_of(op, 30))).collect();
            let what = format!(
                "lacks {}, without which there is no mail; it names {}",
                missing.join(", "),
                if has.is_empty() { "none".into() } else { excerpt(&has.join(", ")) }
            );
            return Err(call
                .error(ErrorKind::Unsupported, what)
                .help("a script has to know send, get, all and mark, and name them under `ops`"));
        }
        Ok(Description {
            name: value.get("name").and_then(Value::as_str).ok_or_else(|| wrong("name", "a text"))?.into(),
            ops,
            features: words("features")?,
            max_message_bytes: value
                .get("limits")
                .and_then(|limits| limits.get("max_message_bytes"))
                .and_then(Value::as_u64),
        })
    }

    /// Whether the script has a notion of a mark. What it does not name it is not asked for.
    pub(super) fn marks(&self, mark: Mark) -> bool {
        match mark {
            Mark::Read | Mark::Unread | Mark::Archived => true,
            Mark::Deleted => self.features.contains("delete"),
            Mark::Unarchived => self.features.contains("unarchive"),
            Mark::Acknowledged => self.features.contains("acknowledge"),
            Mark::Retrieved => false,
        }
    }

    /// Refuses what the script has said to be too large.
    pub(super) fn check_size(&self, script: &str, args: &Value) -> Result<()> {
        let size = args.to_string().len() as u64;
        match self.max_message_bytes {
            Some(limit) if size > limit => Err(Error::new(
                ErrorKind::TooLarge,
                format!("the message has {size} bytes as JSON, the mail script `{script}` takes at most {limit}"),
            )
            .help("write large data to a file and send its path")),
            _ => Ok(()),
        }
    }
}
