//! The `chat` store: a project's direct messages as the lines of a chat file (`.workplace/chat.md`).
//!
//! The file is the truth about which messages there are; everyone may append to it, with or without fmail. What a line has
//! no room for - ids, times, priority, tags, what was read - stands in a *sidecar* beside the file: a files store that
//! holds each message of the chat file once more, with everything that is known of it.
//!
//! | module | holds |
//! |---|---|
//! | `line` | a message as a line, and a line as a message |
//! | `entries` | reading the messages of the file from an offset on |
//! | `state` | up to where the file was read, and what was about to be done |
//! | `sidecar` | the files store, its lock |
//! | `sync` | bringing the sidecar in step with the file |
//! | `append` | writing a line, so that a kill at any moment leaves it once or not at all |
//! | `acknowledge` | an acknowledgement as a line |
//! | `follow`, `store` | watching, and the contract |
//!
//! Every call first brings the sidecar in step with the file, under the sidecar's lock; when nothing has changed that is
//! two looks at metadata. Then it is the sidecar's to answer, so that cursors, filters and records are those of a store
//! that is held to the same suite.

mod acknowledge;
mod append;
mod entries;
mod follow;
mod line;
mod manifest;
mod options;
mod plugin;
mod sidecar;
mod state;
mod store;
mod sync;
#[cfg(test)]
mod tests;

pub use manifest::{CAPABILITIES, CONFIG_SCHEMA};
pub use options::ChatOptions;
pub use plugin::FmailPlugin;
pub use store::ChatStore;
