//! Telling systemd that the daemon is ready, or about to end: one datagram each.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state to the manager that started us, if there is one.
pub fn notify(state: &str) {
    let Ok(address) = std::env::var("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&address, state) {
        tracing::warn!(%error, address, "the service manager could not be told: {state}");
    }
}

fn send(address: &str, state: &str) -> std::io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    match address.strip_prefix('@') {
        Some(name) => socket.send_to_addr(state.as_bytes(), &SocketAddr::from_abstract_name(name)?),
        None => socket.send_to(state.as_bytes(), address),
    }
    .map(drop)
}
