//! What was sent and what was seen, as a ledger for the checker.
//!
//! The checker itself is `checker.py`: a program of its own, with nothing but Python's standard library. What our code reads is
//! not asked, because our code is what is examined. Here its ledger is written, and its findings are read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// A message as somebody sent it or as a watch showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The id.
    pub id: String,
    /// Who sent it.
    pub from: String,
    /// Its mailboxes: topics, or `@` and an agent.
    pub to: Vec<String>,
    /// What no other message has.
    pub marker: String,
    /// [`checksum`] of the body: a long run would not fit into memory with the bodies themselves.
    pub sum: u32,
}

impl Message {
    /// The message in a JSON object, as it stands in a file and on a watch.
    pub fn of(value: &Value) -> Result<Message, String> {
        let text = |field: &Value, name: &str| match field.as_str() {
            Some(text) => Ok(text.to_string()),
            None => Err(format!("has no `{name}`: {value}")),
        };
        let body = value.get("body").ok_or_else(|| format!("has no `body`: {value}"))?;
        let more = ["recipients", "cc"].into_iter().flat_map(|list| value[list].as_array().into_iter().flatten());
        let mut to = vec![text(&value["to"], "to")?];
        to.extend(more.filter_map(Value::as_str).map(String::from));
        Ok(Message {
            id: text(&value["id"], "id")?,
            from: text(&value["from"], "from")?,
            to,
            marker: text(&body["marker"], "body.marker")?,
            sum: checksum(body),
        })
    }

    /// The same of a message that was just acknowledged.
    pub fn acknowledged(id: &str, from: &str, to: &[&str], body: &Value) -> Message {
        let marker = body["marker"].as_str().unwrap_or_else(|| panic!("a body without a marker: {body}")).to_string();
        let to = to.iter().map(ToString::to_string).collect();
        Message { id: id.into(), from: from.into(), to, marker, sum: checksum(body) }
    }
}

/// The CRC-32 of a value as JSON without spaces, as zlib has it.
pub fn checksum(value: &Value) -> u32 {
    const TABLE: [u32; 256] = {
        let (mut table, mut byte) = ([0; 256], 0);
        while byte < 256 {
            let (mut entry, mut bit) = (byte as u32, 0);
            while bit < 8 {
                entry = if entry & 1 == 1 { 0xedb8_8320 ^ (entry >> 1) } else { entry >> 1 };
                bit += 1;
            }
            table[byte] = entry;
            byte += 1;
        }
        table
    };
    let fold = |sum: u32, byte: u8| TABLE[(sum as u8 ^ byte) as usize] ^ (sum >> 8);
    !value.to_string().bytes().fold(!0, fold)
}

/// How a message came into the project, and what is promised about it; `checker.py` says what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A program of ours acknowledged it.
    Acknowledged,
    /// Written into the directory by hand, with an id of its time.
    ByHand,
    /// Written by hand with an id of the past.
    DatedBack,
    /// Written by hand, so old that `gc` has to remove it.
    Outdated,
    /// Acknowledged, and the last of its mailbox on its host.
    Farewell,
}

impl Origin {
    fn name(self) -> &'static str {
        match self {
            Origin::Acknowledged => "acknowledged",
            Origin::ByHand => "by_hand",
            Origin::DatedBack => "dated_back",
            Origin::Outdated => "outdated",
            Origin::Farewell => "farewell",
        }
    }
}

/// What one sender did, in its order.
#[derive(Debug, Clone)]
pub struct Journal {
    /// On which host.
    pub host: usize,
    /// How its messages came in.
    pub origin: Origin,
    /// Its messages.
    pub sent: Vec<Message>,
}

/// What one watch showed, in its order.
#[derive(Debug, Clone)]
pub struct Watched {
    /// On which host.
    pub host: usize,
    /// Its name in what is reported.
    pub name: String,
    /// On whose behalf it watched.
    pub agent: String,
    /// The mailbox that it watched; without one, all topics and the agent's own.
    pub target: Option<String>,
    /// What it showed.
    pub seen: Vec<Message>,
}

/// Something that an agent did with a message, and that was confirmed.
#[derive(Debug, Clone)]
pub struct Mark {
    /// On which host.
    pub host: usize,
    /// Whose mail it is.
    pub agent: String,
    /// `read`, `acked` or `archived`.
    pub what: &'static str,
    /// The message.
    pub marker: String,
}

/// A folder as an agent sees it in the end.
#[derive(Debug, Clone)]
pub struct Listed {
    /// On which host.
    pub host: usize,
    /// Whose mail it is.
    pub agent: String,
    /// `unread`, `open` or `archived`.
    pub folder: &'static str,
    /// The messages in it.
    pub markers: Vec<String>,
}

/// Everything that happened.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Who sent.
    pub journals: Vec<Journal>,
    /// Who watched.
    pub watches: Vec<Watched>,
    /// What agents did with their mail.
    pub marks: Vec<Mark>,
    /// What they see of it.
    pub listed: Vec<Listed>,
}

impl Account {
    /// How many messages came in each way.
    pub fn counts(&self) -> BTreeMap<Origin, usize> {
        let mut counts = BTreeMap::new();
        self.journals.iter().for_each(|journal| *counts.entry(journal.origin).or_default() += journal.sent.len());
        counts
    }

    fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for (sender, journal) in self.journals.iter().enumerate() {
            for message in &journal.sent {
                let line = json!({"op": "sent", "sender": sender, "origin": journal.origin.name(), "host": journal.host,
                    "id": message.id, "from": message.from, "to": message.to, "marker": message.marker,
                    "sum": message.sum});
                writeln!(file, "{line}")?;
            }
        }
        for (number, watched) in self.watches.iter().enumerate() {
            let Watched { host, name, agent, target, seen } = watched;
            let line = json!({"op": "watch", "watch": number, "name": name, "host": host, "agent": agent,
                "target": target});
            writeln!(file, "{line}")?;
            for message in seen {
                let line = json!({"op": "seen", "watch": number, "id": message.id, "from": message.from,
                    "marker": message.marker, "sum": message.sum});
                writeln!(file, "{line}")?;
            }
        }
        for Mark { host, agent, what, marker } in &self.marks {
            writeln!(
                file,
                "{}",
                json!({"op": "marked", "host": host, "agent": agent, "what": what, "marker": marker})
            )?;
        }
        for Listed { host, agent, folder, markers } in &self.listed {
            let line = json!({"op": "listed", "host": host, "agent": agent, "folder": folder, "markers": markers});
            writeln!(file, "{line}")?;
        }
        file.flush()
    }
}

/// The checker's findings.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Everything that is wrong, in words.
    pub wrong: Vec<String>,
    /// What it has counted: `sent`, `files`, `seen` and so on.
    pub counts: Value,
}

impl Verdict {
    /// Something that it has counted.
    #[track_caller]
    pub fn count(&self, what: &str) -> u64 {
        self.counts[what].as_u64().unwrap_or_else(|| panic!("the checker does not count {what}: {}", self.counts))
    }
}

/// Lets the checker compare the stores (`.fmail`) of the hosts 0, 1, … with what happened.
pub fn check(stores: &[PathBuf], account: &Account) -> Verdict {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let ledger = directory.path().join("ledger");
    account.write(&ledger).expect("own file");
    let checker = Path::new(env!("CARGO_MANIFEST_DIR")).join("checker.py");
    let output = Command::new("python3").arg(checker).arg(&ledger).args(stores).output().expect("python3 starts");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("the checker failed ({error}): {}", String::from_utf8_lossy(&output.stderr));
    });
    let wrong = answer["wrong"].as_array().expect("a list").iter().map(|line| line.as_str().unwrap_or("?").to_string());
    Verdict { wrong: wrong.collect(), counts: answer["counts"].clone() }
}

/// What is wrong, for a reader: one mistake can lead to thousands of lines.
pub fn summary(wrong: &[String]) -> String {
    let shown = &wrong[..wrong.len().min(30)];
    // What is alike is counted: the first thirty may all be of one kind.
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for one in wrong {
        let plain = |word: &&str| !word.contains(|letter: char| letter.is_ascii_digit()) || word.len() == 1;
        *kinds.entry(one.split(' ').filter(plain).collect::<Vec<_>>().join(" ")).or_default() += 1;
    }
    let kinds: String = kinds.iter().map(|(kind, count)| format!("{count} x {kind}\n")).collect();
    format!("{} things are wrong:\n{kinds}among them:\n{}", wrong.len(), shown.join("\n"))
}
