//! A store that fails, or does not answer at all.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Instant;

use fmail_e2e::Sandbox;
use fmail_e2e::mcp::MailServer;
use serde_json::json;

/// A daemon whose store is a script: it fails while a file `fails` is there, and hangs while `hangs` is.
struct Scripted {
    server: MailServer,
    beside: PathBuf,
}

impl Scripted {
    fn start(lines: &str) -> Scripted {
        let sandbox = Sandbox::new();
        let (beside, mail) =
            (sandbox.outside().to_path_buf(), fmail_e2e::workspace().join("plugins/examples/exec-gc/mail.py"));
        let script = beside.join("script");
        let text = format!(
            "#!/bin/sh\ncd {beside:?}\n[ -e fails ] && echo 'the disk is gone' >&2 && exit 1\n[ -e hangs ] && sleep 60\n\
             exec python3 {mail:?} \"$@\"\n"
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        let exec = format!("{lines}\n[mail.plugin.exec.config]\ncommand = [{script:?}]");
        let server = MailServer::in_sandbox(sandbox, "store = \"exec\"", &exec);
        Scripted { server, beside }
    }

    fn make(&self, file: &str) {
        fs::write(self.beside.join(file), "").unwrap();
    }

    fn key(&self) -> String {
        fs::canonicalize(self.server.sandbox.path()).unwrap().display().to_string()
    }
}

#[test]
fn a_store_that_fails_is_not_ready_and_its_outage_is_no_empty_inbox() {
    let scripted = Scripted::start("");
    let mut http = scripted.server.connect();
    let ready = http.request("GET", "/health/readiness", &[], b"");
    assert_eq!((ready.status(), ready.json()), (200, json!({"status": "ready"})));
    let (mut client, key) = (scripted.server.client(), scripted.key());
    client.tool("register_agent", json!({"project_key": key, "name": "GreenDog"}));
    assert_eq!(
        client.tool("fetch_inbox", json!({"project_key": key, "agent_name": "GreenDog"})),
        json!({"result": []})
    );
    scripted.make("fails");
    let ready = http.request("GET", "/health/readiness", &[], b"");
    assert_eq!((ready.status(), &ready.json()["status"]), (503, &json!("unavailable")), "{ready:?}");
    assert!(ready.text().contains("the disk is gone"), "{}", ready.text());
    let error = client.tool_error("fetch_inbox", json!({"project_key": key, "agent_name": "GreenDog"}));
    assert!(error.contains("the disk is gone"), "{error}");
    assert_eq!(http.request("GET", "/health/liveness", &[], b"").status(), 200);
}

#[test]
fn a_store_that_hangs_costs_a_request_its_deadline_and_stops_nobody() {
    let scripted = Scripted::start("deadline_seconds = 2");
    let (mut client, key) = (scripted.server.client(), scripted.key());
    client.tool("register_agent", json!({"project_key": key, "name": "GreenDog"}));
    scripted.make("hangs");
    let began = Instant::now();
    let error = client.tool_error("fetch_inbox", json!({"project_key": key, "agent_name": "GreenDog"}));
    assert!(error.contains("for which the caller waits; whether it took effect is not known"), "{error}");
    let asked = json!({"cmd": "count", "agent": "alice", "req_id": 1});
    let answer = scripted.server.connect().post("/fmail/", &[], &asked);
    assert!(answer.text().contains("\"timeout\""), "{}", answer.text());
    let ready = scripted.server.connect().request("GET", "/health/readiness", &[], b"");
    assert_eq!(ready.status(), 503, "{ready:?}");
    assert!(began.elapsed().as_secs() < 40, "{:?}", began.elapsed());
    // What does not need the store is answered all the while.
    assert_eq!(client.result("ping", json!({})), json!({}));
    assert!(client.result("tools/list", json!({}))["tools"].is_array());
}
