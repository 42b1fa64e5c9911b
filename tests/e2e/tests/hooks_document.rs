//! The examples of docs/hooks.md do what the document says.

use std::fs;
use std::path::Path;

use fmail_e2e::{Output, Sandbox};

fn document() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hooks.md")).expect("docs/hooks.md")
}

fn blocks(language: &str) -> Vec<String> {
    let start = format!("```{language}\n");
    document().split(&start).skip(1).filter_map(|rest| rest.split("```").next()).map(String::from).collect()
}

/// A notice with the parts that differ each time taken out, and without its line ends.
fn plain(notice: &str) -> String {
    let mut words: Vec<String> = notice.split_whitespace().map(String::from).collect();
    for word in &mut words {
        for start in ["<fmail-", "</fmail-", "id=\"", "sent=\""] {
            if let Some(place) = word.find(start) {
                word.truncate(place + start.len());
            }
        }
    }
    words.join(" ")
}

#[test]
fn the_examples_run_and_print_what_the_document_says() {
    let sandbox = Sandbox::new();
    let outputs: Vec<Output> = blocks("bash").iter().map(|block| sandbox.bash("bob", block).ok()).collect();
    let [installed, told, removed] = &outputs[..] else { panic!("{} blocks", outputs.len()) };
    assert!(installed.stdout.contains("claude project: installed at SessionStart"), "{installed}");
    let (_id, notice) = told.stdout.split_once('\n').expect("the id of the message first");
    let shown = &blocks("text")[0];
    assert_eq!(plain(notice), plain(shown));
    assert!(removed.stdout.contains("claude project: not installed"), "{removed}");
    assert!(!sandbox.path().join(".claude").exists());
}
