//! Health, closing and opening again (G3, G10, G11).

use futures::executor::block_on;

use super::{LogCase, LogNeed, LogSubject, append, append_all, read_all, shown};
use crate::Verdict;
use crate::case::{ensure, ensure_eq};

pub(super) static CASES: &[LogCase] = &[
    LogCase { rule: "G10", name: "health_changes_nothing", needs: &[], check: health },
    LogCase { rule: "G11", name: "a_log_can_be_closed", needs: &[], check: close },
    LogCase {
        rule: "G11",
        name: "the_entries_are_there_on_the_next_open",
        needs: &[LogNeed::Durable],
        check: next_open,
    },
];

fn health(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    for at in 1..=3 {
        for _ in 0..3 {
            let health = block_on(log.health())?;
            ensure!(health.writable, "a fresh log is not writable: {}", health.detail);
        }
        ensure_eq!(read_all(&*log, 0, 10)?.len() as u64, at - 1, "the entries after asking for the health");
        append(&*log, at, "entry")?;
    }
    Ok(())
}

fn close(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    append(&*log, 1, "one")?;
    Ok(block_on(log.close())?)
}

fn next_open(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    append_all(&*log, 1, &["one", "two", "three"])?;
    block_on(log.discard(&[1]))?;
    block_on(log.close())?;
    drop(log);
    let log = subject.open()?;
    let read = read_all(&*log, 1, 10)?;
    ensure_eq!(shown(&read), [(2, "two"), (3, "three")], "the entries after close and reopen");
    append(&*log, 4, "four")
}
