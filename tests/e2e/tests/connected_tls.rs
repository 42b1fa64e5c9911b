//! `fmail` and a daemon that speaks TLS on TCP.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fmail_e2e::{Fmail, Running, Sandbox, forged_binary};
use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;

const TOKEN: &str = "correct-horse-battery-staple-0042";

/// A certificate that vouches for itself, and its key, in files of our own.
fn certificate(sandbox: &Sandbox, name: &str) -> (PathBuf, PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
    let paths = (sandbox.home().join(format!("{name}.crt")), sandbox.home().join(format!("{name}.key")));
    std::fs::write(&paths.0, certificate.pem()).unwrap();
    std::fs::write(&paths.1, key.serialize_pem()).unwrap();
    std::fs::set_permissions(&paths.1, std::fs::Permissions::from_mode(0o600)).unwrap();
    paths
}

fn listening(command: Fmail) -> (Running, String) {
    let mut running = command.arg("--tcp=127.0.0.1:0").spawn();
    loop {
        let line = running.stderr_line();
        if let Some((_, address)) = line.split_once("tcp://") {
            return (running, address.trim_matches('"').split(['"', ' ']).next().unwrap().to_string());
        }
    }
}

/// Sends as alice, over this port and no other way.
fn send(sandbox: &Sandbox, address: &str, body: &str) -> Fmail {
    let fmail = sandbox.agent("alice").env("FMAIL_TRANSPORTS", "tcp").env("FMAIL_TCP__ADDRESS", address);
    fmail.args(["send", "task", body, "--json"])
}

fn went_through(message: &Value) -> bool {
    message["host"].is_string() && message["key"].is_string()
}

#[test]
fn messages_go_through_tls_and_nowhere_else() {
    let sandbox = Sandbox::new();
    let (ours, key) = certificate(&sandbox, "ours");
    let (other, _) = certificate(&sandbox, "other");
    let daemon = sandbox.command(forged_binary()).env("FMAIL_TCP__TLS__CERTIFICATE", &ours);
    let (_daemon, address) = listening(daemon.env("FMAIL_TCP__TLS__KEY", key).env("FMAIL_TCP__TOKEN", TOKEN));
    let through = |body| send(&sandbox, &address, body).env("FMAIL_TCP__TOKEN", TOKEN);
    let sent = through("one").env("FMAIL_TCP__TLS__AUTHORITY", &ours).ok();
    assert!(went_through(&sent.json()) && sent.stderr.is_empty(), "{sent}");
    let refused = through("two").env("FMAIL_TCP__TLS__AUTHORITY", &other).ok();
    refused.says(&[&address, "not believed", "mail.tcp.tls.authority", "the files are used"]);
    let start = Instant::now();
    let plain = through("three").ok();
    plain.says(&["speaks TLS only", "mail.tcp.tls.authority", "the files are used"]);
    // Neither side waits for the other: an unanswered hello would take five seconds.
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert!(!went_through(&refused.json()) && !went_through(&plain.json()));
    assert_eq!(sandbox.bodies("alice", &[]), ["one", "two", "three"]);
    let mut watch = sandbox.agent("bob").env("FMAIL_TRANSPORTS", "tcp").env("FMAIL_TCP__ADDRESS", &address);
    watch = watch.env("FMAIL_TCP__TLS__AUTHORITY", &ours).env("FMAIL_TCP__TOKEN", TOKEN);
    let mut watch = watch.args(["watch", "task", "--since", "1h", "--count", "4", "--json"]).spawn();
    for body in ["one", "two", "three"] {
        assert_eq!(watch.json()["body"], body);
    }
    through("four").env("FMAIL_TCP__TLS__AUTHORITY", &ours).ok();
    assert_eq!(watch.json()["body"], "four");
    let ended = watch.wait();
    assert!(ended.code == 0 && ended.stderr.is_empty(), "{ended}");
}

#[test]
fn a_daemon_without_tls_is_not_believed() {
    let sandbox = Sandbox::new();
    let (ours, _) = certificate(&sandbox, "ours");
    let (_daemon, address) = listening(sandbox.command(forged_binary()));
    let start = Instant::now();
    let sent = send(&sandbox, &address, "one").env("FMAIL_TCP__TLS__AUTHORITY", &ours).ok();
    sent.says(&["does not speak TLS", "mail.tcp.tls", "the files are used"]);
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert!(!went_through(&sent.json()), "{sent}");
    send(&sandbox, &address, "two")
        .env("FMAIL_TCP__TLS__AUTHORITY", "/no/such")
        .fails(14)
        .says(&["mail.tcp.tls.authority"]);
    assert_eq!(sandbox.bodies("alice", &[]), ["one"]);
}
