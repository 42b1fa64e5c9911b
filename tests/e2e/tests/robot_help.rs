//! `fmail --robot-help`: the help that programs read.

use fmail_e2e::Sandbox;

#[test]
fn it_is_one_json_object() {
    let sandbox = Sandbox::new();
    let output = sandbox.fmail().arg("--robot-help").ok();
    assert!(output.json().is_object());
}
