//! The two tables, run through every interleaving that their locks allow.
//!
//! The sources are compiled once more here, with loom's mutex in place of the standard one. `Arc` stays the standard one:
//! nothing in the tables depends on when the last reference goes.
#![allow(dead_code, missing_docs)]

#[path = "../src/calls.rs"]
mod calls;
#[path = "../src/peer.rs"]
mod peer;
#[path = "../src/served.rs"]
mod served;
#[path = "../src/status.rs"]
mod status;
mod sync {
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use std::sync::Arc;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("no panic under a lock")
    }
}

#[path = "model/calls_cases.rs"]
mod calls_cases;
#[path = "model/served_cases.rs"]
mod served_cases;
