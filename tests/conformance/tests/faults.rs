//! The suite must be able to fail: each deliberate fault is reported under exactly the rules that it breaks.

mod faulty;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fmail_conformance::{Case, Factory, Outcome, Subject, cases, run};

use faulty::{Fault, Project};

/// Short, because a lost message leaves some cases waiting, and they wait all of it.
const DEADLINE: Duration = Duration::from_secs(10);

fn outcomes(fault: Fault) -> Vec<(&'static Case, Outcome)> {
    let factory: Factory = Arc::new(move || Ok(Box::new(Project::with(fault)) as Box<dyn Subject>));
    // All at once: those that wait for their deadline wait together.
    let threads: Vec<_> = cases()
        .map(|case| {
            let factory = factory.clone();
            (case, std::thread::spawn(move || run(case, factory, DEADLINE)))
        })
        .collect();
    threads.into_iter().map(|(case, thread)| (case, thread.join().unwrap())).collect()
}

fn check(fault: Fault, broken: &[&str]) {
    let outcomes = outcomes(fault);
    let failed = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_)));
    let rules: BTreeSet<&str> = failed.clone().map(|(case, _)| case.rule).collect();
    let told: Vec<String> = failed.map(|(case, outcome)| format!("{} {}: {outcome:?}", case.rule, case.name)).collect();
    assert_eq!(rules, broken.iter().copied().collect(), "{fault:?}:\n{}", told.join("\n"));
}

#[test]
fn a_store_without_fault_passes() {
    check(Fault::None, &[]);
}

#[test]
fn lost_events_break_the_rules_of_watching() {
    check(Fault::DropsEveryTenthEvent, &["W1", "W2"]);
}

#[test]
fn doubled_events_break_the_rules_of_watching() {
    check(Fault::DoublesEveryTenthEvent, &["A3", "W1", "W2"]);
}

#[test]
fn an_ignored_limit_breaks_the_rule_of_limits() {
    check(Fault::IgnoresLimit, &["Q2"]);
}

#[test]
fn a_lost_key_breaks_the_rule_of_keys_and_the_round_trip() {
    check(Fault::LosesTheKey, &["A1", "A11", "A8"]);
}

#[test]
fn a_verdict_for_a_neighbour_breaks_the_rule_of_verdicts() {
    check(Fault::RefusesTheNeighbour, &["A11"]);
}

#[test]
fn one_byte_too_many_breaks_the_rule_of_sizes() {
    check(Fault::TakesOneByteTooMany, &["A6"]);
}

#[test]
fn dropped_fields_break_the_round_trip() {
    check(Fault::DropsUnknownFields, &["A1"]);
}

#[test]
fn mail_among_topics_breaks_the_rule_of_filters() {
    check(Fault::ShowsMailAmongTopics, &["Q1"]);
}

#[test]
fn a_strict_since_breaks_the_rule_of_times() {
    check(Fault::LosesTheSecondOfSince, &["Q4"]);
}

#[test]
fn ignored_expectations_break_the_rules_of_records() {
    check(Fault::IgnoresExpectations, &["R2", "R3"]);
}

#[test]
fn a_dry_run_that_removes_breaks_its_rule() {
    check(Fault::RemovesInADryRun, &["I4", "M3"]);
}

#[test]
fn half_segments_break_the_rule_of_lists() {
    check(Fault::ListsHalfSegments, &["R4"]);
}

#[test]
fn a_cursor_one_too_far_breaks_the_rules_of_cursors() {
    check(Fault::CursorOneTooFar, &["Q2", "Q5", "Q6"]);
}

#[test]
fn a_health_that_writes_breaks_its_rule() {
    check(Fault::HealthWrites, &["L1"]);
}

#[test]
fn a_hang_and_a_panic_are_failures() {
    check(Fault::HangsInClose, &["L2"]);
    check(Fault::PanicsInHealth, &["L1"]);
}

#[test]
fn what_a_store_does_not_claim_is_skipped_and_the_reason_is_told() {
    let skipped: Vec<_> = outcomes(Fault::None)
        .into_iter()
        .filter_map(|(case, outcome)| match outcome {
            Outcome::Skipped(reason) => Some((case.rule, reason)),
            _ => None,
        })
        .collect();
    let rules: BTreeSet<&str> = skipped.iter().map(|(rule, _)| *rule).collect();
    let mailbox = ["B1", "B2", "B3", "B4", "B5", "B6", "B7"];
    assert_eq!(rules, ["A5", "A8", "L2", "R5"].into_iter().chain(mailbox).collect());
    assert!(skipped.iter().all(|(_, reason)| reason.starts_with("the store `faulty` does not claim `")), "{skipped:?}");
}

#[test]
fn every_rule_of_the_contract_has_a_case_and_every_case_a_rule() {
    let contract = [include_str!("../../../fmail-api/src/store.rs"), include_str!("../../../fmail-api/src/mailbox.rs")];
    let rules: BTreeSet<&str> = contract
        .into_iter()
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("/// - **")?.split_once("**").map(|(rule, _)| rule))
        .collect();
    assert!(rules.len() > 30, "the contract's rules were not found: {rules:?}");
    assert_eq!(cases().map(|case| case.rule).collect::<BTreeSet<_>>(), rules);
}

#[test]
fn no_two_cases_of_a_rule_share_a_name() {
    let names: Vec<(&str, &str)> = cases().map(|case| (case.rule, case.name)).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}
