//! The store that the program beside it measures: the built-in memory store as a plugin, `cost`. What a call of it takes
//! beyond a call of the same store in process is what the boundary takes.

use std::sync::Arc;

use fmail_backends::{MemoryStore, SystemClock};

fmail_plugin::store! {
    name: "cost",
    open: |_| async { Ok(memory()) },
    capabilities: &[
        "import",
        "remove",
        "filter.scope",
        "filter.ids",
        "filter.from",
        "filter.thread",
        "filter.time",
        "filter.limit",
        "filter.order",
    ],
}

/// The store, empty.
pub fn memory() -> MemoryStore {
    MemoryStore::new(1 << 20, Arc::new(SystemClock))
}
