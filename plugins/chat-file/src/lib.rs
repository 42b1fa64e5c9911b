//! Chat files: a plain text file that agents append lines to, as CHAT-PROTOCOL.md describes it.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@line`] | a message of the file: read by the document's rules |
//! | [`mod@write`] | the same, written, and what the format would misread |
//! | [`mod@append`] | putting it at the end of the file: locked, one write, whole or not at all |
//! | [`follow`] | reading it as it grows, whatever becomes of it |
//! | [`join`] | a message with its continuation lines |
//! | [`archive`] | moving the oldest messages elsewhere, beside writers that know no lock |
//! | [`lock`] | the lock that all of us take who change the file |
//!
//! Nothing here knows of fmail's stores or commands. `fmail chat watch` and the `chat` store are made of this.

pub mod append;
pub mod archive;
mod count;
mod current;
pub mod follow;
mod history;
pub mod join;
pub mod line;
pub mod lock;
mod split;
mod wake;
pub mod write;
mod writers;

pub use append::{Appended, Appender, Options, append};
pub use follow::{Change, FollowOptions, Follower, Item, Line, Start};
pub use join::{Entry, Joiner};
pub use line::ChatLine;
pub use lock::{Identity, Locked};
pub use wake::{Stopper, Wake, Woken};
