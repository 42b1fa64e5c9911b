//! Keeping this host in step with others.

mod address;

pub use address::{Believed, Fingerprint, HostPort, PeerAddress, Peers};
