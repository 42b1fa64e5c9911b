//! Reading the messages of a project from its files.

use std::fs;
use std::path::Path;

use super::Message;

/// A message in a file.
pub struct Found {
    /// Where it stands, below `.fmail/`.
    pub place: String,
    /// What stands there.
    pub message: Message,
}

/// Temporaries with one name for all: whoever is killed while it replaces a record or the index leaves one, and the next
/// replacement takes it away.
const REPLACED: [&str; 2] = ["record", "index"];

/// Reads every message. What is not one, and what a writer left behind, is wrong.
pub fn read(store: &Path, wrong: &mut Vec<String>) -> Vec<Found> {
    let mut found = Vec::new();
    for (parent, prefix) in [("topics", ""), ("dm", "@")] {
        for mailbox in names(store, parent, wrong) {
            let directory = format!("{parent}/{mailbox}");
            for name in names(store, &directory, wrong) {
                let place = format!("{directory}/{name}");
                match message(&store.join(&place), &name, &format!("{prefix}{mailbox}")) {
                    Ok(message) => found.push(Found { place, message }),
                    Err(why) => wrong.push(format!("{place} {why}")),
                }
            }
        }
    }
    let left = names(store, "tmp", wrong).into_iter().filter(|name| !REPLACED.contains(&name.as_str()));
    wrong.extend(left.map(|name| format!("left behind: tmp/{name}")));
    found
}

fn message(path: &Path, name: &str, mailbox: &str) -> Result<Message, String> {
    let bytes = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    let value = serde_json::from_slice(&bytes).map_err(|error| format!("is not whole: {error}"))?;
    let message = Message::of(&value)?;
    if name != format!("{}.json", message.id) {
        return Err(format!("holds the id {}", message.id));
    }
    if message.to != mailbox {
        return Err(format!("is addressed to {}", message.to));
    }
    Ok(message)
}

/// The names in a directory. One that is missing is empty: a project without direct messages has no `dm`.
fn names(store: &Path, directory: &str, wrong: &mut Vec<String>) -> Vec<String> {
    let entries = match fs::read_dir(store.join(directory)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            wrong.push(format!("{directory} cannot be listed: {error}"));
            return Vec::new();
        }
    };
    let mut names = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => names.push(entry.file_name().to_string_lossy().into_owned()),
            Err(error) => wrong.push(format!("{directory} cannot be listed: {error}")),
        }
    }
    names.sort();
    names
}
