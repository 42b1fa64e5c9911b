//! Agents who work through their mail: they read, acknowledge and archive, with the daemon and without it.

use std::time::{Duration, Instant};

use fmail_e2e::checker::{Account, Listed, Mark};
use fmail_e2e::{DEADLINE, Output};
use serde_json::Value;

use crate::load::Load;
use crate::sites::{PATIENCE, Site, Sites};

/// Who works on which host. Their mail comes from both.
pub const WORKERS: [&str; 2] = ["clerk", "porter"];

/// The folders, and how `fmail inbox` is asked for each.
const FOLDERS: [(&str, &[&str]); 3] = [("unread", &[]), ("open", &["--all"]), ("archived", &["--archived"])];

/// Takes the oldest mail again and again and does something with each message; every fourth is left for later.
pub fn work(load: &Load, site: &Site) -> Account {
    let agent = WORKERS[site.host];
    let mut marks = Vec::new();
    let mut left = 0;
    load.repeat(Duration::from_millis(500), |number| {
        let transports = if number % 2 == 0 { "unix" } else { "" };
        let limit = (left + 4).to_string();
        let inbox = until_done(site, agent, transports, &["inbox", "--json", "-n", &limit]).json_lines();
        for message in inbox.iter().skip(left) {
            let (id, marker) = (message["id"].as_str().expect("an id"), marker(message));
            let (what, words): (&'static str, &[&str]) = match marks.len() % 4 {
                _ if id.ends_with('7') => {
                    left += 1;
                    continue;
                }
                0 => ("read", &["read", id]),
                1 => ("acked", &["ack", id]),
                2 => ("archived", &["archive", id]),
                _ => ("read", &["mark-read", id]),
            };
            until_done(site, agent, transports, words);
            marks.push(Mark { host: site.host, agent: agent.into(), what, marker });
        }
    });
    Account { marks, ..Account::default() }
}

/// What the workers see of their mail on both hosts, as soon as that is the same: what they did travels behind the messages.
pub fn list_when_same(sites: &Sites) -> Vec<Listed> {
    let sorted = |listed: &[Listed]| -> Vec<Vec<String>> {
        let sort = |folder: &Listed| {
            let mut markers = folder.markers.clone();
            markers.sort();
            markers
        };
        listed.iter().map(sort).collect()
    };
    let end = Instant::now() + Duration::from_secs(PATIENCE);
    loop {
        let [near, far] = sites.both().map(list);
        // In the end the checker says what is wrong.
        if sorted(&near) == sorted(&far) || Instant::now() > end {
            return [near, far].concat();
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// What the workers see of their mail on a host.
fn list(site: &Site) -> Vec<Listed> {
    let folder = |agent: &&str, folder: &(&'static str, &[&str])| {
        let arguments = [&["inbox", "--json", "-n", "1000000"], folder.1].concat();
        let messages = until_done(site, agent, "", &arguments).json_lines();
        Listed {
            host: site.host,
            agent: agent.to_string(),
            folder: folder.0,
            markers: messages.iter().map(marker).collect(),
        }
    };
    WORKERS.iter().flat_map(|agent| FOLDERS.iter().map(move |name| folder(agent, name))).collect()
}

fn marker(message: &Value) -> String {
    message["body"]["marker"].as_str().unwrap_or_else(|| panic!("no marker: {message}")).to_string()
}

/// Runs a command that may be repeated until it says that it is done: the daemon may be killed in the middle of it.
fn until_done(site: &Site, agent: &str, transports: &str, arguments: &[&str]) -> Output {
    let end = Instant::now() + DEADLINE;
    loop {
        let output = site.sandbox.agent(agent).env("FMAIL_TRANSPORTS", transports).args(arguments).run();
        if output.code == 0 {
            return output;
        }
        assert!(Instant::now() < end, "fmail {arguments:?} of {agent} is not done within {DEADLINE:?}\n{output}");
        println!("once more: fmail {arguments:?} of {agent}: {}", output.stderr.trim_end());
    }
}
