//! A value that can be waited for. Who waits is woken in the order of coming: tokio's own `watch` throws dice for that.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

struct State<T> {
    value: T,
    waiting: BTreeMap<u64, Waker>,
    next: u64,
}

/// Shared by all its clones.
pub struct Flag<T>(Arc<Mutex<State<T>>>);

impl<T> Clone for Flag<T> {
    fn clone(&self) -> Self {
        Flag(self.0.clone())
    }
}

impl<T: Copy> Flag<T> {
    pub fn new(value: T) -> Self {
        Flag(Arc::new(Mutex::new(State { value, waiting: BTreeMap::new(), next: 0 })))
    }

    pub fn set(&self, value: T) {
        let waiting = {
            let mut state = self.0.lock().unwrap();
            state.value = value;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_values().for_each(Waker::wake);
    }

    /// Resolves when the value is such.
    pub async fn wait_for(&self, such: impl Fn(T) -> bool) {
        let number = {
            let mut state = self.0.lock().unwrap();
            state.next += 1;
            state.next
        };
        let _leaves = Leaves(self.clone(), number);
        poll_fn(|task| {
            let mut state = self.0.lock().unwrap();
            if such(state.value) {
                return Poll::Ready(());
            }
            state.waiting.insert(number, task.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Somebody who waits no more.
struct Leaves<T>(Flag<T>, u64);

impl<T> Drop for Leaves<T> {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().waiting.remove(&self.1);
    }
}
