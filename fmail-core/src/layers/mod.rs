//! What any store gets from fmail: stores around a store.
//!
//! A plugin stores and finds, and nothing else. What every backend would otherwise have to write again - the parts of a
//! query that it cannot evaluate, deadlines, limits, checks of its answers, traces - is put around it, each as a
//! [`Store`] of its own. [`layered`] puts on those that are needed, from the inside out:
//!
//! | layer | what it does | put on |
//! |---|---|---|
//! | [`Capable`] | refuses what the store does not claim; an answer that cannot be is an error that names the store | when `checked` |
//! | [`Limits`] | messages that are too large, more calls at once than the store should see | when `max_calls` is set |
//! | [`Deadlines`] | each call, and each wait for the next item of a scan, ends in time | when `deadline` is set |
//! | [`Filtering`] | the parts of a query that the store lacks | when it lacks any |
//! | [`Traced`] | tells the daemon's log of each call | when `traced` |
//!
//! A store that keeps the states of mail itself ([`Mailbox`](fmail_api::Mailbox)) keeps that facet through all of them: the
//! checks, limits, deadlines and traces hold for its calls too; queries, which it has none of, need no filter.
//!
//! The checks are innermost: they look at what the store itself says. The deadline is around the limits, so that waiting
//! for one's turn counts; and inside the filters, which may pass over any number of messages as long as they keep
//! coming.

mod capable;
mod deadlines;
mod facet;
mod filtering;
mod limits;
mod newest;
mod traced;

use std::sync::Arc;
use std::time::Duration;

use fmail_api::{Filters, Store};

pub use capable::Capable;
pub use deadlines::Deadlines;
pub use filtering::Filtering;
pub use limits::Limits;
pub use traced::Traced;

/// Which layers a store gets.
#[derive(Debug, Clone)]
pub struct LayerOptions {
    /// Check the store's answers and what it claims.
    pub checked: bool,
    /// How many calls the store sees at once; no limit without it.
    pub max_calls: Option<usize>,
    /// How many calls may wait for their turn before further ones are turned away.
    pub max_waiting: usize,
    /// How long a call, or the next item of a scan, may take.
    pub deadline: Option<Duration>,
    /// Tell the log of each call.
    pub traced: bool,
}

impl Default for LayerOptions {
    /// What a plugin gets unless its section says otherwise.
    fn default() -> Self {
        LayerOptions {
            checked: true,
            max_calls: Some(256),
            max_waiting: 4_096,
            deadline: Some(Duration::from_secs(30)),
            traced: true,
        }
    }
}

/// The store with the layers that it needs, in the order of the [module's table](self).
pub fn layered(store: Arc<dyn Store>, options: &LayerOptions) -> Arc<dyn Store> {
    let mut store = store;
    if options.checked {
        store = Arc::new(Capable::new(store));
    }
    if let Some(max_calls) = options.max_calls {
        store = Arc::new(Limits::new(store, max_calls, options.max_waiting));
    }
    if let Some(deadline) = options.deadline {
        store = Arc::new(Deadlines::new(store, deadline));
    }
    let filters = store.capabilities().filters;
    if (Filters { text: false, ..filters }) != Filters::ALL {
        store = Arc::new(Filtering::new(store));
    }
    if options.traced {
        store = Arc::new(Traced::new(store));
    }
    store
}

#[cfg(test)]
mod tests;
