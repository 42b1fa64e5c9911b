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

/// Rows that have to be there, each with a ratio.
fn assert_compared(table: &str, rows: &[&str]) {
    for row in rows {
        let line = table.lines().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("no {row} in {table}"));
        assert!(line.contains(" x "), "no ratio in {line}");
    }
}

#[test]
fn the_quick_form_for_plugins_measures_everything() {
    let table = table(&["--plugins", "--rounds", "1"]);
    assert_compared(
        &table,
        &[
            "| `get`, library ",
            "| `append`, library ",
            "| `scan`, per message, library ",
            "| `get`, library in a child, 64 in flight ",
            "| log profile: `read`, C library ",
            "| log profile: `read`, Python program, 64 in flight ",
            "| durable appends, 64 at once, `sqlite` ",
            "| in memory appends, 16 at once, Rust example ",
            "| in memory appends, 64 at once, C example ",
            "| in memory appends, 1 at once, Python example, in a child ",
            "| scan of 500, per message, C example ",
        ],
    );
}

#[test]
fn the_quick_form_for_many_messages_measures_everything_and_compares_with_sqlite() {
    let table = table(&["--only", "million,mail,commands", "--rounds", "1"]);
    assert_compared(
        &table,
        &[
            "| `fmail send`, durable ",
            "| `fmail log task -n 20`, 10,000 messages ",
            "| `fmail send`, 10,000 messages ",
            "| `fmail inbox`, 20 unread, 10,000 messages ",
            "| start of `fmail watch` to its first line, 10,000 messages ",
            "| `fmail topics`, 10,000 messages, `sqlite` store ",
            "| `fmail topics`, 10,000 messages, SQLite alone ",
            "| `fmail search`, a word in one old message, 10,000 messages, SQLite alone ",
            "| forged, 10,000 messages, peak of resident memory ",
            "| `fmail inbox`, 20 unread, 2,000 archived ",
        ],
    );
    for row in [
        "| from before `fmail send` is started to the watch's line, at half load ",
        "| `fmail log -n 1` with the index deleted, 10,000 messages ",
    ] {
        assert!(table.lines().any(|line| line.starts_with(row)), "no {row} in {table}");
    }
}
