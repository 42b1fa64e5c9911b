//! A transport that is a plugin: `ws` in a real daemon, spoken to by clients that know nothing of fmail's code.

mod commands;
mod ending;
mod frames;
mod letting_in;
mod others;
mod requests;

use fmail_e2e::web_socket::WebSocket;
use fmail_e2e::{Daemon, Sandbox};

/// A daemon that listens for WebSockets on a free port.
struct Served {
    daemon: Daemon,
    address: String,
    sandbox: Sandbox,
}

impl Served {
    fn start() -> Served {
        Served::configured("")
    }

    /// With further lines of the plugin's own section.
    fn configured(lines: &str) -> Served {
        let sandbox = Sandbox::new();
        configure(&sandbox, "127.0.0.1:0", lines);
        let mut daemon = Daemon::start(&sandbox);
        let address = daemon.address("ws");
        Served { daemon, address, sandbox }
    }

    fn connect(&self) -> WebSocket {
        WebSocket::connect(&self.address)
    }
}

fn configure(sandbox: &Sandbox, address: &str, lines: &str) {
    let section = format!("[mail.plugin.ws.config]\naddress = {address:?}\n{lines}");
    sandbox.configure("transports = [\"unix\", \"ws\"]", &section);
}
