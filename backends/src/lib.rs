//! The built-in stores: `files`, the default, and `memory`.

mod memory;

pub use memory::MemoryStore;
