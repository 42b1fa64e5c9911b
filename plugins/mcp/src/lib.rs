//! MCP Agent Mail over fmail: the tools and resources of the contract, without a transport.
//!
//! A transport takes JSON-RPC messages from a client, gives each to [`Server::handle`], and writes what comes back. What
//! the tools do, they ask of a [`Backend`]: the daemon's projects for the `http` plugin, this machine's for
//! `fmail mcp serve --stdio`.

mod arguments;
mod backend;
mod errors;
mod ids;
mod methods;
mod names;
mod near;
mod posting;
mod resources;
mod revision;
mod rows;
mod rpc;
mod server;
mod subscriptions;
mod summary;
#[cfg(feature = "testing")]
pub mod testing;
mod threads;
mod tool;
mod tools;
mod visit;

pub use backend::{Backend, Caller, Reply};
pub use revision::versions;
pub use server::{Options, Outcome, Peer, Profile, Server};
