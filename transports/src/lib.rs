//! Carries the operations of fmail between programs.
//!
//! There is one protocol, PROTOCOL.md's JSON lines, and there are two ways to reach it: a Unix socket per project, and
//! TCP for many. [`wire`] is the protocol without any socket; `connection` serves one peer, [`unix`] and [`tcp`] find the
//! peers, `callers` knows who they are, `authentication` and `admission` make sure of them where the kernel cannot, and on the other side a [`Conversation`] is a client's
//! connection and a [`Remote`] the project behind it. [`peer`] keeps hosts in step over the same protocol.

mod admission;
pub mod authentication;
mod callers;
mod connection;
mod conversation;
mod lines_out;
mod listener;
pub mod peer;
mod remote;
mod stream;
pub mod tcp;
mod tls;
pub mod unix;
pub mod wire;
mod writer;

pub use admission::Keyring;
pub use authentication::Token;
pub use callers::{Caller, Callers};
pub use connection::{Limits, is_one_at_a_time};
pub use conversation::{Answer, Conversation, Endpoint, Failure, TcpEndpoint};
pub use remote::{ANSWER, GREETING, Remote, events, reply};
pub use tcp::TcpTransport;
pub use tls::{TlsClient, TlsServer};
pub use unix::UnixTransport;
pub use wire::response;
