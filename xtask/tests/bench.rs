//! The measurements work; what they measure is for people to judge.

use std::process::Command;

#[test]
fn the_quick_form_for_plugins_measures_everything() {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["bench", "--plugins", "--quick", "--unoptimised", "--rounds", "1"])
        .output()
        .expect("xtask starts");
    let (table, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{table}{errors}");
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
