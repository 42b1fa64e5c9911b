//! The same commands in a small and in a large project, and the price of a lost index.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fmail_api::{Error, Result};

use super::report::{Report, shown};
use super::stage::{Stage, succeed};
use super::timing::{medians, quantile, ratio, time};
use crate::install::doing;

const SMALL: usize = 1_000;
const LARGE: usize = 100_000;

/// What has to stay cheap as a project grows.
const COMMANDS: [(&str, &[&str]); 3] = [
    ("`fmail log task -n 20`", &["log", "task", "-n", "20"]),
    ("`fmail send`", &["send", "bench", "one more"]),
    ("`fmail watch --timeout 1ms`", &["watch", "--count", "1", "--timeout", "1ms"]),
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
    start_of_watch(stage, [&small, &large], rounds, report)?;
    rebuild(stage, &large, rounds, report)
}

/// From before a watch is started to its first line, which is there to be printed. The end of the process is left out:
/// giving up its kernel watches takes the kernel longer than the start.
fn start_of_watch(stage: &Stage, projects: [&Path; 2], rounds: usize, report: &mut Report) -> Result<()> {
    let mut ids = Vec::new();
    for project in projects {
        let sent = stage.fmail(project, &["send", "bench", "before"]).stdout(Stdio::piped()).output();
        let sent = sent.map_err(|error| Error::io("sending a message", &error))?;
        ids.push(String::from_utf8_lossy(&sent.stdout).trim().to_owned());
        succeed(&mut stage.fmail(project, &["send", "bench", "after"]))?;
    }
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..=rounds {
        for ((project, id), samples) in projects.iter().zip(&ids).zip(&mut samples) {
            let watch = stage.fmail(project, &["watch", "bench", "--since", id, "--count", "1"]);
            let taken = time_to_first_line(watch)?.as_secs_f64();
            if round > 0 {
                samples.push(taken);
            }
        }
    }
    let [few, many] = samples.map(|mut samples| Duration::from_secs_f64(quantile(&mut samples, 0.5)));
    report.figure("start of `fmail watch` to its first line, 1,000 messages", shown(few));
    let grown = ratio(many, few);
    report.compared("start of `fmail watch` to its first line, 100,000 messages", shown(many), grown, "with 1,000");
    report.goal("at most 2 x", grown <= 2.0);
    Ok(())
}

fn time_to_first_line(mut command: Command) -> Result<Duration> {
    let watching = |error: std::io::Error| Error::io("running `fmail watch`", &error);
    let start = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(watching)?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line).map_err(watching)?;
    }
    let taken = start.elapsed();
    let status = child.wait().map_err(watching)?;
    if status.success() && line.ends_with('\n') {
        return Ok(taken);
    }
    Err(Error::internal(format!("`fmail watch` printed `{}` and ended with {status}", line.trim_end())))
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
    let rebuilt = Duration::from_secs_f64(quantile(&mut samples, 0.5));
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
