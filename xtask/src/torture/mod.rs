//! `cargo xtask torture`: the fault suites, one after the other, with what each has done.
//!
//! The suites are test programs, and their short forms are part of `cargo xtask test`. Here they run in full, from one seed, and none
//! is left out because another failed.

mod outcome;
mod report;
mod suite;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fmail_api::{Error, Result};

use crate::{cargo, tools};
use outcome::Outcome;
use suite::{Program, Suite};

/// Run the fault suites: kills, disk faults, power cuts, endurance, hosts that relay
#[derive(Debug, clap::Args)]
pub struct Torture {
    /// Only these
    #[arg(long, value_name = "SUITE,…", value_delimiter = ',')]
    only: Vec<Suite>,
    /// Decide everything from this number; otherwise from the time, or with --short as the tests always do
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Let kills of daemons, the soak, and schedules of hosts take at most so long each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    minutes: Option<u64>,
    /// How many schedules of faults real hosts get
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    schedules: Option<u64>,
    /// Look at no more than so many states of the disk at each moment of a power cut
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    states: Option<u64>,
    /// The short forms, as in `cargo xtask ci`
    #[arg(long)]
    short: bool,
    /// Put the results into docs/reliability.md, in place of earlier ones of the same suites
    #[arg(long, conflicts_with = "short")]
    write: bool,
}

/// What a suite did.
struct Done {
    suite: Suite,
    outcome: Outcome,
    took: Duration,
    /// What it was told not to exceed.
    bound: Option<String>,
    /// Commands that repeat what failed, and nothing else.
    again: Vec<String>,
}

impl Torture {
    /// Runs every suite that is asked for, also after one has failed.
    pub fn run(&self) -> Result<()> {
        tools::provide()?;
        tools::provide_networks();
        // The tests drive the programs that lie beside them.
        cargo::build_debug()?;
        let settings = self.settings();
        let suites = Suite::ALL.into_iter().filter(|suite| self.only.is_empty() || self.only.contains(suite));
        let mut done = Vec::new();
        for suite in suites {
            let one = run_suite(suite, &settings, self.bound(suite))?;
            println!("{}", report::line(&one));
            done.push(one);
        }
        println!("\n{}", report::text(&done, self.short, ""));
        if self.write {
            report::write(&report::text(&done, self.short, &report::earlier()))?;
        }
        let again: Vec<&String> = done.iter().flat_map(|done| &done.again).collect();
        if again.is_empty() {
            return Ok(());
        }
        println!("to repeat what failed:");
        again.iter().for_each(|command| println!("  {command}"));
        Err(Error::internal(format!("{} test programs failed", again.len())))
    }

    /// What bounds a suite that takes longer in its full form.
    fn bound(&self, suite: Suite) -> Option<String> {
        let minutes = self.minutes.filter(|_| suite.is_bounded()).map(|minutes| format!("at most {minutes} min"));
        let schedules = self.schedules.filter(|_| suite == Suite::Relay);
        let states = self.states.filter(|_| suite == Suite::Power);
        let states = states.map(|states| format!("at most {states} states at a moment"));
        schedules.map(|schedules| format!("at most {schedules} schedules")).or(minutes).or(states)
    }

    /// The variables that the tests read.
    fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = Vec::new();
        if !self.short {
            settings.push(("FMAIL_TEST_FULL", "1".to_string()));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let seed = self.seed.or_else(|| (!self.short).then_some(now));
        settings.extend(seed.map(|seed| ("FMAIL_TEST_SEED", seed.to_string())));
        settings.extend(self.minutes.map(|minutes| ("FMAIL_TEST_MINUTES", minutes.to_string())));
        settings.extend(self.states.map(|states| ("FMAIL_POWER_STATES", states.to_string())));
        // A seed alone would mean that schedule and no other.
        let usual = if self.short { 10 } else { 500 };
        let schedules = self.schedules.or_else(|| seed.map(|_| usual));
        settings.extend(schedules.map(|number| ("FMAIL_RELAY_SCHEDULES", number.to_string())));
        // Simulated ones take a hundredth of a second each.
        let simulated = if self.short { 1_000 } else { 20_000 };
        settings.extend(seed.map(|_| ("FMAIL_RELAY_SIMULATED", simulated.to_string())));
        settings
    }
}

fn run_suite(suite: Suite, settings: &[(&'static str, String)], bound: Option<String>) -> Result<Done> {
    println!("== {suite}");
    let began = Instant::now();
    let mut done = Done { suite, outcome: Outcome::default(), took: Duration::ZERO, bound, again: Vec::new() };
    for program in suite.programs() {
        let (outcome, success) = run_program(*program, settings)?;
        if !success {
            done.again.push(again(*program, settings, &outcome));
        }
        done.outcome.merge(&outcome);
    }
    done.took = began.elapsed();
    Ok(done)
}

fn run_program(program: Program, settings: &[(&'static str, String)]) -> Result<(Outcome, bool)> {
    let mut command =
        cargo::cargo(&["test", "--package", program.package, "--test", program.test, "--", "--nocapture"]);
    command.envs(settings.iter().map(|(name, value)| (name, value)));
    let line = cargo::describe(&command);
    let starting = |error: std::io::Error| Error::io(format_args!("running `{line}`"), &error);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(starting)?;
    let output = child.stdout.take().ok_or_else(|| Error::internal("`cargo test` has no output"))?;
    let outcome = follow(BufReader::new(output), &mut std::io::stdout().lock())?;
    let status = child.wait().map_err(starting)?;
    Ok((outcome, status.success()))
}

/// Passes the output on, and reads what it says.
fn follow(output: impl BufRead, reader: &mut impl Write) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for line in output.split(b'\n') {
        let line = line.map_err(|error| Error::io("reading the output of the tests", &error))?;
        // Whoever reads our output may have left; the suites go on, and their results are still the answer.
        let _ = reader.write_all(&line).and_then(|()| reader.write_all(b"\n"));
        outcome.add(&String::from_utf8_lossy(&line));
    }
    Ok(outcome)
}

/// The command that repeats what failed of a program.
fn again(program: Program, settings: &[(&'static str, String)], outcome: &Outcome) -> String {
    let mut command = Command::new("cargo");
    command.args(["test", "-p", program.package, "--test", program.test, "--", "--nocapture", "--exact"]);
    command.args(&outcome.failed);
    // The seed that the failing test printed is the one that was given, or the test's own.
    let variables: String = settings.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    variables + &cargo::describe(&command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        torture: Torture,
    }

    fn settings(words: &str) -> Vec<(&'static str, String)> {
        let words = std::iter::once("torture").chain(words.split_whitespace());
        Arguments::try_parse_from(words).unwrap().torture.settings()
    }

    #[test]
    fn a_seed_and_bounds_reach_the_tests() {
        let found = settings("--seed 7 --minutes 2 --schedules 3 --states 4 --only relay,soak");
        let expected = [
            ("FMAIL_TEST_FULL", "1"),
            ("FMAIL_TEST_SEED", "7"),
            ("FMAIL_TEST_MINUTES", "2"),
            ("FMAIL_POWER_STATES", "4"),
            ("FMAIL_RELAY_SCHEDULES", "3"),
            ("FMAIL_RELAY_SIMULATED", "20000"),
        ];
        assert_eq!(found, expected.map(|(name, value)| (name, value.to_string())));
    }

    #[test]
    fn the_short_form_changes_nothing_that_ci_does_not() {
        assert_eq!(settings("--short"), []);
        let full = settings("");
        assert_eq!(full.iter().map(|(name, _)| *name).collect::<Vec<_>>().len(), 4, "{full:?}");
        assert!(full[1].0 == "FMAIL_TEST_SEED" && full[1].1.parse::<u64>().unwrap() > 1_700_000_000, "{full:?}");
    }

    #[test]
    fn a_bound_is_told_of_the_suites_that_it_bounds() {
        let bound = |words: &str, suite| {
            let words = std::iter::once("torture").chain(words.split_whitespace());
            Arguments::try_parse_from(words).unwrap().torture.bound(suite)
        };
        assert_eq!(bound("", Suite::Relay), None);
        assert_eq!(bound("--minutes 5", Suite::Power), None);
        assert_eq!(bound("--minutes 5", Suite::Kills).as_deref(), Some("at most 5 min"));
        assert_eq!(bound("--schedules 7", Suite::Kills), None);
        assert_eq!(bound("--states 7", Suite::Power).as_deref(), Some("at most 7 states at a moment"));
        assert_eq!(bound("--schedules 7", Suite::Relay).as_deref(), Some("at most 7 schedules"));
    }

    #[test]
    fn nonsense_is_refused() {
        for words in ["--only kill", "--minutes 0", "--schedules 0", "--seed x", "--short --write"] {
            let words = std::iter::once("torture").chain(words.split_whitespace());
            assert!(Arguments::try_parse_from(words).is_err());
        }
    }

    #[test]
    fn the_command_that_repeats_a_failure_names_the_test_and_the_seed() {
        let output = "failures:\n    schedule_12\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n";
        let outcome = follow(output.as_bytes(), &mut Vec::new()).unwrap();
        let program = Suite::Relay.programs()[1];
        let settings = settings("--seed 10 --schedules 5");
        assert_eq!(
            again(program, &settings, &outcome),
            "FMAIL_TEST_FULL=1 FMAIL_TEST_SEED=10 FMAIL_RELAY_SCHEDULES=5 FMAIL_RELAY_SIMULATED=20000 \
             cargo test -p fmail-relay-tests --test schedules -- --nocapture --exact schedule_12"
        );
    }
}
