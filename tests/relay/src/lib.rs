//! Real hosts that relay, in a network that fails in every way that networks do.
//!
//! A [`Network`] is three to five network namespaces with cables between them, or loopback where those cannot be had. In each
//! runs a real `forged` with a directory, a home, a host name and a clock of its own. Between two hosts is a [`Link`] that can
//! be slow, stand still, lose its end or break; rules of nft cut hosts off in one direction or both. [`Load`] sends, answers,
//! acknowledges and deletes on all hosts, and notes in the [`Ledger`] what was acknowledged. At the end `checker.py`, which
//! shares no code with fmail, reads the files of all hosts and says what is wrong.

pub mod ground;
mod host;
mod janitor;
mod ledger;
mod link;
mod load;
mod network;
mod schedule;
mod verdict;

pub use ground::Ground;
pub use host::{Host, Image, PROJECT};
pub use ledger::Ledger;
pub use link::{Direction, Link, Links, Way};
pub use load::{Load, Mix, marker_of, plant};
pub use network::{Loss, Network, Topology};
pub use schedule::Schedule;
pub use verdict::{Verdict, judge};
