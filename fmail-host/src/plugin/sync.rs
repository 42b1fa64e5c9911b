//! The primitives that the gate is built on, by one name: its model check puts others in their place.

pub use std::sync::{Condvar, Mutex};
