//! Starting, ending, dying, and who may serve what.

mod common;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use common::{Place, Raw, output, stored};
use rustix::process::Signal;

fn send(body: &str) -> String {
    format!(r#"{{"cmd":"send","agent":"a","to":"task","body":{body}}}"#)
}

#[test]
fn it_serves_the_project_it_is_started_in_and_cleans_up() {
    let place = Place::new();
    let inner = place.root().join("deep/inside");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::create_dir(place.root().join(".fmail")).unwrap();
    let mut daemon = place.start_in(&inner, &[]);
    let socket = place.root().join(".fmail/forged.sock");
    let metadata = socket.symlink_metadata().unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(place.connect().ask(&send("1"))["ok"], true);
    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success());
    assert!(!socket.exists());
}

#[test]
fn fmail_root_says_which_project() {
    let place = Place::new();
    let mut command = place.command(place.top.path(), &[]);
    command.env("FMAIL_ROOT", place.root());
    let _daemon = place.launch(command);
    assert_eq!(place.connect().ask(&send("1"))["ok"], true);
}

#[test]
fn two_daemons_never_serve_one_root() {
    let place = Place::new();
    let mut daemon = place.start(&[]);
    let (code, _, stderr) = output(place.command(&place.root(), &[]));
    assert_eq!(code, 8, "{stderr}");
    assert!(stderr.contains(&daemon.child.id().to_string()) && stderr.contains("forged stop"), "{stderr}");
    assert_eq!(place.connect().ask(&send("1"))["ok"], true);
    daemon.kill();
    let _next = place.start(&[]);
    assert_eq!(place.connect().ask(&send("2"))["ok"], true);
}

#[test]
fn without_a_project_it_needs_something_to_listen_on() {
    let place = Place::new();
    let (code, _, stderr) = output(place.command(&place.root(), &["--no-project"]));
    assert_eq!(code, 14, "{stderr}");
    assert!(stderr.contains("mail.transports") && stderr.contains("FMAIL_TRANSPORTS=http"), "{stderr}");
    for with in ["somewhere", "--tcp"] {
        let (code, _, stderr) = output(place.command(&place.root(), &["--no-project", with]));
        assert_eq!(code, 2, "{stderr}");
    }
    for action in ["status", "stop"] {
        let (code, stdout, _) = output(place.command(&place.root(), &[action, "--no-project"]));
        assert!(code == 1 && stdout.contains(".local/share/fmail/forged"), "{stdout}");
    }
    assert!(!place.root().join(".fmail").exists());
}

#[test]
fn of_many_that_start_at_once_one_serves() {
    let place = Place::new();
    let mut starting: Vec<_> = (0..6).map(|_| place.command(&place.root(), &[]).spawn().unwrap()).collect();
    let end = Instant::now() + common::DEADLINE;
    loop {
        let running = starting.iter_mut().filter_map(|one| one.try_wait().unwrap().is_none().then_some(())).count();
        assert!(running >= 1 && Instant::now() < end);
        // The last one may still be on its way to where it listens.
        if running == 1 && UnixStream::connect(place.root().join(".fmail/forged.sock")).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(place.connect().ask(&send("1"))["ok"], true);
    for mut one in starting {
        let _ = one.kill();
        let _ = one.wait();
    }
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let place = Place::new();
    let socket = place.root().join(".fmail/forged.sock");
    std::fs::create_dir(place.root().join(".fmail")).unwrap();
    let other = UnixListener::bind(&socket).unwrap();
    let (code, _, stderr) = output(place.command(&place.root(), &[]));
    assert!(code == 8 && stderr.contains("another daemon answers"), "{stderr}");
    drop(other);
    let daemon = place.start(&[]);
    assert_eq!(place.connect().ask(&send("1"))["ok"], true);
    drop(daemon);
    std::fs::remove_file(&socket).unwrap();
    std::fs::write(&socket, "precious").unwrap();
    let (code, _, stderr) = output(place.command(&place.root(), &[]));
    assert!(code == 8 && stderr.contains("not a socket"), "{stderr}");
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "precious");
}

#[test]
fn roots_deeper_than_the_socket_path_limit_work() {
    let place = Place::new();
    let deep = place.root().join("x".repeat(100)).join("y".repeat(100));
    std::fs::create_dir_all(deep.join(".fmail")).unwrap();
    let mut daemon = place.start_in(&deep, &[]);
    let directory = std::fs::File::open(deep.join(".fmail")).unwrap();
    let short = format!("/proc/self/fd/{}/forged.sock", std::os::fd::AsRawFd::as_raw_fd(&directory));
    assert_eq!(Raw::unix(short.as_ref()).ask(&send("1"))["ok"], true);
    assert_eq!(stored(&deep, "task").len(), 1);
    let (code, stdout, _) = output(place.command(&deep, &["status"]));
    assert!(code == 0 && stdout.contains("serves"), "{stdout}");
    daemon.signal(Signal::TERM);
    assert!(daemon.wait().success());
    assert!(!deep.join(".fmail/forged.sock").exists());
}

#[test]
fn status_and_stop_tell_of_a_directory_whose_name_is_not_utf_8() {
    let place = Place::new();
    let root = place.root().join(OsStr::from_bytes(b"n\xff"));
    std::fs::create_dir(&root).unwrap();
    let ask = |words: &[&str]| {
        let (code, stdout, stderr) = output(place.command(&root, words));
        assert!(stdout.contains("n\u{fffd}") || words == ["stop"], "{stdout}{stderr}");
        (code, stdout)
    };
    for action in ["status", "stop"] {
        assert_eq!(ask(&[action, "--json"]).0, 1);
        assert_eq!(output(place.command(&root, &[action])).0, 1);
    }
    let mut daemon = place.start_in(&root, &[]);
    assert_eq!(ask(&["status"]).0, 0);
    let (code, status) = ask(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!((code, &status["process"]), (0, &daemon.child.id().into()));
    assert!(status["root"].as_str().unwrap().ends_with("/n\u{fffd}"), "{status}");
    assert_eq!(ask(&["stop", "--json"]).0, 0);
    assert!(daemon.wait().success());
}

#[test]
fn status_and_stop_tell_what_is_there() {
    let place = Place::new();
    assert_eq!(output(place.command(&place.root(), &["status"])).0, 1);
    assert_eq!(output(place.command(&place.root(), &["stop"])).0, 1);
    let mut daemon = place.start(&[]);
    let (code, stdout, _) = output(place.command(&place.root(), &["status", "--json"]));
    let status: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &status["running"], &status["process"]), (0, &true.into(), &daemon.child.id().into()));
    let (code, stdout, stderr) = output(place.command(&place.root(), &["stop"]));
    assert!(code == 0 && stdout.contains("has ended"), "{stdout}{stderr}");
    assert!(daemon.wait().success());
    assert_eq!(output(place.command(&place.root(), &["status"])).0, 1);
}

#[test]
fn tcp_serves_many_projects_and_needs_their_id() {
    let place = Place::new();
    let (one, two) = (place.top.path().join("one"), place.top.path().join("two"));
    std::fs::create_dir(&one).unwrap();
    std::fs::create_dir(&two).unwrap();
    let roots = [one.to_str().unwrap(), two.to_str().unwrap()];
    let daemon = place.start(&["--tcp=127.0.0.1:0", roots[0], roots[1]]);
    let id_of = |root: &std::path::Path| {
        let text = std::fs::read_to_string(root.join(".fmail/project.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["id"].as_str().unwrap().to_string()
    };
    let mut raw = Raw::tcp(&daemon.tcp());
    let answer = raw.refused(r#"{"cmd":"watch","agent":"a","req_id":"w1"}"#, "invalid_request");
    assert_eq!((&answer["error"]["message"], &answer["req_id"]), (&"missing project_id".into(), &"w1".into()));
    raw.refused(r#"{"cmd":"send","agent":"a","project_id":"other","to":"task","body":1}"#, "invalid_project");
    for (root, body) in [(&one, 1), (&two, 2)] {
        let id = id_of(root);
        let line = format!(r#"{{"cmd":"send","agent":"a","project_id":"{id}","to":"task","body":{body}}}"#);
        assert_eq!(raw.ask(&line)["ok"], true);
        assert_eq!(stored(root, "task")[0]["body"], body);
        assert_eq!(Raw::unix(&root.join(".fmail/forged.sock")).ask(&send("3"))["ok"], true);
    }
}

#[test]
fn two_clones_have_their_sockets_and_one_tcp_route() {
    let place = Place::new();
    let roots: Vec<_> = ["one", "two"].iter().map(|name| place.top.path().join(name)).collect();
    for root in &roots {
        std::fs::create_dir_all(root.join(".fmail")).unwrap();
        let record = r#"{"id":"proj-clone","created":"2026-01-10T15:00:00Z"}"#;
        std::fs::write(root.join(".fmail/project.json"), record).unwrap();
    }
    let names: Vec<&str> = roots.iter().map(|root| root.to_str().unwrap()).collect();
    let daemon = place.start(&["--tcp=127.0.0.1:0", names[0], names[1]]);
    let told = daemon.log().lines().any(|line| line.contains("WARN") && names.iter().all(|name| line.contains(name)));
    assert!(told, "{}", daemon.log());
    let line = r#"{"cmd":"send","agent":"a","project_id":"proj-clone","to":"task","body":1}"#;
    assert_eq!(Raw::tcp(&daemon.tcp()).ask(line)["ok"], true);
    assert_eq!((stored(&roots[0], "task").len(), stored(&roots[1], "task").len()), (1, 0));
    let hello = |root: &std::path::Path| {
        let answer = Raw::unix(&root.join(".fmail/forged.sock")).ask(r#"{"cmd":"hello","agent":"a"}"#);
        answer["hello"]["store_id"].as_str().unwrap().to_string()
    };
    assert_ne!(hello(&roots[0]), hello(&roots[1]));
}

#[test]
fn beyond_loopback_nothing_is_served_unprotected() {
    let place = Place::new();
    let (code, _, stderr) = output(place.command(&place.root(), &["--tcp=0.0.0.0:0"]));
    assert!(code == 9 && stderr.contains("--insecure"), "{stderr}");
    let _daemon = place.start(&["--tcp=0.0.0.0:0", "--insecure"]);
}

#[test]
fn the_configuration_can_turn_tcp_on_but_not_a_projects_own_file() {
    let place = Place::new();
    std::fs::create_dir(place.root().join(".fmail")).unwrap();
    let listen = "[mail.tcp]\nlisten = true\naddress = \"127.0.0.1:0\"\n";
    std::fs::write(place.root().join(".fmail/config.toml"), listen).unwrap();
    let daemon = place.start(&[]);
    assert!(!daemon.log().contains("tcp://"), "{}", daemon.log());
    drop(daemon);
    std::fs::remove_file(place.root().join(".fmail/config.toml")).unwrap();
    let user = place.top.path().join("home/.config/fmail");
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(user.join("config.toml"), listen).unwrap();
    let daemon = place.start(&[]);
    Raw::tcp(&daemon.tcp()).refused(r#"{"cmd":"who","agent":"a"}"#, "invalid_request");
    std::fs::write(user.join("config.toml"), "[mail.tcp]\nlisten = true\naddress = \"0.0.0.0:0\"\n").unwrap();
    drop(daemon);
    let (code, _, stderr) = output(place.command(&place.root(), &[]));
    assert!(code == 9 && stderr.contains("mail.tcp.insecure"), "{stderr}");
}

#[test]
fn a_directory_that_is_replaced_ends_the_daemon() {
    let place = Place::new();
    let mut daemon = place.start(&[]);
    std::fs::rename(place.root().join(".fmail"), place.root().join("moved")).unwrap();
    assert!(!daemon.wait().success());
    assert!(daemon.log().contains("removed or replaced"), "{}", daemon.log());
}

#[test]
fn the_end_drains_what_is_under_way() {
    let place = Place::new();
    let mut daemon = place.start(&[]);
    let mut watcher = place.connect();
    watcher.ask(r#"{"cmd":"watch","agent":"a","req_id":"w1"}"#);
    let mut sender = place.connect();
    let lines: String = (0..20).map(|n| send(&n.to_string()) + "\n").collect();
    sender.bytes(&lines);
    assert_eq!(sender.json()["ok"], true);
    daemon.signal(Signal::TERM);
    // All lines were there before the end came, so all are answered; then the connection is closed.
    let mut answered = 1;
    while let line = sender.line()
        && !line.is_empty()
    {
        assert!(line.starts_with("{\"ok\":true"), "{line}");
        answered += 1;
    }
    assert_eq!((answered, place.stored("task").len()), (20, 20));
    let end = std::iter::repeat_with(|| watcher.json()).find(|line| line["msg"].is_null()).unwrap();
    assert_eq!((&end["error"]["code"], &end["error"]["retryable"]), (&"unavailable".into(), &true.into()));
    watcher.closed();
    assert!(daemon.wait().success());
}
