//! Mail over a store: what MESSAGING.md promises, and what scripts written for it rely on.
//!
//! The operations are fmail-core's, the same over every store. They are run here over the store under test, because it is
//! the store that decides whether they hold: two readers at once, a kill, a late arrival.

mod basics;
mod kit;
mod limits;
mod readers;
mod search;

use crate::Case;

/// All cases of mail.
pub fn mail_cases() -> impl Iterator<Item = &'static Case> {
    let groups: [&'static [Case]; 4] = [basics::CASES, limits::CASES, readers::CASES, search::CASES];
    groups.into_iter().flatten()
}
