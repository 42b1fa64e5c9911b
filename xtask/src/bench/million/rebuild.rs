//! The price of a lost index: the first command afterwards reads every message and builds it again.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use fmail_api::{Error, Result};

use super::{Projects, add_peak, peak};
use crate::bench::Extent;
use crate::bench::report::{Report, shown};
use crate::bench::stage::Stage;
use crate::bench::timing::{medians, quantile};
use crate::install::doing;

const COMMAND: [&str; 3] = ["log", "-n", "1"];

/// The index has to be there again within this time, when what is read is in memory.
const GOAL: Duration = Duration::from_secs(15);

/// Adds the rows of this measurement.
pub fn measure(stage: &Stage, projects: &Projects, extent: &Extent, report: &mut Report) -> Result<()> {
    let index = projects.many.join(".fmail/index");
    let (mut samples, mut said) = (Vec::new(), Vec::new());
    // The first is not counted: it brings what it reads into memory.
    for turn in 0..=extent.turns {
        remove(&index)?;
        let (taken, lines) = timed(stage, &projects.many)?;
        if turn > 0 {
            samples.push(taken.as_secs_f64());
            said.push(lines as f64);
        }
    }
    let rebuilt = Duration::from_secs_f64(quantile(&mut samples, 0.5));
    let what = format!("`fmail log -n 1` with the index deleted, {} messages", projects.count());
    report.figure(&what, shown(rebuilt));
    report.goal("at most 15 s", rebuilt <= GOAL);
    let lines = quantile(&mut said, 0.5);
    report.figure(format!("{what}, lines on stderr about its progress"), format!("{lines:.0}"));
    report.goal("one a second", lines + 1.0 >= rebuilt.as_secs_f64().floor());
    remove(&index)?;
    add_peak(report, &what, peak(&mut stage.fmail_with_peak(&projects.many, &COMMAND))?);
    let [after] = medians(extent.rounds, [stage.fmail(&projects.many, &COMMAND)])?;
    report.figure("`fmail log -n 1` right after", shown(after));
    Ok(())
}

/// How long the command takes, and how many lines it says about how far it is.
fn timed(stage: &Stage, project: &Path) -> Result<(Duration, usize)> {
    let begun = Instant::now();
    let output = stage.fmail(project, &COMMAND).stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let taken = begun.elapsed();
    let output = output.map_err(|error| Error::io("running `fmail log`", &error))?;
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() || told.lines().count() != 1 {
        return Err(Error::internal(format!("`fmail log -n 1` did not print one line: {told}{errors}")));
    }
    Ok((taken, errors.lines().filter(|line| line.contains("rebuil")).count()))
}

fn remove(index: &Path) -> Result<()> {
    let removed = if index.is_dir() { fs::remove_dir_all(index) } else { fs::remove_file(index) };
    removed.map_err(doing("removing", index))
}
