//! A durable send, against a process that does nothing and a C program that does the same.

use fmail_api::Result;

use super::report::{Report, shown};
use super::stage::Stage;
use super::timing::{medians, ratio};

/// Adds the rows of this measurement.
pub fn measure(stage: &Stage, rounds: usize, report: &mut Report) -> Result<()> {
    let project = stage.project("send", 0)?;
    let project_in_c = stage.project_in_c("send-c")?;
    let body = "a message of the size that agents send each other: a sentence or two, and the name of a file";
    let commands = [
        stage.nothing(),
        stage.send_in_c(&project_in_c),
        stage.fmail(&project, &["send", "bench", body]),
        stage.fmail(&project, &["--version"]),
    ];
    let [nothing, send_in_c, send, version] = medians(rounds, commands)?;
    report.figure("`/bin/true`", shown(nothing));
    report.compared("`fmail --version`", shown(version), ratio(version, nothing), "`/bin/true`");
    report.compared("the same file operations in C", shown(send_in_c), ratio(send_in_c, nothing), "`/bin/true`");
    let to_nothing = ratio(send, nothing);
    report.compared("`fmail send`, durable", shown(send), to_nothing, "`/bin/true`");
    report.goal("at most 2.5 x", to_nothing <= 2.5);
    report.compared("", shown(send), ratio(send, send_in_c), "the C program");
    Ok(())
}
