//! Carries the operations of fmail between programs.
//!
//! There is one protocol, PROTOCOL.md's JSON lines, and there are two ways to reach it: a Unix socket per project, and
//! TCP for many. [`wire`] is the protocol without any socket, `connection` serves one peer, and [`unix`] and [`tcp`]
//! find the peers.

mod connection;
mod listener;
pub mod tcp;
pub mod unix;
pub mod wire;

pub use connection::Limits;
pub use tcp::TcpTransport;
pub use unix::UnixTransport;
