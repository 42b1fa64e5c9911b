//! Messages that are too large, empty, unreadable or no text.

use std::os::unix::fs::PermissionsExt;

use fmail_e2e::Sandbox;

const LIMIT: usize = 1024 * 1024;

/// The length of the compact JSON of a message with an empty body, as `me` sends it to `task`.
fn envelope(sandbox: &Sandbox) -> usize {
    let one = sandbox.agent("me").args(["send", "task", "x", "--json"]).ok().stdout;
    one.trim_end().len() - "x".len()
}

#[test]
fn exactly_the_limit_passes_and_one_byte_more_names_both_sizes() {
    let sandbox = Sandbox::new();
    let room = LIMIT - envelope(&sandbox);
    sandbox.agent("me").args(["send", "task"]).stdin("y".repeat(room)).ok();
    let log = sandbox.log("me", &["task"]);
    assert_eq!(log[1]["body"].as_str().map(str::len), Some(room));

    let before = sandbox.tree();
    let output = sandbox.agent("me").args(["send", "task"]).stdin("y".repeat(room + 1)).fails(6);
    output.says(&[&LIMIT.to_string(), &(LIMIT + 1).to_string()]);
    sandbox.write("big.txt", "y".repeat(room + 1));
    sandbox.agent("me").args(["send", "task", "-f", "big.txt"]).fails(6).says(&[&LIMIT.to_string()]);
    std::fs::remove_file(sandbox.path().join("big.txt")).expect("own file");
    // What counts is the encoded message: a quote takes two bytes in it.
    sandbox.agent("me").args(["send", "task"]).stdin("\"".repeat(room / 2 + 2)).fails(6);
    sandbox.assert_unchanged(&before);
}

#[test]
fn endless_input_is_refused_without_reading_it_all() {
    let sandbox = Sandbox::new();
    sandbox.bash("me", "fmail send task < /dev/zero").run().says(&[&LIMIT.to_string()]);
    assert_eq!(sandbox.bash("me", "fmail send task < /dev/zero").run().code, 6);
    assert_eq!(sandbox.bash("me", "fmail send task -f /dev/zero").run().code, 6);
    assert!(!sandbox.store().exists());
}

#[test]
fn the_limit_is_a_setting() {
    let sandbox = Sandbox::new();
    let limited =
        |body: &str| sandbox.agent("me").args(["--set", "mail.max_message_bytes=200", "send", "task", body]).run();
    assert_eq!(limited("short").code, 0);
    let output = limited(&"long ".repeat(40));
    assert_eq!(output.code, 6);
    output.says(&["200"]);
}

#[test]
fn bytes_that_are_no_text() {
    let sandbox = Sandbox::new();
    sandbox.write("image.png", b"\x89PNG\xff\xfe");
    sandbox.write("latin1.txt", b"caf\xe9\n");
    let before = sandbox.tree();
    sandbox.agent("me").args(["send", "task"]).stdin(b"good \xff bad".to_vec()).fails(2).says(&["UTF-8", "offset 5"]);
    sandbox.agent("me").args(["send", "task", "-f", "image.png"]).fails(2).says(&["image.png", "UTF-8"]);
    sandbox.agent("me").args(["send", "task", "-f", "latin1.txt"]).fails(2).says(&["latin1.txt", "UTF-8"]);
    sandbox.assert_unchanged(&before);
}

#[test]
fn files_that_cannot_be_read() {
    let sandbox = Sandbox::new();
    sandbox.agent("me").args(["send", "task", "-f", "missing.txt"]).fails(7).says(&["missing.txt"]);
    let output = sandbox.agent("me").args(["send", "task", "-f", "."]).run();
    assert!(output.code > 1 && output.stderr.contains("`.`"), "{output}");
    sandbox.agent("me").args(["send", "task", "-f", ""]).fails(2).says(&["--file"]);
    assert!(!sandbox.store().exists());
}

#[test]
fn a_file_without_permission_to_read() {
    let sandbox = Sandbox::new();
    let secret = sandbox.write("secret.txt", "x");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o000)).expect("own file");
    let output = sandbox.agent("me").unprivileged().args(["send", "task", "-f", "secret.txt"]).fails(9);
    output.says(&["secret.txt"]);
    assert!(!sandbox.store().exists());
}

#[test]
fn a_message_and_a_file_together() {
    let sandbox = Sandbox::new();
    sandbox.write("body.txt", "x");
    let before = sandbox.tree();
    for args in [["send", "task", "message", "-f", "body.txt"], ["send", "task", "message", "--file", "-"]] {
        sandbox.agent("me").args(args).fails(2).says(&["twice", "--file"]);
    }
    sandbox.assert_unchanged(&before);
}

#[test]
fn nothing_to_send() {
    let sandbox = Sandbox::new();
    for body in ["", " ", "\n\t ", "\"\"", "\"  \""] {
        sandbox.agent("me").args(["send", "task", "--", body]).fails(2).says(&["empty"]);
        sandbox.agent("me").args(["send", "task"]).stdin(body).fails(2).says(&["empty"]);
    }
    sandbox.agent("me").args(["send", "task"]).fails(2).says(&["empty"]);
    assert!(!sandbox.store().exists());
}
