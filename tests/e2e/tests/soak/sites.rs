//! Two hosts that relay: each has a project, a home and a daemon that comes and goes; between them is a link that fails.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use fmail_e2e::{Daemon, Sandbox, Serving, Wire, eventually};
use fmail_relay_tests::{Link, Links};
use serde_json::{Value, json};

/// How long hosts may take until they hold the same. After a flood, everything has to pass a link that was down.
pub const PATIENCE: u64 = 300;

/// A host.
pub struct Site {
    pub host: usize,
    pub sandbox: Sandbox,
    pub serving: Serving,
}

/// Both hosts. The second dials the first, through the link.
pub struct Sites {
    pub near: Site,
    pub far: Site,
    pub link: Link,
    _links: Links,
}

impl Sites {
    pub fn new() -> Sites {
        // Addresses of this process alone: no other program's connection takes the port while a daemon is away.
        let process = std::process::id();
        let address = |host: u8| -> SocketAddr {
            (Ipv4Addr::new(127, 90 + host, (process >> 8) as u8, process as u8), 7463).into()
        };
        let links = Links::start(None).expect("a thread for the link");
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        let link = links.open(listen, address(0), Ipv4Addr::LOCALHOST).expect("a link on loopback");
        let near = Site::new(0, address(0), &[]);
        let far = Site::new(1, address(1), &[link.address()]);
        Sites { near, far, link, _links: links }
    }

    pub fn both(&self) -> [&Site; 2] {
        [&self.near, &self.far]
    }

    pub fn stores(&self) -> [PathBuf; 2] {
        self.both().map(|site| site.sandbox.store())
    }

    /// Waits until both hosts say that the link is up and that nothing waits for it.
    pub fn await_link(&self) {
        for site in self.both() {
            eventually(PATIENCE, "a link that is up and has nothing to send", || {
                let status = site.relay_status()?;
                let links = status["relays"].as_array()?.iter().filter_map(|relay| relay["links"].as_array()).flatten();
                let idle = |link: &Value| link["connected"] == true && link["queued"].as_u64().unwrap_or(0) == 0;
                let (mut number, mut all) = (0, true);
                links.for_each(|link| (number, all) = (number + 1, all && idle(link)));
                (number > 0 && all).then_some(())
            });
        }
    }

    /// Waits until both hosts have as many messages in each mailbox.
    pub fn await_same(&self) {
        let mut last = [BTreeMap::new(), BTreeMap::new()];
        let same = || {
            last = self.both().map(Site::mailboxes);
            (last[0] == last[1]).then_some(())
        };
        let patience = std::panic::AssertUnwindSafe(|| eventually(PATIENCE, "two hosts with the same messages", same));
        if std::panic::catch_unwind(patience).is_err() {
            let status = self.both().map(|site| site.relay_status().unwrap_or_default());
            panic!("two hosts do not get the same messages: {last:?}\n{}\n{}", status[0], status[1]);
        }
    }
}

impl Site {
    fn new(host: usize, address: SocketAddr, peers: &[SocketAddr]) -> Site {
        let sandbox = Sandbox::new();
        let peers: Vec<String> = peers.iter().map(ToString::to_string).collect();
        let config = sandbox.home().join(".config/fmail");
        fs::create_dir_all(&config).expect("own directory");
        let text = format!(
            "[mail.tcp]\naddress = \"{address}\"\n\n[mail.relay]\nenabled = true\npeers = {}\ndial_timeout = \"1s\"\n\
             reconnect_interval = \"200ms\"\n",
            json!(peers)
        );
        fs::write(config.join("config.toml"), text).expect("own file");
        sandbox.fmail().args(["init", "--project", "soak"]).ok();
        let serving = Serving::new(&sandbox);
        Site { host, sandbox, serving }
    }

    /// Starts the daemon and tells everybody who waits for it.
    pub fn start(&self) -> Daemon {
        let mut daemon = Daemon::start(&self.sandbox);
        daemon.address("unix");
        self.serving.announce();
        daemon
    }

    fn relay_status(&self) -> Option<Value> {
        let mut wire = Wire::connect(&self.sandbox.store().join("forged.sock")).ok()?;
        wire.ask(&json!({"cmd": "relay_status", "agent": "prober"}))?.get("relay").cloned()
    }

    /// How many files are in each mailbox.
    fn mailboxes(&self) -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        for kind in ["topics", "dm"] {
            for name in self.sandbox.names(&format!(".fmail/{kind}")) {
                let place = format!("{kind}/{name}");
                let files = fs::read_dir(self.sandbox.store().join(&place)).map_or(0, Iterator::count);
                found.insert(place, files);
            }
        }
        found
    }
}
