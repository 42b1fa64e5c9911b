//! Two hosts that are paired: what each of them types, and what comes of it. A host is a home of its own.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fmail_e2e::{DEADLINE, Daemon, Fmail, Output, Sandbox, eventually};
use serde_json::Value;

const PROJECT: &str = "proj-paired";

/// A host: its files, and a daemon.
struct Host {
    sandbox: Sandbox,
    daemon: Daemon,
}

impl Host {
    fn new() -> Host {
        let sandbox = Sandbox::new();
        sandbox.fmail().args(["init", "--project", PROJECT]).ok();
        let daemon = Daemon::start(&sandbox);
        Host { sandbox, daemon }
    }

    fn relay(&self, args: &[&str]) -> Fmail {
        self.sandbox.agent("operator").arg("relay").args(args)
    }

    fn invite(&self, args: &[&str]) -> (String, Output) {
        let address = format!("127.0.0.1:{}", free_port());
        let listen = ["--address", &address, "--listen", &address];
        let output = self.relay(&["invite"]).args(listen).args(args).ok();
        (output.stdout.trim_end().to_string(), output)
    }

    fn status(&self) -> (i32, Value) {
        let output = self.relay(&["status", "--json"]).run();
        assert!(matches!(output.code, 0 | 1), "{output}");
        (output.code, output.json())
    }

    /// Waits until every link is up, and there is one.
    fn await_up(&self) -> Value {
        eventually(DEADLINE.as_secs(), "links that are up", || {
            let (code, status) = self.status();
            (code == 0).then_some(status)
        })
    }

    fn await_body(&self, body: &str) {
        eventually(DEADLINE.as_secs(), body, || {
            self.sandbox.bodies("reader", &["task"]).iter().any(|known| known == body).then_some(())
        });
    }

    /// Where the pairings lie.
    fn kept(&self) -> PathBuf {
        self.sandbox.home().join(".local/share/fmail/relay")
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn accepts(a: &Host, b: &Host) -> Output {
    let (invitation, _) = a.invite(&[]);
    // The daemon sees the invitation within a second.
    eventually(DEADLINE.as_secs(), "an invitation that is accepted", || {
        let output = b.relay(&["join", "--json"]).stdin(invitation.as_str()).run();
        (output.code == 0 && output.json()["reached"] == true).then_some(output)
    })
}

#[test]
fn two_commands_pair_two_hosts_that_run_already_and_messages_go_both_ways() {
    let (a, b) = (Host::new(), Host::new());
    a.sandbox.send("alice", "task", "from a, before");
    b.sandbox.send("bob", "task", "from b, before");
    let joined = accepts(&a, &b).json();
    assert_eq!(
        (&joined["project"], &joined["encrypted"], &joined["daemon"]),
        (&PROJECT.into(), &true.into(), &true.into())
    );
    for host in [&a, &b] {
        let link = host.await_up()["relays"][0]["links"][0].clone();
        assert_eq!((&link["authenticated"], &link["encrypted"]), (&true.into(), &true.into()), "{link}");
        host.await_body("from a, before");
        host.await_body("from b, before");
    }
    a.sandbox.send("alice", "task", "from a, after");
    b.await_body("from a, after");
    b.sandbox.send("bob", "task", "from b, after");
    a.await_body("from b, after");
    let table = b.relay(&["status"]).ok();
    assert!(table.stdout.starts_with("PEER ") && table.stdout.contains("authenticated, encrypted"), "{table}");
    let (peers, other) = (a.relay(&["peers", "--json"]).ok().json(), b.relay(&["peers"]).ok());
    assert_eq!((&peers[0]["kind"], &peers[0]["state"]), (&"invited".into(), &"paired".into()), "{peers}");
    assert!(other.stdout.contains("joined") && other.stdout.contains("paired since"), "{other}");
}

#[test]
fn what_is_revoked_is_cut_without_a_restart_and_opens_nothing_any_more() {
    let (a, b) = (Host::new(), Host::new());
    accepts(&a, &b);
    b.await_up();
    let name = a.relay(&["peers", "--json"]).ok().json()[0]["name"].as_str().unwrap().to_string();
    let revoked = a.relay(&["revoke", &name, "--json"]).ok().json();
    assert_eq!((&revoked["revoked"], &revoked["name"]), (&true.into(), &name.as_str().into()));
    let problem = eventually(DEADLINE.as_secs(), "a link that is cut", || {
        let (code, status) = b.status();
        let problem = status["relays"][0]["links"][0]["problem"].as_str().unwrap_or_default().to_string();
        (code == 1 && problem.contains("revoked")).then_some(problem)
    });
    assert!(!problem.is_empty());
    a.sandbox.send("alice", "task", "after the end");
    let (code, status) = a.status();
    assert_eq!((code, status["relays"].as_array().map(Vec::len)), (1, Some(0)), "{status}");
    assert_eq!(a.relay(&["revoke", &name]).run().code, 7, "there is nothing left to revoke");
    assert!(!b.sandbox.bodies("reader", &["task"]).contains(&"after the end".to_string()));
}

#[test]
fn a_refused_connection_is_told_as_one_and_the_status_right_behind_it_knows_the_peer() {
    let (a, b) = (Sandbox::new(), Host::new());
    a.fmail().args(["init", "--project", PROJECT]).ok();
    // Nobody runs forged there yet.
    let address = format!("127.0.0.1:{}", free_port());
    let invited = a.agent("operator").args(["relay", "invite", "--address", &address, "--listen", &address]).ok();
    let joined = b.relay(&["join"]).stdin(invited.stdout.trim_end()).ok();
    assert!(joined.stdout.contains("has not answered yet"), "{joined}");
    assert!(joined.stderr.contains("was refused") && joined.stderr.contains("start forged"), "{joined}");
    // Without a wait: the daemon looks when it is asked.
    let (code, status) = b.status();
    let links = status["relays"][0]["links"].as_array().cloned().unwrap_or_default();
    assert_eq!((code, links.len()), (1, 1), "{status}");
    assert!(links[0]["problem"].is_string(), "{status}");
    // The host that has invited tells of its peer too, once that has accepted, and behind a new start.
    let daemon = Daemon::start(&a);
    b.await_up();
    drop(b.daemon);
    drop(daemon);
    let _again = Daemon::start(&a);
    let told = a.agent("operator").args(["relay", "status"]).run();
    assert_eq!(told.code, 1, "{told}");
    assert!(told.stdout.contains("has not connected since this forged began"), "{told}");
}

#[test]
fn a_pairing_that_others_may_read_is_noticed_while_the_daemon_runs() {
    let (a, b) = (Host::new(), Host::new());
    accepts(&a, &b);
    b.await_up();
    let files = walked(&b.kept());
    let file = files.iter().find(|path| path.extension().is_some_and(|extension| extension == "json")).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    // It is told at once; the daemon cuts the link when it looks next.
    let told = b.relay(&["status"]).run();
    assert!(told.stderr.contains("is not used") && told.stderr.contains("0644"), "{told}");
    eventually(DEADLINE.as_secs(), "a link that is cut", || (b.relay(&["status"]).run().code == 1).then_some(()));
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    b.await_up();
}

#[test]
fn a_path_that_is_held_on_another_host_is_granted_here_and_is_a_conflict() {
    let (a, b) = (Host::new(), Host::new());
    accepts(&a, &b);
    b.await_up();
    a.sandbox.agent("alice").args(["reserve", "src/a.rs", "--exclusive"]).ok();
    let reserve = |json: &[&str]| b.sandbox.agent("bob").args(["reserve", "src/a.rs", "--exclusive"]).args(json).run();
    let told = eventually(DEADLINE.as_secs(), "a reservation of the other host", || {
        let told = reserve(&[]);
        (told.code != 0).then_some(told)
    });
    assert_eq!(told.code, 8, "{told}");
    assert!(told.stdout.contains("src/a.rs until"), "granted here all the same: {told}");
    for part in
        ["was granted to you here, and is held by @alice on ", "until ", "held on another host too", "fmail release"]
    {
        assert!(told.stderr.contains(part), "{part}: {told}");
    }
    let told = reserve(&["--json"]);
    assert_eq!(told.code, 8, "{told}");
    let answer = told.json();
    assert_eq!(answer["granted"][0]["pattern"], "src/a.rs", "{answer}");
    assert_eq!(answer["conflicts"][0]["holders"][0]["agent"], "alice", "{answer}");
    a.sandbox.agent("alice").args(["send", "task", "hello"]).ok();
    b.sandbox.agent("bob").args(["send", "task", "hello"]).ok();
    // Both run on one machine, so that they have one name: told by the node, and not by that.
    eventually(DEADLINE.as_secs(), "both agents, each with its host", || {
        let who = b.sandbox.agent("bob").arg("who").ok();
        let line = |name: &str| who.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_string();
        (line("alice").contains('#') && line("bob").contains("here")).then_some(())
    });
}

#[test]
fn an_invitation_is_for_one_host_one_project_and_a_while() {
    let (a, b, c) = (Host::new(), Host::new(), Host::new());
    let (invitation, _) = a.invite(&["--name", "first"]);
    eventually(DEADLINE.as_secs(), "an invitation that is accepted", || {
        (b.relay(&["join", "--json"]).stdin(invitation.as_str()).ok().json()["reached"] == true).then_some(())
    });
    let second = c.relay(&["join"]).stdin(invitation.as_str()).run();
    assert_eq!(second.code, 9, "{second}");
    assert!(second.stderr.contains("accepted already"), "{second}");
    let none: Vec<Value> = serde_json::from_value(c.relay(&["peers", "--json"]).ok().json()).unwrap();
    assert!(none.is_empty(), "what was refused is not kept: {none:?}");

    let elsewhere = Sandbox::new();
    elsewhere.fmail().args(["init", "--project", "proj-other"]).ok();
    let other = elsewhere.agent("operator").args(["relay", "join", &invitation]).run();
    assert_eq!(other.code, 5, "{other}");
    assert!(other.stderr.contains(PROJECT) && other.stderr.contains("proj-other"), "{other}");

    let (cut, _) = a.invite(&[]);
    let cut = c.relay(&["join"]).stdin(&cut[..cut.len() - 7]).run();
    assert!(cut.code == 2 && cut.stderr.contains("not whole"), "{cut}");

    let (short, _) = a.invite(&["--expires", "1s"]);
    let expired = eventually(DEADLINE.as_secs(), "an invitation that has expired", || {
        let id = a.relay(&["peers", "--json"]).ok().json();
        let over = id.as_array().unwrap().iter().any(|peer| peer["state"] == "expired");
        over.then(|| c.relay(&["join"]).stdin(short.as_str()).run())
    });
    // Either the daemon says so, or it does not listen for it any more; nobody gets in.
    assert!(expired.code == 9 || !expired.stdout.contains("answered in"), "{expired}");
}

#[test]
fn secrets_lie_where_nobody_else_reads_them_and_in_no_project() {
    let (a, b) = (Host::new(), Host::new());
    let (invitation, told) = a.invite(&[]);
    assert!(told.stderr.contains(PROJECT) && told.stderr.contains("fmail relay join"), "{told}");
    b.relay(&["join"]).stdin(invitation.as_str()).ok();
    for host in [&a, &b] {
        let files = walked(&host.kept());
        assert!(files.iter().any(|path| path.extension().is_some_and(|extension| extension == "json")));
        for path in files {
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
        }
        let project: String = walked(&host.sandbox.path())
            .into_iter()
            .filter(|path| path.is_file())
            .filter_map(|path| fs::read_to_string(path).ok())
            .collect();
        assert!(!project.contains("secret") && !project.contains("claim"));
    }
    let shown = format!("{}{}", a.relay(&["peers", "--json"]).ok(), b.relay(&["peers", "--json"]).ok());
    assert!(!shown.contains("secret") && !shown.contains("\"key\""), "{shown}");
}

#[test]
fn without_a_daemon_status_is_a_failure_and_never_an_empty_list() {
    let sandbox = Sandbox::new();
    sandbox.fmail().args(["init", "--project", PROJECT]).ok();
    let status = sandbox.fmail().args(["relay", "status", "--json"]).run();
    assert_eq!(status.code, 12, "{status}");
    assert!(status.stdout.is_empty() && status.stderr.contains("no forged serves this project"), "{status}");
    let _daemon = Daemon::start(&sandbox);
    let status = sandbox.fmail().args(["relay", "status"]).run();
    assert_eq!(status.code, 1, "{status}");
    assert!(status.stdout.is_empty() && status.stderr.contains("fmail relay invite"), "{status}");
    assert!(status.stderr.contains("mail.relay.enabled"), "{status}");
}

#[test]
fn peers_of_a_project_that_is_not_trusted_are_not_dialled_and_that_is_said() {
    let sandbox = Sandbox::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let spec = format!("mail:\n  relay:\n    enabled: true\n    peers:\n      - \"{address}\"\n");
    sandbox.write(".fmail/config.yaml", spec);
    let _daemon = Daemon::start(&sandbox);
    let status = sandbox.fmail().args(["relay", "status"]).run();
    assert_eq!(status.code, 1, "{status}");
    assert!(status.stderr.contains("mail.relay.peers") && status.stderr.contains("fmail trust"), "{status}");
    let peers = sandbox.fmail().args(["relay", "peers"]).ok();
    assert!(peers.stdout.contains("not dialled"), "{peers}");
    assert!(listener.accept().is_err(), "it was dialled");
}

#[test]
fn the_daemon_takes_pairings_up_again_when_it_is_started_again() {
    let (a, b) = (Host::new(), Host::new());
    accepts(&a, &b);
    b.await_up();
    let Host { sandbox, daemon } = b;
    daemon.stop();
    a.sandbox.send("alice", "task", "while it was gone");
    let b = Host { daemon: Daemon::start(&sandbox), sandbox };
    b.await_body("while it was gone");
    b.daemon.stop();
}

#[test]
fn a_paired_host_that_is_not_there_is_shown_as_paired_and_never_as_unauthenticated() {
    let (a, b) = (Host::new(), Host::new());
    accepts(&a, &b);
    a.await_up();
    b.await_up();
    let told = |sandbox: &Sandbox| {
        let json = sandbox.agent("operator").args(["relay", "status", "--json"]).run();
        let link = json.json()["relays"][0]["links"][0].clone();
        let table = sandbox.agent("operator").args(["relay", "status"]).run();
        (json.code == 1 && link["connected"] == false).then_some((link, table))
    };
    let is_right = |sandbox: &Sandbox| {
        let (link, table) = eventually(DEADLINE.as_secs(), "a link that is down", || told(sandbox));
        assert_eq!((&link["authentication"], &link["encrypted"]), (&"paired".into(), &true.into()), "{link}");
        assert!(table.stdout.contains("paired, encrypted"), "{table}");
        assert!(!table.stdout.contains("unauthenticated"), "{table}");
    };
    let (Host { sandbox: a, daemon: of_a }, Host { sandbox: b, daemon: of_b }) = (a, b);
    of_b.stop();
    is_right(&a);
    // Behind a new start nothing but the pairing tells of it.
    of_a.stop();
    let of_a = Daemon::start(&a);
    is_right(&a);
    // And the one that dials has never reached the other.
    of_a.stop();
    let _of_b = Daemon::start(&b);
    is_right(&b);
}

#[test]
fn reservations_of_two_hosts_that_overlap_are_shown_as_conflicts_on_both() {
    let (a, b) = (Host::new(), Host::new());
    accepts(&a, &b);
    b.await_up();
    a.sandbox.agent("alice").args(["reserve", "src/a.rs", "--exclusive"]).ok();
    b.sandbox.agent("bob").args(["reserve", "src/**", "--exclusive"]).run();
    for (host, own, other) in [(&a, "alice", "bob"), (&b, "bob", "alice")] {
        let held = eventually(DEADLINE.as_secs(), "reservations of both hosts", || {
            let held = host.sandbox.agent("carol").args(["reservations", "--json"]).ok().json();
            (held.as_array().map(Vec::len) == Some(2)).then_some(held)
        });
        for (agent, against) in [(own, other), (other, own)] {
            let lease = held.as_array().unwrap().iter().find(|lease| lease["agent"] == agent).unwrap();
            assert_eq!(lease["conflicts"].as_array().map(Vec::len), Some(1), "{held}");
            let conflict = &lease["conflicts"][0];
            assert_eq!(conflict["agent"], against, "{held}");
            assert!(conflict["host"].is_string(), "{held}");
        }
        let table = host.sandbox.agent("carol").arg("reservations").ok();
        assert!(table.stdout.contains(&format!("conflicts with @{own} on this host (")), "{table}");
        assert!(table.stdout.contains(&format!("conflicts with @{other} on ")), "{table}");
    }
}

#[test]
fn a_host_that_is_paired_twice_is_one_link_on_both_sides() {
    let (a, b) = (Host::new(), Host::new());
    let links = |host: &Host| {
        let (code, status) = host.status();
        (code, status["relays"][0]["links"].as_array().map(Vec::len).unwrap_or_default())
    };
    accepts(&a, &b);
    b.await_up();
    let name = b.relay(&["peers", "--json"]).ok().json()[0]["name"].clone();
    // Nothing was wrong, and they are paired again; then once more, since it was revoked.
    for round in 0..2 {
        let before = b.relay(&["peers", "--json"]).ok().json()[0]["id"].clone();
        let joined = accepts(&a, &b).json();
        assert_eq!((&joined["replaced"][0], &joined["name"]), (&name, &name), "{joined}");
        let peers = b.relay(&["peers", "--json"]).ok().json();
        assert_eq!(peers.as_array().map(Vec::len), Some(1), "{peers}");
        assert!(peers[0]["name"] == name && peers[0]["id"] != before && peers[0]["state"] == "paired", "{peers}");
        for host in [&a, &b] {
            eventually(DEADLINE.as_secs(), "one link, which is up", || (links(host) == (0, 1)).then_some(()));
        }
        let body = format!("from a, in round {round}");
        a.sandbox.send("alice", "task", &body);
        b.await_body(&body);
        if round == 0 {
            let peers = a.relay(&["peers", "--json"]).ok().json();
            let told: Vec<&Value> =
                peers.as_array().unwrap().iter().filter(|peer| peer["same_host"].is_string()).collect();
            assert!(told.len() == 1 && peers.as_array().unwrap().len() == 2, "{peers}");
            for peer in peers.as_array().unwrap() {
                a.relay(&["revoke", peer["name"].as_str().unwrap()]).ok();
            }
        }
    }
    // Nobody has connected yet, and still it is one host.
    // Both keep their projects until they have ended: a daemon whose project goes ends by itself, and not well.
    let (Host { sandbox, daemon }, Host { daemon: other, sandbox: _others }) = (a, b);
    other.stop();
    daemon.stop();
    let a = Host { daemon: Daemon::start(&sandbox), sandbox };
    assert_eq!(links(&a), (1, 1));
}

#[test]
fn who_accepts_an_invitation_that_another_host_has_taken_is_told_and_keeps_nothing() {
    let project = || {
        let sandbox = Sandbox::new();
        sandbox.fmail().args(["init", "--project", PROJECT]).ok();
        sandbox
    };
    let (a, b, c, d) = (project(), project(), project(), Host::new());
    let join =
        |sandbox: &Sandbox, invitation: &str| sandbox.agent("operator").args(["relay", "join"]).stdin(invitation).run();
    let peers = |sandbox: &Sandbox| sandbox.agent("operator").args(["relay", "peers", "--json"]).ok().json();
    let address = format!("127.0.0.1:{}", free_port());
    let invited = a.agent("operator").args(["relay", "invite", "--address", &address, "--listen", &address]).ok();
    let invitation = invited.stdout.trim_end();
    // As long as nobody answers, nobody is paired, and that is what is said.
    let kept = join(&c, invitation);
    assert!(kept.code == 0 && !kept.stdout.contains("paired with"), "{kept}");
    assert!(kept.stdout.contains("kept the invitation") && kept.stdout.contains("has not answered yet"), "{kept}");
    assert_eq!(peers(&c)[0]["state"], "waiting", "{}", peers(&c));
    let daemon = Daemon::start(&a);
    eventually(DEADLINE.as_secs(), "an invitation that is accepted", || {
        join(&b, invitation).stdout.contains("paired with").then_some(())
    });
    assert_eq!(peers(&b)[0]["state"], "paired", "{}", peers(&b));
    // Who asks is told, who had asked before too, and keeps nothing.
    let taken = join(&c, invitation);
    assert_eq!(taken.code, 9, "{taken}");
    assert!(taken.stderr.contains("accepted already") && taken.stderr.contains("fmail relay invite"), "{taken}");
    assert_eq!(peers(&c).as_array().map(Vec::len), Some(0), "{}", peers(&c));
    // Who could not ask is told by its daemon.
    daemon.stop();
    let kept = join(&d.sandbox, invitation);
    assert!(kept.code == 0 && !kept.stdout.contains("paired with"), "{kept}");
    let _again = Daemon::start(&a);
    eventually(DEADLINE.as_secs(), "a status that tells who was faster", || {
        let problem = d.status().1["relays"][0]["links"][0]["problem"].as_str().unwrap_or_default().to_string();
        problem.contains("accepted already").then_some(())
    });
    assert_eq!(peers(&d.sandbox)[0]["state"], "waiting", "{}", peers(&d.sandbox));
}

fn walked(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walked(&path));
        }
        found.push(path);
    }
    found
}
