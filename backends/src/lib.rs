//! The built-in stores: `files`, the default, and `memory`.

mod clock;
pub mod files;
mod memory;

pub use clock::SystemClock;
pub use files::{Durability, FilesOptions, FilesStore, JournalOptions};
pub use memory::MemoryStore;
