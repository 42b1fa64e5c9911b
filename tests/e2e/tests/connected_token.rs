//! `fmail` and a daemon on TCP that prove a token to each other, and strangers on the port who get nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::thread::JoinHandle;

use fmail_e2e::{DEADLINE, Fmail, Running, Sandbox, forged_binary};
use serde_json::Value;

const TOKEN: &str = "correct-horse-battery-staple-0042";
const OTHER: &str = "another-token-of-thirty-two-bytes";

/// Starts a daemon on a free port; gives it and its address.
fn forged(sandbox: &Sandbox, vars: &[(&str, &str)]) -> (Running, String) {
    let command = sandbox.command(forged_binary()).arg("--tcp=127.0.0.1:0");
    let mut running = vars.iter().fold(command, |command, (name, value)| command.env(name, value)).spawn();
    loop {
        let line = running.stderr_line();
        if let Some((_, address)) = line.split_once("tcp://") {
            return (running, address.trim_matches('"').split(['"', ' ']).next().unwrap().to_string());
        }
    }
}

/// `fmail` as alice, over this port and no other way.
fn over(sandbox: &Sandbox, address: &str) -> Fmail {
    sandbox.agent("alice").env("FMAIL_TRANSPORTS", "tcp").env("FMAIL_TCP__ADDRESS", address)
}

/// Whether a message carries what only a daemon adds.
fn went_through(message: &Value) -> bool {
    message["host"].is_string() && message["key"].is_string()
}

#[test]
fn with_one_token_on_both_sides_messages_go_through() {
    let sandbox = Sandbox::new();
    let (_daemon, address) = forged(&sandbox, &[("FMAIL_TCP__TOKEN", TOKEN)]);
    let sent = over(&sandbox, &address).env("FMAIL_TCP__TOKEN", TOKEN).args(["send", "task", "one", "--json"]).ok();
    assert!(sent.stderr.is_empty() && went_through(&sent.json()), "{sent}");
    let args = ["watch", "task", "--since", "1h", "--count", "2", "--json"];
    let mut watch = over(&sandbox, &address).env("FMAIL_TCP__TOKEN", TOKEN).args(args).spawn();
    assert_eq!(watch.json()["body"], "one");
    over(&sandbox, &address).env("FMAIL_TCP__TOKEN", TOKEN).args(["send", "task", "two"]).ok();
    assert_eq!(watch.json()["body"], "two");
    let ended = watch.wait();
    assert!(ended.code == 0 && ended.stderr.is_empty(), "{ended}");
}

#[test]
fn the_token_can_stand_in_a_file_of_ones_own() {
    let sandbox = Sandbox::new();
    let file = sandbox.home().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o600);
    let (_daemon, address) = forged(&sandbox, &[("FMAIL_TCP__TOKEN_FILE", "~/token")]);
    let send =
        || over(&sandbox, &address).env("FMAIL_TCP__TOKEN_FILE", "~/token").args(["send", "task", "x", "--json"]);
    assert!(went_through(&send().ok().json()));
    mode(0o644);
    send().fails(14).says(&["mail.tcp.token_file", "its mode is 0644, allowed is 0600", "chmod 600"]);
}

#[test]
fn without_the_daemons_token_the_files_are_used_and_the_key_is_named() {
    let sandbox = Sandbox::new();
    let (_daemon, address) = forged(&sandbox, &[("FMAIL_TCP__TOKEN", TOKEN)]);
    let none = over(&sandbox, &address).args(["send", "task", "one", "--json"]).ok();
    none.says(&["wants a token", "mail.tcp.token_file", "the files are used"]);
    assert!(!went_through(&none.json()), "{none}");
    let other = over(&sandbox, &address).env("FMAIL_TCP__TOKEN", OTHER).args(["send", "task", "two", "--json"]).ok();
    other.says(&[&address, "another token", "mail.tcp.token_file", "the files are used"]);
    assert!(!went_through(&other.json()), "{other}");
    assert_eq!(sandbox.bodies("alice", &[]), ["one", "two"]);
    // The socket of the project needs no token.
    let through = sandbox.agent("alice").args(["send", "task", "three", "--json"]).ok();
    assert!(through.stderr.is_empty() && went_through(&through.json()), "{through}");
}

/// A stranger on a port: answers the first line with this one, and gives everything that it ever hears.
fn stranger(answer: String) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = std::thread::spawn(move || {
        let (stream, _): (TcpStream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut heard = String::new();
        reader.read_line(&mut heard).unwrap();
        (&stream).write_all(answer.as_bytes()).unwrap();
        reader.read_to_string(&mut heard).expect("it hangs up");
        heard
    });
    (address, heard)
}

#[test]
fn a_stranger_on_the_port_gets_the_hello_and_nothing_else() {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "task", "before");
    let nonce = "2".repeat(64);
    let strangers = [
        // The hello of a daemon of this very project, without a proof.
        format!(
            r#"{{"ok":true,"hello":{{"version":"0.1.0","protocol":1,"operations":["send"],"project":{{"id":"p","created":"2026-01-10T15:00:00Z"}},"store_id":"{}"}},"req_id":"hello"}}"#,
            "0".repeat(32)
        ),
        format!(
            r#"{{"ok":true,"auth":{{"scheme":"fmail-auth-1","nonce":"{nonce}","proof":"{nonce}"}},"req_id":"hello"}}"#
        ),
        format!(
            r#"{{"ok":true,"auth":{{"scheme":"fmail-auth-0","nonce":"{nonce}","proof":"{nonce}"}},"req_id":"hello"}}"#
        ),
        r#"{"ok":true,"auth":{}}"#.into(),
        r#"{"ok":false,"error":{"code":"invalid_request","message":"unknown cmd"},"req_id":"hello"}"#.into(),
        r#"{"ok":false,"error":{"code":"denied","message":"\u001b[2Jno","help":"\u0007"}}"#.into(),
        "garbage".into(),
    ];
    for (number, answer) in strangers.iter().enumerate() {
        let (address, heard) = stranger(format!("{answer}\n"));
        let body = format!("secret {number}");
        let sent =
            over(&sandbox, &address.to_string()).env("FMAIL_TCP__TOKEN", TOKEN).args(["send", "task", &body]).ok();
        sent.says(&["the files are used"]);
        assert!(!sent.stderr.trim_end().contains(char::is_control), "{sent}");
        let heard = heard.join().unwrap();
        let hello: Value = serde_json::from_str(&heard).unwrap_or_else(|_| panic!("more than one line: {heard}"));
        assert_eq!((&hello["cmd"], hello["nonce"].as_str().unwrap().len()), (&"hello".into(), 64));
        assert!(!heard.contains("secret") && !heard.contains(TOKEN), "{heard}");
        let stored = sandbox.bodies("alice", &[]);
        assert_eq!(stored.iter().filter(|stored| **stored == body).count(), 1, "{stored:?}");
    }
}

#[test]
fn a_stranger_cannot_hold_a_send_by_saying_little() {
    let sandbox = Sandbox::new();
    sandbox.send("alice", "task", "before");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // A byte now and then keeps any single read from timing out.
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    });
    let sent = over(&sandbox, &address.to_string()).env("FMAIL_TCP__TOKEN", TOKEN).args(["send", "task", "two"]).ok();
    sent.says(&["did not answer in time"]);
    assert_eq!(sandbox.bodies("alice", &[]), ["before", "two"]);
}

#[test]
fn the_token_is_never_shown_and_a_projects_file_may_not_set_it() {
    let sandbox = Sandbox::new();
    let config = sandbox.home().join(".config/fmail");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.toml"), format!("mail.tcp.token = \"{TOKEN}\"\n")).unwrap();
    for args in [&["config", "show", "--origin"][..], &["config", "show", "--json"], &["config", "show"]] {
        let shown = sandbox.fmail().args(args).ok();
        assert!(shown.stdout.contains("not shown") && !shown.stdout.contains(TOKEN), "{shown}");
    }
    let set = format!("mail.tcp.token={OTHER}");
    let refused = sandbox.agent("alice").args(["--set", &set, "send", "task", "x"]).fails(14);
    refused.says(&["mail.tcp.token", "command line", "FMAIL_TCP__TOKEN"]);
    assert!(!refused.stderr.contains(OTHER), "{refused}");
    for (key, value) in [
        ("token", OTHER),
        ("token", ""),
        ("token_file", "/etc/passwd"),
        ("token_file", ""),
        ("tls.authority", "/tmp/evil.pem"),
        ("tls.certificate", ""),
        ("tls.key", "/tmp/evil.key"),
    ] {
        sandbox.write(".fmail/config.toml", format!("mail.tcp.{key} = \"{value}\"\n"));
        let refused = sandbox.agent("alice").args(["send", "task", "x"]).fails(14);
        refused.says(&[&format!("`mail.tcp.{key}`"), "project's file", "config.toml:1"]);
        assert!(!refused.stderr.contains(OTHER), "{refused}");
    }
}
