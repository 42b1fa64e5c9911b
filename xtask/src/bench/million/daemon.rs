//! What a daemon has resident, after the same requests, with few messages and with many.

use std::time::Duration;

use fmail_api::Result;

use super::Projects;
use crate::bench::daemon::forged;
use crate::bench::daemon::load::{Writes, acknowledged, delivered};
use crate::bench::daemon::peer::Address;
use crate::bench::daemon::process::Process;
use crate::bench::report::Report;
use crate::bench::stage::{Stage, succeed};

/// The same within what an allocator makes of it.
const UNCHANGED: f64 = 1.1;

/// How long it is sent to, and has its messages watched.
const SPAN: Duration = Duration::from_millis(300);

/// Adds the rows of this measurement.
pub fn measure(stage: &Stage, projects: &Projects, report: &mut Report) -> Result<()> {
    let few = resident(stage, projects, false)?;
    let many = resident(stage, projects, true)?;
    let what = |count: &str, kind: &str| format!("forged, {count} messages, {kind} resident memory");
    for (kind, few, many) in [("peak of", few.0, many.0), ("then", few.1, many.1)] {
        report.figure(what("1,000", kind), format!("{few:.1} MB"));
        report.compared(what(&projects.count(), kind), format!("{many:.1} MB"), many / few, "with 1,000");
        report.goal("unchanged", many / few <= UNCHANGED);
    }
    Ok(())
}

/// The most that a daemon has had resident while it did a bit of everything, and what it had at the end, in megabytes.
fn resident(stage: &Stage, projects: &Projects, large: bool) -> Result<(f64, f64)> {
    let project = if large { &projects.many } else { &projects.few };
    let address = Address::Unix(project.join(".fmail/forged.sock"));
    let log = stage.directory().join(format!("forged-{large}.log"));
    let daemon = Process::start(stage.forged(project), &address, &log)?;
    for _ in 0..3 {
        acknowledged(&forged::script(&address)?, 16, SPAN)?;
        delivered(&forged::pipelining_script(&address)?, 20, Writes::AllAtOnce, SPAN)?;
        for words in
            [&["log", "task", "-n", "20"][..], &["log", "-n", "20"], &["topics"], &["who"], &["search", "module"]]
        {
            succeed(&mut stage.fmail(project, words))?;
        }
        succeed(&mut super::owner(stage, project, &["inbox"]))?;
    }
    Ok((daemon.memory("VmHWM"), daemon.memory("VmRSS")))
}
