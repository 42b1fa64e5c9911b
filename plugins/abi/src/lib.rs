//! The boundary between fmail and its plugins.
//!
//! `fmail_plugin.h` is the specification; [`layout`] has the same structs in Rust, and a test compares the two. Nothing
//! else of Rust crosses: bodies are text, memory is borrowed, ids are numbers.
//!
//! Calls go both ways in one shape, so one crate serves both sides:
//!
//! * [`Peer`] is the other side, as functions of a library or as lines to a child process;
//! * [`Calls`] is the table of the calls that *we* have made, which survives whatever the other side answers;
//! * [`Served`] runs the calls that *the other side* has made;
//! * [`Verb`] is one step of the conversation as a JSON line, for programs.

mod answer;
mod calls;
pub mod layout;
mod peer;
mod served;
pub mod status;
mod sync;
mod verb;

pub use calls::{Answer, Call, Calls, Counters, Items};
pub use peer::{Observer, Peer};
pub use served::{Served, Service, Spawner, Work};
pub use verb::{Level, Verb};
