//! The measurements work; what they measure is for people to judge.

use std::process::Command;

/// The table of a measurement of what the tests use.
fn table(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["bench", "--quick", "--unoptimised"])
        .args(arguments)
        .output()
        .expect("xtask starts");
    let (table, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{table}{errors}");
    table.into_owned()
}

#[test]
fn thirty_agents_at_once_over_mcp_lose_and_double_nothing() {
    // The measurement counts the messages in the files by itself and fails when one is missing or there twice.
    let table = table(&["--mcp"]);
    for row in [
        "| 1 agent x 50 messages ",
        "| 8 agents x 5 messages ",
        "| 30 agents x 5 messages ",
        "| 30 agents x 5 messages, JSON lines over the socket ",
        "| 30 agents x 5 messages, MCP over HTTP ",
        "| 30 agents x 5 messages, MCP over HTTP, sends ",
        "| 30 agents x 5 messages, MCP over HTTP, fetches ",
    ] {
        assert!(table.lines().any(|line| line.starts_with(row)), "no {row} in {table}");
    }
}

#[test]
fn the_quick_form_for_plugins_measures_everything() {
    let table = table(&["--plugins", "--rounds", "1"]);
    for row in [
        "| `get`, library ",
        "| `append`, library ",
        "| `scan`, per message, library ",
        "| `get`, library in a child, 64 in flight ",
        "| log profile: `read`, C library ",
        "| log profile: `read`, Python program, 64 in flight ",
        "| durable sends, 64 at once, sqlite ",
        "| `fmail log task -n 20`, 2,000 messages, sqlite ",
        "| `fmail search`, a word in one message, 2,000 messages, sqlite ",
    ] {
        let line = table.lines().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("no {row} in {table}"));
        assert!(line.contains(" x "), "no ratio in {line}");
    }
}
