//! The results, for a terminal and for docs/reliability.md.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fmail_api::{Result, Timestamp};

use super::{Done, Suite};
use crate::{cargo, document};

const DOCUMENT: &str = "docs/reliability.md";
const BEGIN: &str = "<!-- written by `cargo xtask torture --write` -->\n";

/// What a suite did, in a line.
pub fn line(done: &Done) -> String {
    let Done { suite, outcome, took, .. } = done;
    let result = result(done);
    format!("{suite}: {result} in {}; {}; seed {}", shown(*took), outcome.counts(), outcome.seeds())
}

/// All of it as Markdown, with when and on what it was found; `earlier` is a text of before, whose rows of other suites are
/// kept.
pub fn text(done: &[Done], short: bool, earlier: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let day = &Timestamp::from_unix(now.as_secs() as i64, 0).to_string()[..10];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (kernel, place) = (document::kernel(), document::file_system(&cargo::target()));
    let (version, form) = (env!("CARGO_PKG_VERSION"), if short { "short form" } else { "full form" });
    let table = table(done, day, earlier);
    format!("fmail {version} as the tests build it, {cores} cores, Linux {kernel}, {place}, {form}:\n\n{table}")
}

fn table(done: &[Done], day: &str, earlier: &str) -> String {
    let mut text = String::from("| suite | day | result | took | what was done | seed |\n|---|---|---|---:|---|---|\n");
    for suite in Suite::ALL {
        for one in done.iter().filter(|done| done.suite == suite) {
            let Done { outcome, took, .. } = one;
            let (result, took) = (result(one), shown(*took));
            let _ =
                writeln!(text, "| {suite} | {day} | {result} | {took} | {} | {} |", outcome.counts(), outcome.seeds());
        }
        // Some take an hour: whoever ran one of them has said nothing of the others.
        let begin = format!("| {suite} | ");
        for kept in earlier.lines().filter(|row| row.starts_with(&begin) && done.iter().all(|done| done.suite != suite))
        {
            let _ = writeln!(text, "{kept}");
        }
    }
    text
}

/// A program that failed without naming a test did not build, or ended in the middle.
fn result(done: &Done) -> String {
    let outcome = &done.outcome;
    let result = match (done.again.len(), outcome.failed.len()) {
        (0, _) => format!("{} tests passed", outcome.passed),
        (_, 0) => "FAILED without a result".into(),
        (_, failed) => format!("{} tests passed, {failed} FAILED", outcome.passed),
    };
    match &done.bound {
        Some(bound) => format!("{result}, {bound}"),
        None => result,
    }
}

fn shown(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {} s", seconds / 60, seconds % 60) }
}

/// The results that stand in the document.
pub fn earlier() -> String {
    let text = std::fs::read_to_string(cargo::workspace().join(DOCUMENT)).unwrap_or_default();
    let within = text.split_once(BEGIN).and_then(|(_, behind)| behind.split_once(document::END));
    within.map(|(within, _)| within.to_string()).unwrap_or_default()
}

/// Puts the results between their marks.
pub fn write(text: &str) -> Result<()> {
    document::write(DOCUMENT, BEGIN, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::outcome::Outcome;

    fn done(lines: &str, again: &[&str]) -> Done {
        let mut outcome = Outcome::default();
        lines.lines().for_each(|line| outcome.add(line));
        let again = again.iter().map(ToString::to_string).collect();
        Done { suite: Suite::Kills, outcome, took: Duration::from_secs(95), bound: None, again }
    }

    #[test]
    fn the_table_has_a_row_for_each_suite() {
        let well = done("torture kills/sends seed=7 kills=1500\ntest result: ok. 2 passed; 0 failed\n", &[]);
        assert_eq!(line(&well), "kills: 2 tests passed in 1 min 35 s; 1,500 kills; seed 7");
        let well = Done { bound: Some("at most 1 min".into()), ..well };
        let failed = done("failures:\n    one\n\ntest result: FAILED. 2 passed; 1 failed\n", &["cargo test"]);
        let earlier = "| kills | old |\n| soak | 2026-01-09 | 3 tests passed |\n| other | x |\n";
        let text = table(&[well, failed], "2026-01-10", earlier);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        let expected = [
            "| kills | 2026-01-10 | 2 tests passed, at most 1 min | 1 min 35 s | 1,500 kills | 7 |",
            "| kills | 2026-01-10 | 2 tests passed, 1 FAILED | 1 min 35 s |  |  |",
            "| soak | 2026-01-09 | 3 tests passed |",
        ];
        assert_eq!(rows, expected, "what was not run now stays");
    }

    #[test]
    fn a_program_that_ends_without_a_result_is_no_success() {
        assert_eq!(result(&done("", &["cargo test"])), "FAILED without a result");
    }

    #[test]
    fn the_document_has_a_place_for_the_results() {
        let text = std::fs::read_to_string(cargo::workspace().join(DOCUMENT)).unwrap();
        let (_, behind) = text.split_once(BEGIN).expect(BEGIN);
        assert!(behind.contains(document::END));
    }
}
