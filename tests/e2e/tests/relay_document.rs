//! The examples of docs/relay.md do what the document says.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use fmail_e2e::{DEADLINE, Daemon, Sandbox, eventually};

fn document() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/relay.md")).expect("docs/relay.md")
}

fn blocks(language: &str) -> Vec<String> {
    let start = format!("```{language}\n");
    document().split(&start).skip(1).filter_map(|rest| rest.split("```").next()).map(String::from).collect()
}

fn host() -> (Sandbox, Daemon) {
    let sandbox = Sandbox::new();
    sandbox.fmail().args(["init", "--project", "proj-abc123"]).ok();
    let daemon = Daemon::start(&sandbox);
    (sandbox, daemon)
}

#[test]
fn three_commands_pair_two_hosts_and_one_more_ends_it() {
    let [invite, join, status, revoke] = &blocks("bash")[..] else { panic!("{} blocks", blocks("bash").len()) };
    let ((a, _a), (b, _b)) = (host(), host());
    // The document's port may be taken here.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    a.bash("operator", &invite.replace("127.0.0.1:7465", &free.to_string())).ok();
    fs::copy(a.path().join("invitation"), b.path().join("invitation")).unwrap();
    let joined = b.bash("operator", join).ok();
    assert!(joined.stdout.starts_with("paired with "), "{joined}");
    let shown = eventually(DEADLINE.as_secs(), "a link that is up", || {
        let output = b.bash("operator", status).run();
        (output.code == 0).then_some(output)
    });
    let heads = |text: &str| text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(heads(&shown.stdout), heads(&blocks("text")[0]), "{shown}");
    assert!(shown.stdout.contains("authenticated, encrypted"), "{shown}");

    let name = a.fmail().args(["relay", "peers", "--json"]).ok().json()[0]["name"].as_str().unwrap().to_string();
    let ended = a.bash("operator", &revoke.replace("host-b", &name)).ok();
    assert!(ended.stdout.contains(&format!("revoked: {name}")), "{ended}");
    eventually(DEADLINE.as_secs(), "a link that is cut", || (b.bash("operator", status).run().code == 1).then_some(()));
}

#[test]
fn the_configuration_of_the_specification_loads_as_it_stands_and_is_dialled() {
    let yaml = &blocks("yaml")[0];
    // Names that lead nowhere: what matters is that they are dialled.
    let yaml = yaml.replace("host-a", "host-a.invalid").replace("host-b", "host-b.invalid");
    let sandbox = Sandbox::new();
    let config = sandbox.home().join(".config/fmail");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.yaml"), yaml).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let _daemon = Daemon::start_with(&sandbox, |command| command.env("FMAIL_TCP__ADDRESS", &free));
    let status = eventually(DEADLINE.as_secs(), "two peers that were dialled", || {
        let output = sandbox.fmail().args(["relay", "status", "--json"]).run();
        let status = output.json();
        let links = status["relays"][0]["links"].as_array().unwrap().clone();
        assert_eq!((output.code, links.len()), (1, 2), "{status}");
        links.iter().all(|link| link["problem"].is_string()).then_some(links)
    });
    assert_eq!([&status[0]["peer"], &status[1]["peer"]], ["host-a.invalid:7463", "host-b.invalid:7463"]);
    assert!(status.iter().all(|link| link["authenticated"] == false && link["connected"] == false), "{status:?}");
    let shown = sandbox.fmail().args(["config", "show", "--origin"]).ok();
    let peers = shown.stdout.lines().find(|line| line.contains("mail.relay.peers")).unwrap();
    assert!(peers.contains("config.yaml:4"), "{peers}");
}

#[test]
fn every_message_of_the_table_is_one_that_fmail_says() {
    let text = document();
    let table = text.split("## When something is wrong").nth(1).expect("the section");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources: String = ["fmail-cli/src", "fmail-core/src", "fmail-host/src", "forged/src", "transports/src"]
        .iter()
        .map(|directory| read_all(&workspace.join(directory)))
        .collect::<String>()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let mut seen = 0;
    for row in rows {
        // What stands in the place of "…" is filled in; the system's own words follow a colon.
        let said = row.split(['…', ':']).next().unwrap_or_default().trim();
        assert!(sources.contains(said), "nobody says: {said}");
        seen += 1;
    }
    assert!(seen > 10);
}

fn read_all(directory: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&read_all(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
    text
}
