//! What has to hold on every store.

mod agents;
mod concurrency;
mod mail;
mod project;
mod reading;
mod reservations;
mod search;
mod sending;
mod threads;
mod waiting;
mod watching;

use std::sync::OnceLock;

use crate::Case;
use crate::stage::Stage;

/// A function with its name.
type Named = (&'static str, fn(&Stage));

/// Functions with their names.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        /// The cases of this file.
        pub const CASES: &[super::Named] = &[$((stringify!($case), $case)),*];
    };
}
use cases;

/// All of them.
pub fn all() -> Vec<Case> {
    let files: [&[Named]; 11] = [
        sending::CASES,
        reading::CASES,
        watching::CASES,
        waiting::CASES,
        mail::CASES,
        threads::CASES,
        search::CASES,
        reservations::CASES,
        agents::CASES,
        project::CASES,
        concurrency::CASES,
    ];
    let case = |(name, run): &Named| Case { name, run: *run, reference: OnceLock::new() };
    files.into_iter().flatten().map(case).collect()
}
