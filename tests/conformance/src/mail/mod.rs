//! Mail over a store: what MESSAGING.md promises, and what scripts written for it rely on.
//!
//! The operations are fmail-core's, the same over every store. They are run here over the store under test, because it is
//! the store that decides whether they hold: two readers at once, a kill, a late arrival.
//!
//! A store that keeps the states of mail itself is held to `basics`, as far as it has a notion of the marks, and to
//! `search`; the other cases are about what fmail keeps in the store's records.

mod basics;
mod kit;
mod limits;
mod readers;
mod search;

use crate::Case;

/// The rule of every case here: that of MESSAGING.md, which has no numbers.
pub(crate) const MAIL: &str = "mail";

/// All cases of mail.
pub fn mail_cases() -> impl Iterator<Item = &'static Case> {
    let groups: [&'static [Case]; 4] = [basics::CASES, limits::CASES, readers::CASES, search::CASES];
    groups.into_iter().flatten()
}
