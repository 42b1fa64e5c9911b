//! The peer relay: this host and others hold the same messages.
//!
//! A link is driven by the host that dialled it; messages go both ways over it. [`PeerRelay`] keeps one link for each
//! peer and project, from the inside to the outside:
//!
//! | file | holds |
//! |---|---|
//! | `end` | one end of a link: the operations there, and who asks |
//! | `reconcile` | comparing what both ends hold, and carrying what one of them lacks |
//! | `records` | the same for the records that travel |
//! | `batch`, `carry`, `pump` | messages from one end to the other: those that are there go together, never too many |
//! | `session` | all of these at once, as long as the other end answers |
//! | `plain` | the other end knows PROTOCOL.md and nothing else |
//! | `address` | where a peer is, and how both sides make sure of each other |
//! | `dial`, `link` | the connection: who is there, and many requests at a time over it |
//! | `status`, `neighbours` | what can be seen of links: of those that we dialled, and of those that others dialled |
//! | `dialler`, `relay` | dialling, and dialling again |
//!
//! A session asks two [`Client`](fmail_api::Client)s and the clock, and nothing else: that one of them is at the other end
//! of a connection is none of its business, and a simulator can run thousands of schedules in a second.

mod address;
mod batch;
mod both;
mod carry;
mod counted;
mod dial;
mod dialler;
mod end;
mod link;
mod neighbours;
mod pace;
mod plain;
mod pump;
mod reconcile;
mod records;
mod relay;
mod session;
mod status;

pub use address::{Believed, Fingerprint, HostPort, PeerAddress, Peers};
pub(crate) use counted::Counted;
pub use end::End;
pub use neighbours::{Neighbour, Neighbours};
pub use pace::Pace;
pub use relay::{PeerRelay, PeerSettings};
pub use session::{Ended, Session};
pub use status::{LinkState, Traffic};
