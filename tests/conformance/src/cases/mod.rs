//! The cases, a file for each group of rules.

mod append;
mod durability;
mod import;
mod keys;
mod life;
mod mailbox;
mod mailbox_marks;
mod order;
mod pages;
mod recipients;
mod records;
mod removal;
mod scan;
mod since;
mod watch;
mod watch_races;

use crate::{Case, Need};

const SCOPE: Need = Need::Filters("filters.scope", |filters| filters.scope);
const IDS: Need = Need::Filters("filters.ids", |filters| filters.ids);
const FROM: Need = Need::Filters("filters.from", |filters| filters.from);
const THREAD: Need = Need::Filters("filters.thread", |filters| filters.thread);
const TIME: Need = Need::Filters("filters.time", |filters| filters.time);
const LIMIT: Need = Need::Filters("filters.limit", |filters| filters.limit);
const ORDER: Need = Need::Filters("filters.order", |filters| filters.order);

/// All cases, in the order of the rules' groups.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    let groups: [&'static [Case]; 16] = [
        append::CASES,
        order::CASES,
        keys::CASES,
        recipients::CASES,
        durability::CASES,
        import::CASES,
        scan::CASES,
        pages::CASES,
        since::CASES,
        watch::CASES,
        watch_races::CASES,
        removal::CASES,
        records::CASES,
        life::CASES,
        mailbox::CASES,
        mailbox_marks::CASES,
    ];
    groups.into_iter().flatten()
}
