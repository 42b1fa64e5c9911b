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

/// Functions with their names.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        /// The cases of this file.
        pub const CASES: &[(&str, fn(&$crate::stage::Stage))] = &[$((stringify!($case), $case)),*];
    };
}
use cases;

/// All of them.
pub fn all() -> Vec<Case> {
    let files: [&[(&'static str, fn(&Stage))]; 11] = [
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
    let case = |(name, run): &(&'static str, fn(&Stage))| Case { name, run: *run, reference: OnceLock::new() };
    files.into_iter().flatten().map(case).collect()
}
