//! The same commands in a small and in a large project.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fmail_api::{Error, Result};

use super::{Projects, add_peak, owner, peak};
use crate::bench::report::{Report, shown};
use crate::bench::stage::{Stage, succeed};
use crate::bench::timing::{medians, quantile, ratio};

/// What has to stay cheap as a project grows.
const COMMANDS: [(&str, &[&str]); 5] = [
    ("`fmail log task -n 20`", &["log", "task", "-n", "20"]),
    ("`fmail log -n 20`", &["log", "-n", "20"]),
    ("`fmail send`", &["send", "bench", "one more"]),
    ("`fmail inbox`, 20 unread", &["inbox"]),
    ("`fmail watch --timeout 1ms`", &["watch", "--count", "1", "--timeout", "1ms"]),
];

/// Adds the rows of this measurement.
pub fn measure(stage: &Stage, projects: &Projects, rounds: usize, report: &mut Report) -> Result<()> {
    for (what, arguments) in COMMANDS {
        let pair = [&projects.few, &projects.many].map(|project| owner(stage, project, arguments));
        let [few, many] = medians(rounds, pair)?;
        report.figure(format!("{what}, 1,000 messages"), shown(few));
        let grown = ratio(many, few);
        let what = format!("{what}, {} messages", projects.count());
        report.compared(&what, shown(many), grown, "with 1,000");
        report.goal("at most 2 x", grown <= 2.0);
        let mut measured = stage.fmail_with_peak(&projects.many, arguments);
        add_peak(report, &what, peak(measured.env("FMAIL_AGENT", crate::fixture::OWNER))?);
    }
    start_of_watch(stage, projects, rounds, report)
}

/// From before a watch is started to its first line, which is there to be printed. The end of the process is left out:
/// giving up its kernel watches takes the kernel longer than the start.
fn start_of_watch(stage: &Stage, both: &Projects, rounds: usize, report: &mut Report) -> Result<()> {
    let projects = [&both.few, &both.many];
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
    let what = format!("start of `fmail watch` to its first line, {} messages", both.count());
    report.compared(what, shown(many), grown, "with 1,000");
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
