//! Every rule and every example of CHAT-PROTOCOL.md that is about lines.

use fmail_chat_file::ChatLine;

fn line(sender: &str, recipient: &str, broadcast: &[&str], message: &str) -> Option<ChatLine> {
    Some(ChatLine {
        sender: sender.into(),
        recipient: recipient.into(),
        broadcast: broadcast.iter().map(|target| (*target).into()).collect(),
        message: message.into(),
    })
}

#[track_caller]
fn check(text: &str, expected: Option<ChatLine>) {
    assert_eq!(ChatLine::parse(text), expected, "{text:?}");
}

#[track_caller]
fn ignored(text: &str) {
    check(text, None);
}

#[test]
fn direct_message() {
    check("[sender-to-recipient]: message content here", line("sender", "recipient", &[], "message content here"));
    check(
        "[coder-to-reviewer]: Please review changes in src/auth.rs — added JWT validation",
        line("coder", "reviewer", &[], "Please review changes in src/auth.rs — added JWT validation"),
    );
}

#[test]
fn broadcast_message() {
    check(
        "[sender-to-recipient] @ [target1, target2]: message content here",
        line("sender", "recipient", &["target1", "target2"], "message content here"),
    );
    check(
        "[reviewer-to-coder] @ [developer, manager]: Approved with minor suggestions — see inline comments",
        line("reviewer", "coder", &["developer", "manager"], "Approved with minor suggestions — see inline comments"),
    );
}

#[test]
fn acknowledgment() {
    check(
        "[reviewer-to-coder] @ [developer]: Acknowledged — starting review",
        line("reviewer", "coder", &["developer"], "Acknowledged — starting review"),
    );
}

#[test]
fn rule_1_lines_must_start_with_a_bracket() {
    ignored(" [a-to-b]: x");
    ignored("\t[a-to-b]: x");
    ignored("> [a-to-b]: x");
    ignored("\u{feff}[a-to-b]: x");
    ignored("a-to-b]: x");
}

#[test]
fn rule_2_names_are_letters_digits_hyphens_and_underscores() {
    check("[Agent_1-to-b-2_C]: x", line("Agent_1", "b-2_C", &[], "x"));
    check("[---to---]: x", line("--", "--", &[], "x"));
    for text in ["[a.b-to-c]: x", "[a b-to-c]: x", "[ a-to-b]: x", "[a-to-b ]: x", "[é-to-b]: x", "[a-to-@b]: x"] {
        ignored(text);
    }
    ignored("[-to-b]: x");
    ignored("[a-to-]: x");
    ignored("[[a-to-b]]: x");
}

#[test]
fn rule_3_the_separator_is_required_and_the_last_that_fits_divides() {
    ignored("[a]: x");
    ignored("[a-b]: x");
    ignored("[a-TO-b]: x");
    ignored("[a_to_b]: x");
    check("[a-to-b-to-c]: x", line("a-to-b", "c", &[], "x"));
    check("[a-to-to-b]: x", line("a-to", "b", &[], "x"));
    check("[a-to-to-to-b]: x", line("a-to-to", "b", &[], "x"));
    check("[a-to-b-to-]: x", line("a", "b-to-", &[], "x"));
    check("[-to--to-b]: x", line("-to-", "b", &[], "x"));
    check("[-to-to-b]: x", line("-to", "b", &[], "x"));
    check("[a-to--to-]: x", line("a", "-to-", &[], "x"));
}

#[test]
fn rule_4_targets_are_comma_separated_in_brackets_behind_an_at_sign() {
    check("[a-to-b]@[c]:x", line("a", "b", &["c"], "x"));
    check("[a-to-b]  @\t[ c ,d,, e f , ]  :  x", line("a", "b", &["c", "d", "e f"], "x"));
    check("[a-to-b] @ []: x", line("a", "b", &[], "x"));
    check("[a-to-b] @ [ , ,]: x", line("a", "b", &[], "x"));
    check("[a-to-b] @ [c[d]: x", line("a", "b", &["c[d"], "x"));
    check("[a-to-b] @ [c:d]: x", line("a", "b", &["c:d"], "x"));
    ignored("[a-to-b] @ c: x");
    ignored("[a-to-b] @ [c: x");
    ignored("[a-to-b] @ [c] @ [d]: x");
    ignored("[a-to-b] @: x");
    ignored("[a-to-b] [c]: x");
}

#[test]
fn rule_5_everything_behind_the_colon_is_the_message() {
    check("[a-to-b]:x", line("a", "b", &[], "x"));
    check("[a-to-b] : x", line("a", "b", &[], "x"));
    check("[a-to-b]: x: y [z]: ", line("a", "b", &[], "x: y [z]: "));
    check("[a-to-b]:   x  ", line("a", "b", &[], "x  "));
    check("[a-to-b]: @ [c]: x", line("a", "b", &[], "@ [c]: x"));
    check("[a-to-b]::", line("a", "b", &[], ":"));
    // The expression wants one character, and gets back one that the white space had taken.
    check("[a-to-b]: ", line("a", "b", &[], " "));
    check("[a-to-b]: \t", line("a", "b", &[], "\t"));
    check("[a-to-b]:\u{a0}\u{3000}", line("a", "b", &[], "\u{3000}"));
    ignored("[a-to-b]:");
    ignored("[a-to-b] x");
    ignored("[a-to-b] x: y");
}

#[test]
fn rule_6_empty_lines_and_lines_that_do_not_match_are_ignored() {
    for text in ["", " ", "\n", "\r\n", "# Chat", "// a comment", "---", "[link](http://a-to-b): x", "[ ] a task"] {
        ignored(text);
    }
}

#[test]
fn continuation_lines_are_ignored_by_the_parser() {
    let text = "[coder-to-reviewer]: Review needed for auth module\n  Changes:\n  - Added JWT validation in src/auth.rs\n  \
                - Updated middleware in src/middleware.rs\n  - Added tests in tests/auth_test.rs\n";
    let found: Vec<ChatLine> = text.lines().filter_map(ChatLine::parse).collect();
    assert_eq!(found, [line("coder", "reviewer", &[], "Review needed for auth module").unwrap()]);
}

#[test]
fn any_bytes_can_come() {
    check("[a-to-b]: x\n", line("a", "b", &[], "x"));
    check("[a-to-b]: x\r\n", line("a", "b", &[], "x"));
    check("[a-to-b]: x\r\r\n", line("a", "b", &[], "x\r"));
    check("[a-to-b]: x\r", line("a", "b", &[], "x\r"));
    check("[a-to-b]: x\ry", line("a", "b", &[], "x\ry"));
    check("[a-to-b]: x\0y", line("a", "b", &[], "x\0y"));
    ignored("[a-to-b]:\r\n");
    ignored("[a-to-b]: x\ny");
    let invalid = ChatLine::parse(b"[a-to-b] @ [c\xff]: x\xc3(\xe2\x82 y\xf0");
    assert_eq!(invalid, line("a", "b", &["c\u{fffd}"], "x\u{fffd}(\u{fffd} y\u{fffd}"));
    assert_eq!(ChatLine::parse(b"[a\xff-to-b]: x"), None);
    let long = "x".repeat(5_000_000);
    check(&format!("[a-to-b]: {long}"), line("a", "b", &[], &long));
    ignored(&"[".repeat(1_000_000));
    ignored(&format!("[{}", "-to-".repeat(500_000)));
}
