//! Continuation lines: ignored as the document says, joined when that is asked for.

use super::{Team, at, brief, next};

const TEXT: &str = "\
[coder-to-reviewer]: Review needed for auth module
  Changes:
  - Added JWT validation in src/auth.rs
    - with a test

\tand a tab
# a comment ends it
  this belongs to nothing
[a-to-b]: short

[a-to-b]: last
  line
";

#[test]
fn continuation_lines_are_joined_when_that_is_asked_for() {
    let team = Team::with(TEXT);
    let joined: Vec<(u64, String)> = team.read(&["--multiline"]).iter().map(brief).collect();
    let first =
        "Review needed for auth module\nChanges:\n- Added JWT validation in src/auth.rs\n  - with a test\n\nand a tab";
    assert_eq!(joined, [at(1, first), at(9, "short"), at(11, "last\nline")]);
    let single: Vec<(u64, String)> = team.read(&[]).iter().map(brief).collect();
    assert_eq!(single, [at(1, "Review needed for auth module"), at(9, "short"), at(11, "last")]);
}

#[test]
fn a_message_is_printed_when_the_file_rests_and_what_comes_too_late_is_told() {
    let team = Team::with("");
    let mut watch = team.watch(&["--multiline"]);
    team.append("[a-to-b]: one\n  two\n");
    assert_eq!(next(&mut watch), at(1, "one\ntwo"));
    team.append("  three\n[a-to-b]: four\n");
    assert_eq!(next(&mut watch), at(4, "four"));
    let told = watch.stderr_line();
    assert!(told.contains("line 3 belongs to the message of line 1"), "{told}");
}

#[test]
fn a_count_counts_joined_messages() {
    let team = Team::with(TEXT);
    let output = team.sandbox.fmail().args(["chat", "watch", "--from-start", "--multiline", "-c", "3"]).ok();
    assert_eq!(output.json_lines().iter().map(brief).map(|(line, _)| line).collect::<Vec<_>>(), [1, 9, 11]);
}
