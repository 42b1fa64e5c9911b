//! The parent: which cases there are for the plugin, a child for each, and what is told.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use clap::Args;
use fmail_api::{Error, Result};
use fmail_host::plugin::Inspection;
use fmail_host::plugin::apart::{self, Asked};
use fmail_host::{PluginKind, StoreProfile};
use serde_json::{Value, json};

use crate::cases::{AnyCase, cases};
use crate::child::Told;
use crate::which::Which;

/// Run the cases
#[derive(Args)]
pub struct Check {
    #[command(flatten)]
    which: Which,

    /// Only the cases of this rule, or this case
    #[arg(long, value_name = "RULE|CASE")]
    only: Vec<String>,

    /// List the cases that would run
    #[arg(long)]
    list: bool,

    /// A relay keeps all projects of its host in step: check Y1 to Y5 with two and three of them
    #[arg(long)]
    pair: bool,

    /// How long a case may take, in seconds
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    deadline: u64,

    /// Print JSON, a line for each case and one for all
    #[arg(long)]
    json: bool,
}

/// What became of a case, and what its process printed.
struct Finished {
    told: Told,
    stdout: apart::Printed,
    stderr: apart::Printed,
}

/// The rule that every case checks beside its own.
const PRINTED: (&str, &str) = ("8", "nothing_is_printed_on_standard_output");

impl Check {
    /// False: the plugin breaks a rule.
    pub fn run(self) -> Result<bool> {
        let inspection = self.inspect()?;
        let all = self.selected(&inspection)?;
        if self.list {
            for case in &all {
                self.print(
                    &format!("{:5} {}", case.rule, case.name),
                    || json!({"rule": case.rule, "case": case.name}),
                )?;
            }
            return Ok(true);
        }
        let mut totals = Totals::default();
        let mut printed: Vec<(String, apart::Printed)> = Vec::new();
        self.run_all(&all, |case, finished| {
            if finished.stdout.bytes > 0 {
                printed.push((format!("{} {}", case.rule, case.name), finished.stdout));
            }
            totals.count(case.rule, &finished.told);
            if totals.first.is_none() && matches!(finished.told, Told::Failed(_)) {
                totals.first = Some(format!("{} {}", case.rule, case.name));
            }
            self.tell(case.rule, case.name, &finished.told, &finished.stderr.text)
        })?;
        let told = about_stdout(&printed);
        totals.count(PRINTED.0, &told);
        self.tell(PRINTED.0, PRINTED.1, &told, "")?;
        self.sum_up(&inspection, &totals)?;
        Ok(totals.broken.is_empty())
    }

    fn inspect(&self) -> Result<Inspection> {
        let asked: Asked<Inspection> = apart::ask(self.which.command("manifest")?, Duration::from_secs(self.deadline))?;
        asked.answer.map_err(|error| match asked.stderr.text.trim() {
            "" => error,
            text => error.context("stderr", text),
        })
    }

    /// The cases for what the plugin is, as far as they are wanted.
    fn selected(&self, inspection: &Inspection) -> Result<Vec<AnyCase>> {
        let word = |key: &str| inspection.manifest[key].as_str().unwrap_or_default();
        let kind = PluginKind::ALL.into_iter().find(|kind| kind.word() == word("kind"));
        let kind = kind.ok_or_else(|| Error::internal(format!("a plugin of the kind `{}`", word("kind"))))?;
        let profile = if word("profile") == "log" { StoreProfile::Log } else { StoreProfile::Store };
        let mut all = cases(kind, profile);
        let rules: BTreeSet<&str> = all.iter().map(|case| case.rule).collect();
        let wanted = |case: &AnyCase| {
            self.only.is_empty()
                || self.only.iter().any(|only| only.eq_ignore_ascii_case(case.rule) || only == case.name)
        };
        if let Some(nothing) = self
            .only
            .iter()
            .find(|only| !all.iter().any(|case| only.eq_ignore_ascii_case(case.rule) || *only == case.name))
        {
            let rules: Vec<&str> = rules.into_iter().collect();
            return Err(Error::not_found(format!("there is no rule and no case `{nothing}` for a {kind}"))
                .help(format!("the rules are {}; --list shows the cases", rules.join(", "))));
        }
        all.retain(wanted);
        Ok(all)
    }

    /// Runs the cases, as many at once as there are processors, and tells of them in their order. Those of a transport run
    /// one after the other: its address is one for all of them.
    fn run_all(&self, all: &[AnyCase], mut tell: impl FnMut(&AnyCase, Finished) -> Result<()>) -> Result<()> {
        let next = AtomicUsize::new(0);
        let address = all.iter().any(|case| case.rule.starts_with('T'));
        let workers = if address { 1 } else { thread::available_parallelism().map_or(1, usize::from).min(8) };
        let (sender, receiver) = channel();
        thread::scope(|scope| {
            for _ in 0..workers {
                let (next, sender) = (&next, sender.clone());
                scope.spawn(move || {
                    loop {
                        let place = next.fetch_add(1, Ordering::Relaxed);
                        let Some(case) = all.get(place) else { break };
                        // Nobody listens any more when telling has failed.
                        if sender.send((place, self.one(case))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            let mut waiting: BTreeMap<usize, Result<Finished>> = BTreeMap::new();
            let mut told = 0;
            for (place, finished) in receiver {
                waiting.insert(place, finished);
                while let Some(finished) = waiting.remove(&told) {
                    tell(&all[told], finished?)?;
                    told += 1;
                }
            }
            Ok(())
        })
    }

    fn one(&self, case: &AnyCase) -> Result<Finished> {
        let mut command = self.which.command("case")?;
        command.args([case.rule, case.name, &self.deadline.to_string()]);
        if self.pair {
            command.arg("pair");
        }
        // The child has a deadline of its own and tells; one that cannot even do that is killed.
        let asked: Asked<Told> = apart::ask(command, Duration::from_secs(self.deadline + 15))?;
        let told = asked.answer.unwrap_or_else(|error| Told::Failed(format!("{error}")));
        Ok(Finished { told, stdout: asked.stdout, stderr: asked.stderr })
    }

    fn tell(&self, rule: &str, name: &str, told: &Told, stderr: &str) -> Result<()> {
        let (word, reason) = match told {
            Told::Passed => ("pass", None),
            Told::Skipped(reason) => ("skip", Some(reason)),
            Told::Failed(reason) => ("FAIL", Some(reason)),
        };
        let stderr = if matches!(told, Told::Failed(_)) { stderr.trim() } else { "" };
        let mut text = format!("{word}  {rule:5} {name}");
        match told {
            Told::Skipped(reason) => text.push_str(&format!(" ({reason})")),
            Told::Failed(reason) => {
                let told = if stderr.is_empty() { reason.clone() } else { format!("{reason}\nstderr: {stderr}") };
                told.lines().for_each(|line| text.push_str(&format!("\n          {line}")));
            }
            Told::Passed => {}
        }
        self.print(&text, || {
            let outcome = match told {
                Told::Passed => "passed",
                Told::Skipped(_) => "skipped",
                Told::Failed(_) => "failed",
            };
            json!({"rule": rule, "case": name, "outcome": outcome, "reason": reason, "stderr": stderr})
        })
    }

    fn sum_up(&self, inspection: &Inspection, totals: &Totals) -> Result<()> {
        let Totals { passed, failed, skipped, broken, first } = totals;
        let broken: Vec<&str> = broken.iter().map(String::as_str).collect();
        let name = inspection.manifest["name"].as_str().unwrap_or_default();
        let mut text = format!("{name}: {passed} passed, {failed} failed, {skipped} skipped");
        if !broken.is_empty() {
            text.push_str(&format!("; broken: {}", broken.join(" ")));
        }
        // A plugin that breaks one rule fails in the cases of others too.
        if let Some(first) = first.as_ref().filter(|_| broken.len() > 1) {
            text.push_str(&format!("; begin with {first}"));
        }
        self.print(&text, || {
            json!({
                "plugin": name, "passed": passed, "failed": failed, "skipped": skipped, "broken": broken, "first": first,
                "manifest": inspection.manifest,
            })
        })
    }

    fn print(&self, text: &str, value: impl FnOnce() -> Value) -> Result<()> {
        let line = if self.json { value().to_string() } else { text.to_string() };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| Error::io("cannot print", &error))
    }
}

#[derive(Default)]
struct Totals {
    passed: u32,
    failed: u32,
    skipped: u32,
    broken: BTreeSet<String>,
    /// The first case that failed.
    first: Option<String>,
}

impl Totals {
    fn count(&mut self, rule: &str, told: &Told) {
        match told {
            Told::Passed => self.passed += 1,
            Told::Skipped(_) => self.skipped += 1,
            Told::Failed(_) => {
                self.failed += 1;
                self.broken.insert(rule.into());
            }
        }
    }
}

/// Whether any case printed something.
fn about_stdout(printed: &[(String, apart::Printed)]) -> Told {
    let Some((case, first)) = printed.first() else { return Told::Passed };
    let shown: String = first.text.chars().take(200).collect();
    let cases = printed.len();
    Told::Failed(format!("{} bytes in {case}, and in {cases} cases in all: {shown:?}", first.bytes))
}
