//! Going over very many messages from the newest to the oldest without listing them first.
//!
//! A search does not know how far back it has to look, and mostly stops soon. A list of everything that it may come to
//! would be as long as the project.

use std::collections::VecDeque;
use std::sync::Arc;

use fmail_api::{MessageId, Result};

use super::arrivals::{TOGETHER, check};
use super::index::{Entry, Index, Slot, State};
use super::scan::{Place, Sieve};

/// What fits a query, the highest id first, from the end that the index had when the scan began.
pub struct Newest {
    index: Arc<Index>,
    state: State,
    sieve: Sieve,
    /// The slots from `first` to `last` have not been looked at.
    first: u32,
    last: u32,
    /// What is out of order and not yet delivered, the highest id at the end.
    irregular: Vec<(u32, Entry)>,
    found: VecDeque<Place>,
}

impl Newest {
    /// Everything down to slot `first`. The whole range is read once, for the reason that [`super::arrivals`] gives.
    pub fn new(index: Arc<Index>, state: State, sieve: Sieve, first: u32) -> Result<Newest> {
        check(&index, &state, first)?;
        let mut irregular = index.irregular(&state)?;
        irregular.sort_unstable_by_key(|(slot, entry)| (entry.id, *slot));
        Ok(Newest { index, last: state.committed, state, sieve, first, irregular, found: VecDeque::new() })
    }

    /// Looks at the next few slots.
    fn find(&mut self) -> Result<()> {
        let index = self.index.clone();
        let mut slots = index.sweep(&self.state);
        let end = self.last.saturating_sub(TOGETHER).max(self.first - 1);
        while self.last > end {
            let slot = self.last;
            self.last -= 1;
            if let Slot::Entry(entry) = slots.get(slot)?
                && !entry.irregular
            {
                self.take_irregular_above(Some((entry.id, slot)))?;
                self.take(slot, &entry)?;
            }
        }
        if self.last < self.first { self.take_irregular_above(None) } else { Ok(()) }
    }

    /// Takes what is out of order and comes before this message, or all of it.
    fn take_irregular_above(&mut self, limit: Option<(MessageId, u32)>) -> Result<()> {
        while let Some((slot, entry)) = self.irregular.last().copied()
            && limit.is_none_or(|limit| (entry.id, slot) > limit)
        {
            self.irregular.pop();
            self.take(slot, &entry)?;
        }
        Ok(())
    }

    fn take(&mut self, slot: u32, entry: &Entry) -> Result<()> {
        let target = self.sieve.accept(&self.index, &self.state, slot, entry)?;
        self.found.extend(target.map(|target| (slot, entry.id, target)));
        Ok(())
    }
}

impl Iterator for Newest {
    type Item = Result<Place>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.found.is_empty() && self.last >= self.first {
            if let Err(error) = self.find() {
                self.last = 0;
                return Some(Err(error));
            }
        }
        self.found.pop_front().map(Ok)
    }
}
