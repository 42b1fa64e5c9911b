//! docs/plugins/operating.md and the messages of the loader say the same.

use std::fs;
use std::path::Path;

use crate::kit::root;

/// The text of these files and of those in these directories.
fn sources(places: &[&str]) -> String {
    let mut text = String::new();
    for place in places {
        let path = root().join("fmail-host/src/plugin").join(place);
        let files = match path.is_dir() {
            true => fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect(),
            false => vec![path],
        };
        files.iter().for_each(|file: &std::path::PathBuf| text += &fs::read_to_string(file).unwrap());
    }
    text
}

fn document() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/plugins/operating.md")).unwrap()
}

/// The parts of a text between those that differ from case to case.
fn parts(text: &str, differs: impl Fn(&str) -> Option<usize>) -> Vec<String> {
    let (mut parts, mut rest) = (vec![String::new()], text);
    while let Some(first) = rest.chars().next() {
        match differs(rest) {
            Some(length) => {
                parts.push(String::new());
                rest = &rest[length..];
            }
            None => {
                parts.last_mut().unwrap().push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    // What stands in quotes in a message stands for itself in the document.
    parts.iter().map(|part| part.replace('`', "").trim().to_string()).filter(|part| part.len() > 3).collect()
}

#[test]
fn every_documented_message_is_one_that_can_appear() {
    let sources = sources(&["library", "library.rs", "file.rs", "elf.rs", "failure.rs", "manifest.rs", "instance.rs"]);
    // Made by the SDK, not here.
    let sources = sources.replace('`', "") + "panicked: ";
    let document = document();
    let messages: Vec<&str> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .map(|(message, _)| message)
        .collect();
    assert!(messages.len() > 35, "the tables were not found");
    for message in messages {
        for part in parts(message, |rest| rest.starts_with('…').then_some('…'.len_utf8())) {
            assert!(sources.contains(&part), "`{message}` is documented, but no message has `{part}`");
        }
    }
}

#[test]
fn every_message_of_the_loader_is_documented() {
    let sources = sources(&["library", "library.rs", "file.rs", "elf.rs", "failure.rs"]);
    let document = document().replace('`', "");
    let messages: Vec<&str> =
        sources.split("\"expected ").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(messages.len() > 25, "the messages were not found");
    for message in messages {
        let placeholder = |rest: &str| rest.starts_with('{').then(|| rest.find('}').map(|end| end + 1)).flatten();
        for part in parts(message, placeholder) {
            // Its reason may follow in words that need no table.
            let beginning = part.split(": ").next().unwrap();
            assert!(document.contains(beginning), "`expected {message}` is not documented: `{beginning}` is missing");
        }
    }
}
