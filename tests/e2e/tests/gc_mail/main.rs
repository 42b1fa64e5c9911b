//! `fmail-gc-mail` as its callers run it: one process for each operation, on every kind of store.
//!
//! [`conformance`] has the 32 cases that Gas City holds its own mail to, under their names there. What those do not ask
//! for is in the other files.

mod conformance;
mod content;
mod copies;
mod misuse;
mod names;
mod outage;
mod post;
mod views;

use std::panic::{AssertUnwindSafe, catch_unwind};

use fmail_e2e::full;
use libtest_mimic::{Arguments, Failed, Trial};
use post::{Post, SETUPS, Setup};

/// What has to hold.
pub struct Case {
    name: &'static str,
    run: fn(&Post),
    /// Whether it also runs where a daemon serves the store, unless everything does by `FMAIL_TEST_FULL`.
    served: bool,
}

/// The cases of a file, by the names of their functions. Those behind `served` run with a daemon too.
#[macro_export]
macro_rules! cases {
    ($($name:ident)* ; served: $($served:ident)*) => {
        pub const CASES: &[$crate::Case] = &[
            $($crate::Case { name: stringify!($name), run: $name, served: false },)*
            $($crate::Case { name: stringify!($served), run: $served, served: true },)*
        ];
    };
}

fn main() {
    let files = [conformance::CASES, content::CASES, views::CASES, copies::CASES, names::CASES, misuse::CASES];
    let mut trials = Vec::new();
    for setup in SETUPS {
        for case in files.iter().copied().flatten().filter(|case| !setup.served || case.served || full()) {
            trials.push(Trial::test(format!("{}::{}", setup.name, case.name), move || check(setup, case.run)));
        }
    }
    for (name, run) in outage::CASES {
        trials.push(Trial::test(format!("outage::{name}"), move || caught(run)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn check(setup: &'static Setup, case: fn(&Post)) -> Result<(), Failed> {
    caught(|| case(&Post::open(setup)))
}

fn caught(run: impl FnOnce()) -> Result<(), Failed> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        text.unwrap_or_else(|| "it panicked".into()).into()
    })
}
