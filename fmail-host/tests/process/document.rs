//! The exchange of docs/plugins/programs.md, byte by byte, against the example.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::kit::example;

#[test]
fn the_documented_exchange_is_what_the_example_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/plugins/programs.md");
    let text = std::fs::read_to_string(path).unwrap();
    let exchange = text.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let mut child = Command::new(example()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut answers = 0;
    for line in exchange.lines() {
        if let Some(said) = line.strip_prefix("→ ") {
            writeln!(input, "{said}").unwrap();
        } else {
            let expected = line.strip_prefix("← ").unwrap_or_else(|| panic!("no arrow: {line}"));
            let mut got = String::new();
            output.read_line(&mut got).unwrap();
            assert_eq!(got, format!("{expected}\n"));
            answers += 1;
        }
    }
    assert_eq!(answers, 10);
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_example_has_at_most_30_lines() {
    let text = std::fs::read_to_string(example()).unwrap();
    assert!(text.lines().count() <= 30);
}
