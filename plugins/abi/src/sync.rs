//! The primitives that the tables are built on, by one name: the model check puts others in their place.

use std::sync::PoisonError;
pub(crate) use std::sync::{Arc, Mutex, MutexGuard};

/// Takes a lock. Nothing that can panic runs under one of ours, so poisoning is of no interest.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
