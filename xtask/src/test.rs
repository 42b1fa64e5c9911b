//! `cargo xtask test`: everything a newcomer needs to see the tests pass.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use fmail_api::{Error, Result};

use crate::{cargo, clients, tools};

/// Run all tests of the workspace and count them
#[derive(Debug, Default, clap::Args)]
pub struct Test {
    /// Run the slow forms too: more kills, more messages
    #[arg(long)]
    pub full: bool,
    /// Skip nothing: what a test needs and cannot be installed fails it, as with CI=true
    #[arg(long)]
    pub strict: bool,
}

/// So many tests may fail at first and pass when they run alone. More are no accident.
const UNSTEADY: usize = 3;

/// How many tests ended how, over all test programs.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// The names of those that failed.
    names: Vec<String>,
}

impl Test {
    /// Provides what the tests need, builds, runs, counts.
    ///
    /// A few tests that fail are run once more, each alone: what fails again fails the run, what passes is named at the
    /// end. Tests that kill and stop processes can be held up by whatever else a machine does; that one of them was so
    /// must be seen, and must not hide what the other thousands say.
    pub fn run(&self) -> Result<()> {
        tools::provide()?;
        tools::provide_networks();
        // Without the clients, everything else is still worth knowing; their tests say for themselves that they are skipped,
        // and fail where nothing may be skipped.
        let missing = clients::provide().err();
        missing.iter().for_each(warn);
        cargo::build_debug()?;
        // Plain `cargo test` and not nextest: it runs the documentation's examples too, and needs no installation.
        let (counts, success) = self.tests(&[])?;
        println!();
        if counts.ignored > 0 {
            println!("{} ignored", counts.ignored);
        }
        println!("{} passed, {} failed", counts.passed, counts.failed);
        missing.iter().for_each(warn);
        match (success, counts.failed) {
            (true, 0) => return Ok(()),
            (false, 0) => return Err(Error::internal("a test program did not build, or ended without a result")),
            _ => {}
        }
        let failed = Err(Error::internal(format!("{} tests failed: {}", counts.failed, counts.names.join(", "))));
        if counts.names.len() > UNSTEADY || counts.names.len() as u64 != counts.failed {
            return failed;
        }
        for name in &counts.names {
            println!("once more, alone: {name}");
            let (again, success) = self.tests(&["--lib", "--bins", "--tests", "--", "--exact", name])?;
            if !success || again.passed == 0 || again.failed > 0 {
                return failed;
            }
        }
        println!(
            "UNSTEADY, failed at first and passed alone; each is a defect to be found: {}",
            counts.names.join(", ")
        );
        Ok(())
    }

    /// Runs the tests of the workspace that these arguments leave; whether all is well.
    fn tests(&self, arguments: &[&str]) -> Result<(Counts, bool)> {
        let mut command = cargo::cargo(&["test", "--workspace", "--no-fail-fast"]);
        command.args(arguments);
        if self.full {
            command.env("FMAIL_TEST_FULL", "1");
        }
        if self.strict {
            command.env("CI", "true");
        }
        let starting = |error: std::io::Error| Error::io("running `cargo test`", &error);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(starting)?;
        let output = child.stdout.take().ok_or_else(|| Error::internal("`cargo test` has no output"))?;
        let counts = count(BufReader::new(output), &mut std::io::stdout().lock())?;
        let status = child.wait().map_err(starting)?;
        Ok((counts, status.success()))
    }
}

/// Says that the clients of others are missing.
fn warn(missing: &Error) {
    eprintln!("\nSKIPPED: the tests that run MCP clients of others; `CI=true` makes them fail instead\n{missing}\n");
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
    /// Adds a line like `test result: ok. 12 passed; 0 failed; 1 ignored; …`, and the name of a test that failed; other
    /// lines say nothing.
    fn add(&mut self, line: &str) {
        let name = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"));
        self.names.extend(name.map(|name| name.trim_end().to_string()));
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
            test it_works ... ok\n\
            test it_breaks ... FAILED\n\
            test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\
            a test wrote: 7 passed; 7 failed\n\
            test result: FAILED. 10 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n";
        let mut passed_on = Vec::new();
        let counts = count(output.as_bytes(), &mut passed_on).unwrap();
        assert_eq!(passed_on, output.as_bytes());
        assert_eq!(counts, Counts { passed: 12, failed: 3, ignored: 1, names: vec!["it_breaks".into()] });
    }
}
