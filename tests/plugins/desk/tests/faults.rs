//! The cases of the mailbox must be able to fail: each fault of the desk is reported under exactly the rules that it
//! breaks, and a desk without one passes every case.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fmail_conformance::{Case, Factory, Outcome, Subject, cases, mail_cases, run};
use fmail_desk::{Desk, Fault};
use fmail_plugin::{Result, Store};

struct Project(Arc<Desk>);

impl Subject for Project {
    fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(self.0.clone())
    }
}

fn outcomes(fault: Fault, wanted: impl Fn(&Case) -> bool) -> Vec<(&'static Case, Outcome)> {
    let factory: Factory = Arc::new(move || Ok(Box::new(Project(Arc::new(Desk::new(fault)))) as Box<dyn Subject>));
    let wanted = cases().chain(mail_cases()).filter(|case| wanted(case));
    wanted.map(|case| (case, run(case, factory.clone(), Duration::from_secs(60)))).collect()
}

/// The rules that a fault breaks, and what is told about each case.
fn broken_by(fault: Fault) -> (BTreeSet<&'static str>, String) {
    let outcomes = outcomes(fault, |case| case.rule.starts_with('B'));
    let failed = outcomes.iter().filter(|(_, outcome)| *outcome != Outcome::Passed);
    let told: Vec<String> =
        failed.clone().map(|(case, outcome)| format!("{} {}: {outcome:?}", case.rule, case.name)).collect();
    (failed.map(|(case, _)| case.rule).collect(), told.join("\n"))
}

#[test]
fn a_desk_without_fault_passes_the_whole_suite() {
    let outcomes = outcomes(Fault::None, |_| true);
    let failed = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_)));
    let told: Vec<String> = failed.map(|(case, outcome)| format!("{} {}: {outcome:?}", case.rule, case.name)).collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
    let passed =
        |rule: &str| outcomes.iter().filter(|(case, out)| case.rule == rule && *out == Outcome::Passed).count();
    for rule in ["B1", "B2", "B3", "B4", "B5", "B6", "B7"] {
        assert!(passed(rule) > 0, "no case of {rule} ran");
    }
    // Those that mail scripts are held to elsewhere, and the search.
    assert!(passed("mail") >= 38, "{} cases of mail ran", passed("mail"));
}

/// What is listed wrongly shows wherever something is listed.
const FAULTS: &[(Fault, &[&str])] = &[
    (Fault::NewestFirst, &["B1"]),
    (Fault::EverybodysMail, &["B1"]),
    (Fault::LosesTheSubject, &["B1"]),
    (Fault::ListingReads, &["B1", "B4", "B7"]),
    (Fault::EmptyIsAnError, &["B1", "B4"]),
    (Fault::PeekingReads, &["B2", "B7"]),
    (Fault::UnknownIsADefect, &["B2", "B4"]),
    (Fault::ReadingArchives, &["B3"]),
    (Fault::ReadingIsForgotten, &["B3", "B6"]),
    (Fault::EveryMarkChanges, &["B4"]),
    (Fault::MarksAreForgotten, &["B4"]),
    (Fault::CountsTheArchive, &["B5"]),
    (Fault::ThreadOfEverybody, &["B6"]),
    (Fault::NoThreadIsAnError, &["B6"]),
    (Fault::OneStateForAll, &["B7"]),
];

#[test]
fn each_fault_breaks_exactly_its_rules() {
    let mut wrong = String::new();
    for (fault, expected) in FAULTS {
        let (rules, told) = broken_by(*fault);
        if rules != expected.iter().copied().collect() {
            wrong += &format!("{fault:?} breaks {rules:?}, expected {expected:?}\n{told}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
