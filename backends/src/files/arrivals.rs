//! Going over very many messages in order of arrival without listing them first.
//!
//! Whoever catches up with a whole project reads for a long time, and a daemon may have a hundred of those. A list of what
//! they will read would be as long as the project, for each of them; so each finds the next few when it gets there.

use std::collections::VecDeque;
use std::sync::Arc;

use fmail_api::Result;

use super::index::{Index, Slot, State};
use super::scan::{Place, Sieve};

/// How many slots are looked at together. Scans of fewer are chosen at once.
pub const TOGETHER: u32 = 1024;

/// What fits a query, in order of arrival, up to the end that the index had when the scan began.
pub struct Arrivals {
    index: Arc<Index>,
    state: State,
    sieve: Sieve,
    next: u32,
    found: VecDeque<Place>,
}

impl Arrivals {
    /// Everything from slot `first` on. The whole range is read once: an index that is damaged has to show it now, while
    /// it can be made anew and the scan begun again, and not when half of it was delivered.
    pub fn new(index: Arc<Index>, state: State, sieve: Sieve, first: u32) -> Result<Arrivals> {
        check(&index, &state, first)?;
        Ok(Arrivals { index, state, sieve, next: first, found: VecDeque::new() })
    }

    fn find(&mut self) -> Result<()> {
        let end = self.next.saturating_add(TOGETHER - 1).min(self.state.committed);
        let mut slots = self.index.sweep(&self.state);
        for slot in self.next..=end {
            self.next = slot + 1;
            if let Slot::Entry(entry) = slots.get(slot)?
                && let Some(target) = self.sieve.accept(&self.index, &self.state, slot, &entry)?
            {
                self.found.push_back((slot, entry.id, target));
            }
        }
        Ok(())
    }
}

/// Reads every slot from this one on, and finds out whether one is damaged.
pub fn check(index: &Index, state: &State, first: u32) -> Result<()> {
    let mut slots = index.sweep(state);
    (first..=state.committed).try_for_each(|slot| slots.get(slot).map(drop))
}

impl Iterator for Arrivals {
    type Item = Result<Place>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.found.is_empty() && self.next <= self.state.committed {
            if let Err(error) = self.find() {
                self.next = u32::MAX;
                return Some(Err(error));
            }
        }
        self.found.pop_front().map(Ok)
    }
}
