//! Whether everything that was acknowledged is in the files, once. Nothing of ours reads them: what a file says is
//! looked for as text.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use fmail_api::{Error, Result};

use super::load::{Crowd, text};
use crate::install::doing;

/// Looks for the messages of a crowd in a project.
pub fn check(project: &Path, crowd: Crowd) -> Result<()> {
    let mut found: HashMap<String, Vec<PathBuf>> = HashMap::new();
    for file in messages(&project.join(".fmail"))? {
        let contents = fs::read_to_string(&file).map_err(doing("reading", &file))?;
        if let Some(mark) = mark(&contents) {
            found.entry(mark).or_default().push(file);
        }
    }
    let expected = (0..crowd.agents).flat_map(|agent| (0..crowd.messages).map(move |message| text(agent, message)));
    for text in expected {
        let files = found.remove(&mark(&text).unwrap_or_default()).unwrap_or_default();
        if files.len() != 1 {
            return Err(Error::internal(format!(
                "acknowledged once and stored {} times: {text}: {files:?}",
                files.len()
            )));
        }
    }
    match found.into_keys().next() {
        None => Ok(()),
        Some(other) => Err(Error::internal(format!("nobody sent `{other}`"))),
    }
}

/// What is unique in a message's text: `load 07-013`.
fn mark(text: &str) -> Option<String> {
    let start = text.find("load ")?;
    let mark = text[start..].split(':').next()?;
    (mark.len() == "load 00-000".len()).then(|| mark.to_string())
}

/// Every message file below a store.
fn messages(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for kind in ["dm", "topics"] {
        let top = directory.join(kind);
        if !top.is_dir() {
            continue;
        }
        for mailbox in entries(&top)? {
            files.extend(entries(&mailbox)?.into_iter().filter(|file| file.extension().is_some_and(|it| it == "json")));
        }
    }
    Ok(files)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let reading = doing("reading", directory);
    let entries = fs::read_dir(directory).map_err(&reading)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(&reading)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_missing_or_doubled_is_found() {
        let scratch = tempfile::tempdir().unwrap();
        let crowd = Crowd { agents: 2, messages: 1 };
        let mailbox = scratch.path().join(".fmail/dm/agent-00");
        fs::create_dir_all(&mailbox).unwrap();
        let store = |name: &str, agent| fs::write(mailbox.join(name), format!("{{\"body\":\"{}\"}}", text(agent, 0)));
        store("1.json", 0).unwrap();
        assert!(check(scratch.path(), crowd).unwrap_err().message().contains("stored 0 times"));
        store("2.json", 1).unwrap();
        check(scratch.path(), crowd).unwrap();
        store("3.json", 1).unwrap();
        assert!(check(scratch.path(), crowd).unwrap_err().message().contains("stored 2 times"));
    }
}
