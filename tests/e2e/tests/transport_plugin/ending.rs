//! A transport that does not end.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use fmail_e2e::{Daemon, Sandbox};
use rustix::process::Signal;

/// It says that it serves, and takes the wish to end for nothing.
const STUBBORN: &str = r#"#!/usr/bin/env python3
import json, sys

def say(**verb):
    print(json.dumps(verb), flush=True)

for verb in map(json.loads, sys.stdin):
    if "hello" in verb:
        say(hello={"name": "stubborn", "version": "1.0.0", "kind": "transport"})
    elif verb.get("method") == "serve":
        say(item=verb["call"], body=json.dumps({"endpoint": "stubborn://here"}))
    else:
        for word in ("create", "call", "destroy"):
            if word in verb:
                say(done=verb[word])
"#;

#[test]
fn a_transport_that_does_not_end_is_given_up() {
    let sandbox = Sandbox::new();
    let program = sandbox.outside().join("fmail-plugin-stubborn");
    fs::write(&program, STUBBORN).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let section = format!("[mail.plugin.stubborn]\ncommand = [{program:?}]");
    sandbox.configure("transports = [\"unix\", \"stubborn\"]", &section);
    let mut daemon = Daemon::start(&sandbox);
    daemon.await_log("stubborn://here");
    let began = std::time::Instant::now();
    daemon.signal(Signal::TERM);
    daemon.await_log("has not ended within 10s after it was told to; it was given up");
    daemon.stop();
    assert!(began.elapsed().as_secs() < 45, "{:?}", began.elapsed());
}
