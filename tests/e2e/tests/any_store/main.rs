//! The command line on any store: a table of set-ups times a table of cases.
//!
//! A case drives the built `fmail` and never looks at a store's files. What it prints is compared twice: with what the case
//! expects, and word for word with what the same case prints on the files. An agent cannot tell which store it uses.
//!
//! A set-up is one entry of [`setups::SETUPS`]; a case is one function, named in the list of its file.

mod cases;
mod setups;
mod stage;
mod transcript;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Failed, Trial};
use setups::{SETUPS, Setup};
use stage::Stage;
use transcript::{Transcript, difference};

/// What has to hold on every store.
struct Case {
    name: &'static str,
    run: fn(&Stage),
    /// Whether it is one of those that together run every command.
    is_of_the_few: bool,
    /// What the case prints on the files, once somebody has asked.
    reference: OnceLock<Result<Transcript, String>>,
}

fn main() {
    let arguments = Arguments::from_args();
    let cases: &'static [Case] = Box::leak(cases::all().into_boxed_slice());
    let mut trials = Vec::new();
    for setup in SETUPS {
        let every = setup.every || fmail_e2e::full();
        for case in cases.iter().filter(|case| every || case.is_of_the_few) {
            trials.push(Trial::test(format!("{}::{}", setup.name, case.name), move || check(setup, case)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn check(setup: &'static Setup, case: &'static Case) -> Result<(), Failed> {
    let reference = case.reference.get_or_init(|| perform(&SETUPS[0], case));
    let Ok(reference) = reference else {
        return Err(reference.clone().err().unwrap_or_default().into());
    };
    if std::ptr::eq(setup, &SETUPS[0]) {
        return Ok(());
    }
    let printed = perform(setup, case)?;
    match difference(reference, &printed) {
        Some(difference) => Err(format!("`{}` is told from `{}`:\n{difference}", setup.name, SETUPS[0].name).into()),
        None => Ok(()),
    }
}

/// Runs a case, and gives all that was printed.
fn perform(setup: &'static Setup, case: &Case) -> Result<Transcript, String> {
    let run = || {
        let stage = Stage::new(setup);
        (case.run)(&stage);
        stage.transcript()
    };
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        format!("on `{}`: {}", setup.name, text.unwrap_or_else(|| "it panicked".into()))
    })
}
