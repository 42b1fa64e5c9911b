//! What a test program says about what it did.
//!
//! Tests print lines such as `torture kills/daemon seed=7 kills=300 messages=41000`. Everything else in their output is for people.

use std::collections::{BTreeMap, BTreeSet};

/// The word before a result. It may stand behind the name of a test, which is printed without an end of line.
const MARK: &str = "torture ";

/// What programs have done, added up.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How many tests passed.
    pub passed: u64,
    /// Those that failed.
    pub failed: BTreeSet<String>,
    /// What was counted, by name.
    pub counts: BTreeMap<String, u64>,
    /// Where the tests started from.
    pub seeds: BTreeSet<u64>,
    /// Whether the list of those that failed is being read.
    lists_failures: bool,
}

impl Outcome {
    /// Adds a line of the output of a test program.
    pub fn add(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(passed) = passed(line) {
            self.passed += passed;
        }
        if let Some(result) = result(line) {
            self.add_result(result);
        }
        // The names stand below a heading, indented, up to an empty line. Where the output of each test is shown again, that
        // stands below a heading of the same name, but not indented like this and behind an empty line.
        if line == "failures:" {
            self.lists_failures = true;
        } else if self.lists_failures {
            match line.strip_prefix("    ").filter(|name| !name.is_empty() && !name.contains(' ')) {
                Some(name) => drop(self.failed.insert(name.to_string())),
                None => self.lists_failures = false,
            }
        }
    }

    fn add_result(&mut self, result: BTreeMap<&str, u64>) {
        for (name, count) in result {
            match name {
                "seed" => drop(self.seeds.insert(count)),
                name => *self.counts.entry(name.into()).or_default() += count,
            }
        }
    }

    /// Adds what another program did.
    pub fn merge(&mut self, other: &Outcome) {
        self.passed += other.passed;
        self.failed.extend(other.failed.iter().cloned());
        self.seeds.extend(&other.seeds);
        other.counts.iter().for_each(|(name, count)| *self.counts.entry(name.clone()).or_default() += count);
    }

    /// The counts as a reader wants them.
    pub fn counts(&self) -> String {
        let shown = |(name, count): (&String, &u64)| format!("{} {}", grouped(*count), name.replace('_', " "));
        self.counts.iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    /// The seeds as a reader wants them: one, or from which to which.
    pub fn seeds(&self) -> String {
        match (self.seeds.first(), self.seeds.last()) {
            (Some(first), Some(last)) if first == last => first.to_string(),
            (Some(first), Some(last)) if last - first + 1 == self.seeds.len() as u64 => format!("{first} to {last}"),
            _ => self.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
        }
    }
}

/// The numbers in a result; nothing when the line is none, or is cut.
fn result(line: &str) -> Option<BTreeMap<&str, u64>> {
    let (_, rest) = line.split_once(MARK)?;
    let mut words = rest.split(' ');
    let (suite, what) = words.next()?.split_once('/')?;
    let is_word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    if !is_word(suite) || !is_word(what) {
        return None;
    }
    let number = |word: &'_ str| word.split_once('=').and_then(|(_, number)| number.parse().ok());
    words.map(|word| Some((word.split_once('=')?.0, number(word)?))).collect()
}

/// The number in a line like `test result: ok. 12 passed; 0 failed; …`.
fn passed(line: &str) -> Option<u64> {
    let (_, numbers) = line.trim_start().strip_prefix("test result: ")?.split_once(". ")?;
    numbers.split_once(" passed")?.0.parse().ok()
}

/// A number with a comma between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(lines: &str) -> Outcome {
        let mut outcome = Outcome::default();
        lines.lines().for_each(|line| outcome.add(line));
        outcome
    }

    #[test]
    fn results_are_added_up_wherever_they_stand_in_a_line() {
        let found = outcome(
            "running 2 tests\n\
             test one ... torture kills/sends seed=7 kills=60 messages=80\n\
             ok\n\
             torture kills/daemon seed=7 kills=300 messages=41000\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n",
        );
        assert_eq!(found.passed, 2);
        assert_eq!(found.counts(), "360 kills, 41,080 messages");
        assert_eq!(found.seeds(), "7");
        assert!(found.failed.is_empty());
    }

    #[test]
    fn what_only_looks_like_a_result_is_none() {
        let found = outcome(
            "this is torture for a disk\n\
             torture kills seed=7\n\
             torture kills/sends seed=x kills=3\n\
             torture kills/sends seed=7 kills\n\
             torture /sends seed=7\n",
        );
        assert_eq!(found, Outcome::default());
    }

    #[test]
    fn the_names_of_failed_tests_are_found_whatever_else_is_printed() {
        let found = outcome(
            "test explore::one ... thread 'explore::one' panicked at x.rs:3:\n\
             failures:\n\
             \n\
             ---- explore::one stdout ----\n\
             \x20   an indented line of the test itself\n\
             failures:\n\
             \x20   explore::one\n\
             \x20   schedule_17\n\
             \n\
             test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n",
        );
        assert_eq!(found.failed, ["explore::one", "schedule_17"].map(String::from).into());
        assert_eq!(found.passed, 3);
    }

    #[test]
    fn seeds_that_follow_each_other_are_a_range() {
        let of = |seeds: &[u64]| Outcome { seeds: seeds.iter().copied().collect(), ..Outcome::default() }.seeds();
        assert_eq!([of(&[]), of(&[4]), of(&[1, 2, 3]), of(&[1, 5])], ["", "4", "1 to 3", "1, 5"]);
    }

    #[test]
    fn outcomes_of_programs_are_added_up() {
        let mut all = outcome("torture power/cuts seed=1 states=5\n");
        all.merge(&outcome("torture power/cuts seed=2 states=7\ntest result: ok. 1 passed; 0 failed\n"));
        assert_eq!((all.counts(), all.seeds(), all.passed), ("12 states".into(), "1 to 2".into(), 1));
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
