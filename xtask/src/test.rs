//! `cargo xtask test`: everything a newcomer needs to see the tests pass.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use fmail_api::{Error, Result};

use crate::{cargo, tools};

/// Run all tests of the workspace and count them
#[derive(Debug, Default, clap::Args)]
pub struct Test {
    /// Run the slow forms too: more kills, more messages
    #[arg(long)]
    pub full: bool,
}

/// How many tests ended how, over all test programs.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Test {
    /// Provides what the tests need, builds, runs, counts.
    pub fn run(&self) -> Result<()> {
        tools::provide()?;
        cargo::build_debug()?;
        // Plain `cargo test` and not nextest: it runs the documentation's examples too, and needs no installation.
        let mut command = cargo::cargo(&["test", "--workspace", "--no-fail-fast"]);
        if self.full {
            command.env("FMAIL_TEST_FULL", "1");
        }
        let starting = |error: std::io::Error| Error::io("running `cargo test`", &error);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(starting)?;
        let output = child.stdout.take().ok_or_else(|| Error::internal("`cargo test` has no output"))?;
        let counts = count(BufReader::new(output), &mut std::io::stdout().lock())?;
        let status = child.wait().map_err(starting)?;

        println!();
        if counts.ignored > 0 {
            println!("{} ignored", counts.ignored);
        }
        println!("{} passed, {} failed", counts.passed, counts.failed);
        match (status.success(), counts.failed) {
            (true, 0) => Ok(()),
            (false, 0) => Err(Error::internal("a test program did not build, or ended without a result")),
            (_, failed) => Err(Error::internal(format!("{failed} tests failed"))),
        }
    }
}

/// Passes the output on and adds up the result lines in it.
fn count(output: impl BufRead, reader: &mut impl Write) -> Result<Counts> {
    let mut counts = Counts::default();
    for line in output.split(b'\n') {
        let line = line.map_err(|error| Error::io("reading the output of the tests", &error))?;
        // Whoever reads our output may have left; the tests go on and their number is still the result.
        let _ = reader.write_all(&line).and_then(|()| reader.write_all(b"\n"));
        counts.add(&String::from_utf8_lossy(&line));
    }
    Ok(counts)
}

impl Counts {
    /// Adds a line like `test result: ok. 12 passed; 0 failed; 1 ignored; …`; other lines say nothing.
    fn add(&mut self, line: &str) {
        let Some(result) = line.trim_start().strip_prefix("test result: ") else { return };
        let Some((_, numbers)) = result.split_once(". ") else { return };
        for part in numbers.split(';') {
            let Some((number, what)) = part.trim().split_once(' ') else { continue };
            let number: u64 = number.parse().unwrap_or(0);
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_of_all_programs_are_added_up() {
        let output = "running 2 tests\n\
            test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\
            a test wrote: 7 passed; 7 failed\n\
            test result: FAILED. 10 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n";
        let mut passed_on = Vec::new();
        let counts = count(output.as_bytes(), &mut passed_on).unwrap();
        assert_eq!(passed_on, output.as_bytes());
        assert_eq!(counts, Counts { passed: 12, failed: 3, ignored: 1 });
    }
}
