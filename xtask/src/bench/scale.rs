//! The same commands in a small and in a large project, and the price of a lost index.

use std::fs;
use std::path::Path;

use fmail_api::{Error, Result};

use super::report::{Report, shown};
use super::stage::Stage;
use super::timing::{medians, quantile, ratio, time};
use crate::install::doing;

const SMALL: usize = 1_000;
const LARGE: usize = 100_000;

/// What has to stay cheap as a project grows.
const COMMANDS: [(&str, &[&str]); 3] = [
    ("`fmail log task -n 20`", &["log", "task", "-n", "20"]),
    ("`fmail send`", &["send", "bench", "one more"]),
    ("start of `fmail watch` (with `--timeout 1ms`)", &["watch", "--count", "1", "--timeout", "1ms"]),
];

/// Adds the rows of this measurement.
pub fn measure(stage: &Stage, rounds: usize, report: &mut Report) -> Result<()> {
    let small = stage.project("small", SMALL)?;
    let large = stage.project("large", LARGE)?;
    for (what, arguments) in COMMANDS {
        let [few, many] = medians(rounds, [stage.fmail(&small, arguments), stage.fmail(&large, arguments)])?;
        report.figure(format!("{what}, 1,000 messages"), shown(few));
        let grown = ratio(many, few);
        report.compared(format!("{what}, 100,000 messages"), shown(many), grown, "with 1,000");
        report.goal("at most 2 x", grown <= 2.0);
        let peak = peak_megabytes(stage, &large, arguments)?;
        report.figure(format!("{what}, 100,000 messages, peak resident memory"), format!("{peak:.1} MB"));
        report.goal("under 64 MB", peak < 64.0);
    }
    rebuild(stage, &large, rounds, report)
}

fn peak_megabytes(stage: &Stage, project: &Path, arguments: &[&str]) -> Result<f64> {
    let output = stage
        .fmail_with_peak(project, arguments)
        .output()
        .map_err(|error| Error::io("measuring the peak memory", &error))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let kilobytes = text.lines().last().and_then(|line| line.trim().parse::<f64>().ok());
    match kilobytes {
        Some(kilobytes) if output.status.success() => Ok(kilobytes / 1_024.0),
        _ => Err(Error::internal(format!("`fmail {}` failed: {}", arguments.join(" "), text.trim()))),
    }
}

fn rebuild(stage: &Stage, project: &Path, rounds: usize, report: &mut Report) -> Result<()> {
    let arguments = ["log", "-n", "1"];
    let mut samples = Vec::new();
    for _ in 0..rounds.min(3) {
        remove_index(&project.join(".fmail/index"))?;
        samples.push(time(&mut stage.fmail(project, &arguments))?.as_secs_f64());
    }
    let rebuilt = std::time::Duration::from_secs_f64(quantile(&mut samples, 0.5));
    let [after] = medians(rounds, [stage.fmail(project, &arguments)])?;
    report.figure("`fmail log -n 1` with the index deleted, 100,000 messages", shown(rebuilt));
    report.figure("`fmail log -n 1` right after", shown(after));
    remove_index(&project.join(".fmail/index"))?;
    let peak = peak_megabytes(stage, project, &arguments)?;
    report.figure("peak resident memory of the rebuild", format!("{peak:.1} MB"));
    report.goal("under 64 MB", peak < 64.0);
    Ok(())
}

fn remove_index(index: &Path) -> Result<()> {
    let removed = if index.is_dir() { fs::remove_dir_all(index) } else { fs::remove_file(index) };
    removed.map_err(doing("removing", index))
}
