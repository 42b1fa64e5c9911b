//! What the independent checker says.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long hosts may take until they hold the same, after everything has healed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The checker's findings.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Everything that is wrong, in words.
    pub wrong: Vec<String>,
    /// What it has counted: `messages`, `acknowledged`, `swept` and so on.
    pub counts: Value,
    /// How long it took until nothing was wrong; zero when it was not waited for.
    pub after: Duration,
}

impl Verdict {
    /// Something that it has counted.
    pub fn count(&self, what: &str) -> u64 {
        self.counts[what].as_u64().unwrap_or_else(|| panic!("the checker does not count {what}: {}", self.counts))
    }
}

/// Lets the checker look at these projects.
pub fn judge(ledger: &Path, projects: &[PathBuf]) -> Verdict {
    let checker = Path::new(env!("CARGO_MANIFEST_DIR")).join("checker.py");
    let output = Command::new("python3").arg(checker).arg(ledger).args(projects).output().expect("python3 starts");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("the checker failed ({error}): {}", String::from_utf8_lossy(&output.stderr));
    });
    let wrong = answer["wrong"].as_array().expect("a list").iter().map(|line| line.as_str().unwrap_or("?").to_string());
    Verdict { wrong: wrong.collect(), counts: answer["counts"].clone(), after: Duration::ZERO }
}

/// Asks again until nothing is wrong.
#[track_caller]
pub(crate) fn await_verdict(judge: impl Fn() -> Verdict, account: impl Fn() -> String) -> Verdict {
    let start = Instant::now();
    loop {
        let verdict = judge();
        if verdict.wrong.is_empty() {
            return Verdict { after: start.elapsed(), ..verdict };
        }
        if start.elapsed() > PATIENCE {
            let shown = &verdict.wrong[..verdict.wrong.len().min(40)];
            panic!(
                "after {PATIENCE:?} {} things are wrong, among them:\n{}\n{}\n{}",
                verdict.wrong.len(),
                shown.join("\n"),
                verdict.counts,
                account()
            );
        }
        // Files send no event to a checker that reads them all.
        std::thread::sleep(Duration::from_millis(100));
    }
}
