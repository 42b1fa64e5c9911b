//! Eight writers at once.

use std::process::Command;
use std::time::Instant;

use fmail_api::{Error, Result};

use super::Extent;
use super::report::Report;
use super::stage::{Stage, succeed};
use super::timing::quantile;

const WRITERS: usize = 8;

/// Adds the rows of this measurement.
pub fn measure(stage: &Stage, extent: &Extent, report: &mut Report) -> Result<()> {
    let Extent { rounds, turns, .. } = *extent;
    let project = stage.project("writers", 0)?;
    let project_in_c = stage.project_in_c("writers-c")?;
    let (mut ours, mut in_c) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        in_c.push(rate(rounds, || stage.send_in_c(&project_in_c))?);
        ours.push(rate(rounds, || stage.fmail(&project, &["send", "bench", "one of many"]))?);
    }
    let (ours, in_c) = (quantile(&mut ours, 0.5), quantile(&mut in_c, 0.5));
    report.figure(format!("{WRITERS} writers, the C program"), format!("{in_c:.0} messages/s"));
    report.compared(
        format!("{WRITERS} writers, `fmail send`"),
        format!("{ours:.0} messages/s"),
        ours / in_c,
        "the C program",
    );
    Ok(())
}

/// Messages per second when each writer starts `each` processes, one after the other.
fn rate(each: usize, command: impl Fn() -> Command + Sync) -> Result<f64> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let writer = |_| scope.spawn(|| (0..each).try_for_each(|_| succeed(&mut command())));
        let running: Vec<_> = (0..WRITERS).map(writer).collect();
        running
            .into_iter()
            .try_for_each(|writer| writer.join().unwrap_or_else(|_| Err(Error::internal("a writer panicked"))))
    })?;
    Ok((WRITERS * each) as f64 / start.elapsed().as_secs_f64())
}
