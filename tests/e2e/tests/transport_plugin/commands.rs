//! `fmail` at a daemon that it reaches through a plugin.

use fmail_e2e::{Daemon, Sandbox};

const TOKEN: &str = "correct-horse-battery-staple-0042";

/// The transports that are plugins.
const TRANSPORTS: [&str; 2] = ["ws", "http"];

fn section(transport: &str, address: &str, more: &str) -> String {
    format!("[mail.plugin.{transport}.config]\naddress = {address:?}\n{more}")
}

/// A daemon whose store lives in its process, and commands that reach it through this transport only.
fn over(transport: &str, store: &str, daemons: &str, commands: &str) -> (Sandbox, Daemon, String) {
    let sandbox = Sandbox::new();
    let mail = |transports: &str| format!("store = {store:?}\ntransports = {transports}");
    sandbox.configure(&mail(&format!("[\"unix\", {transport:?}]")), &section(transport, "127.0.0.1:0", daemons));
    let mut daemon = Daemon::start(&sandbox);
    let endpoint = daemon.address(transport);
    let address = endpoint.split('/').next().unwrap_or_default().to_string();
    sandbox.configure(&mail(&format!("[{transport:?}]")), &section(transport, &address, commands));
    (sandbox, daemon, address)
}

#[test]
fn commands_reach_their_daemon_through_a_plugin() {
    for (transport, store) in TRANSPORTS.iter().flat_map(|transport| [(transport, "memory"), (transport, "example-c")])
    {
        let (sandbox, daemon, _) = over(transport, store, "", "");
        let id = sandbox.send("alice", "task", "over a plugin");
        let args = ["watch", "task", "--since", "1h", "--count", "2", "--json"];
        let mut watch = sandbox.agent("bob").args(args).spawn();
        assert_eq!(watch.json()["id"], id);
        sandbox.send("alice", "task", "while it is watched");
        assert_eq!(watch.json()["body"], "while it is watched");
        assert_eq!(watch.wait().code, 0);
        sandbox.send("alice", "@bob", "for bob");
        let inbox = sandbox.agent("bob").args(["inbox", "--json"]).ok();
        assert_eq!(inbox.json_lines().len(), 1, "{inbox}");
        sandbox.agent("bob").args(["reserve", "--exclusive", "src/**"]).ok();
        sandbox.agent("alice").args(["reserve", "--exclusive", "src/main.rs"]).run().says(&["bob"]);
        sandbox.agent("alice").args(["send", "a/b", "x"]).fails(3);
        assert_eq!(sandbox.bodies("bob", &[]), ["over a plugin", "while it is watched", "for bob"]);
        daemon.stop();
    }
}

#[test]
fn a_daemon_that_is_not_there_is_missed_in_the_same_words() {
    for transport in TRANSPORTS {
        let (sandbox, daemon, _) = over(transport, "memory", "", "");
        daemon.stop();
        let output = sandbox.agent("alice").args(["send", "task", "x"]).run();
        assert_ne!(output.code, 0);
        output.says(&["no forged answers that could hold it", "start `forged`"]);
    }
}

#[test]
fn a_token_is_proved_and_a_wrong_one_is_named() {
    let token = |token: &str| format!("token = {token:?}");
    for transport in TRANSPORTS {
        let (sandbox, daemon, address) = over(transport, "memory", &token(TOKEN), &token(TOKEN));
        sandbox.send("alice", "task", "with the token");
        let wrong = section(transport, &address, &token(&TOKEN.replace('4', "5")));
        sandbox.configure(&format!("store = \"memory\"\ntransports = [{transport:?}]"), &wrong);
        let output = sandbox.agent("alice").args(["send", "task", "x"]).run();
        assert_ne!(output.code, 0);
        output.says(&["the token is not the one that is configured", "told nothing but hello"]);
        daemon.stop();
    }
}

#[test]
fn a_plugin_that_cannot_be_loaded_is_named() {
    let sandbox = Sandbox::new();
    sandbox.configure(
        "store = \"memory\"\ntransports = [\"unix\", \"ws\"]",
        "[mail.plugin.ws]\nfile = \"/nowhere/libfmail_ws.so\"",
    );
    sandbox.agent("alice").arg("init").run();
    let output = sandbox.agent("alice").args(["send", "task", "x"]).run();
    assert_ne!(output.code, 0);
    output.says(&["/nowhere/libfmail_ws.so"]);
}

#[test]
fn a_daemon_of_another_project_is_left_alone() {
    for transport in TRANSPORTS {
        let (sandbox, daemon, address) = over(transport, "memory", "", "");
        let stranger = Sandbox::new();
        std::fs::create_dir(stranger.path().join(".fmail")).unwrap();
        let mail = format!("store = \"memory\"\ntransports = [{transport:?}]");
        stranger.configure(&mail, &section(transport, &address, ""));
        let output = stranger.agent("mallory").args(["send", "task", "x"]).run();
        assert_ne!(output.code, 0);
        output.says(&["no forged answers that could hold it"]);
        assert_eq!(sandbox.log("bob", &[]).len(), 0);
        daemon.stop();
    }
}

#[test]
fn a_command_on_the_files_loads_no_transport() {
    let sandbox = Sandbox::new();
    sandbox.configure("transports = [\"ws\"]", "[mail.plugin.ws]\nfile = \"/nowhere/libfmail_ws.so\"");
    let sent = sandbox.agent("alice").args(["send", "task", "x"]).ok();
    assert_eq!(sent.stderr.lines().filter(|line| line.contains("nowhere")).count(), 0, "{sent}");
}
