//! Appending (G1 to G4).

use std::sync::Barrier;
use std::thread;

use fmail_api::{ErrorKind, Log};
use futures::executor::block_on;

use super::{LogCase, LogNeed, LogSubject, append, append_all, read_all, refused, shown};
use crate::case::{ensure, ensure_eq};
use crate::{Failure, Verdict};

pub(super) static CASES: &[LogCase] = &[
    LogCase { rule: "G1", name: "positions_begin_with_one_and_follow_each_other", needs: &[], check: positions },
    LogCase { rule: "G1", name: "positions_go_on_behind_what_was_dropped", needs: &[], check: behind_dropped },
    LogCase { rule: "G2", name: "an_append_elsewhere_is_conflict_and_stores_nothing", needs: &[], check: elsewhere },
    LogCase { rule: "G2", name: "of_several_appends_at_one_position_one_succeeds", needs: &[], check: race },
    LogCase {
        rule: "G2",
        name: "of_several_instances_at_one_position_one_succeeds",
        needs: &[LogNeed::Shared],
        check: race_between_instances,
    },
    LogCase { rule: "G3", name: "what_was_appended_is_read_at_once", needs: &[], check: read_at_once },
    LogCase {
        rule: "G3",
        name: "what_was_appended_is_read_by_other_instances_at_once",
        needs: &[LogNeed::Shared],
        check: read_elsewhere,
    },
    LogCase { rule: "G4", name: "any_text_reads_back_as_it_was", needs: &[], check: texts },
    LogCase { rule: "G4", name: "a_large_text_reads_back_as_it_was", needs: &[], check: large },
];

fn positions(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    append_all(&*log, 1, &["one", "two", "three"])?;
    ensure_eq!(shown(&read_all(&*log, 0, 10)?), [(1, "one"), (2, "two"), (3, "three")], "the entries");
    Ok(())
}

fn behind_dropped(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    append_all(&*log, 1, &["one", "two", "three"])?;
    block_on(log.discard(&[1, 2]))?;
    for taken in 1..=3 {
        refused(&*log, taken, "again")?;
    }
    append(&*log, 4, "four")?;
    let last = read_all(&*log, 2, 10)?;
    ensure_eq!(shown(&last), [(3, "three"), (4, "four")], "the entries behind those that were dropped");
    Ok(())
}

fn elsewhere(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    for wrong in [0, 2, 3, 1_000_000] {
        refused(&*log, wrong, "wrong")?;
    }
    ensure_eq!(shown(&read_all(&*log, 0, 10)?), [], "the entries after appends that were refused");
    append_all(&*log, 1, &["one", "two"])?;
    for wrong in [0, 1, 2, 4, u64::from(u32::MAX)] {
        refused(&*log, wrong, "wrong")?;
    }
    ensure_eq!(shown(&read_all(&*log, 0, 10)?), [(1, "one"), (2, "two")], "the entries after refused appends");
    append(&*log, 3, "three")
}

/// How many try at once, and how often.
const CROWD: usize = 6;
const ROUNDS: u64 = 40;

fn race(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    let logs: Vec<_> = (0..CROWD).map(|_| log.clone()).collect();
    raced(&logs.iter().map(|log| &**log).collect::<Vec<_>>())
}

fn race_between_instances(subject: &dyn LogSubject) -> Verdict {
    let logs: Vec<_> = (0..CROWD).map(|_| subject.open()).collect::<fmail_api::Result<_>>()?;
    raced(&logs.iter().map(|log| &**log).collect::<Vec<_>>())
}

/// Everyone appends at the same position at the same time, round after round.
fn raced(logs: &[&dyn Log]) -> Verdict {
    for at in 1..=ROUNDS {
        let start = Barrier::new(logs.len());
        let winners: Vec<String> = thread::scope(|scope| {
            let threads: Vec<_> = (logs.iter().enumerate())
                .map(|(who, log)| {
                    let start = &start;
                    scope.spawn(move || {
                        let text = format!("round {at}, writer {who}");
                        start.wait();
                        match block_on(log.append(at, text.clone())) {
                            Ok(()) => Ok(Some(text)),
                            Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
                            Err(error) => Err(Failure::from(error)),
                        }
                    })
                })
                .collect();
            let all = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("a panic"))));
            all.collect::<Verdict<Vec<_>>>().map(|all| all.into_iter().flatten().collect())
        })?;
        ensure!(winners.len() == 1, "{} of {} appends at the position {at} succeeded", winners.len(), logs.len());
        let stored = read_all(logs[0], at - 1, 10)?;
        ensure_eq!(shown(&stored), [(at, winners[0].as_str())], "what is stored at the position {at}");
    }
    Ok(())
}

fn read_at_once(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    for at in 1..=50 {
        let text = format!("number {at}");
        append(&*log, at, &text)?;
        ensure_eq!(shown(&block_on(log.read(at - 1, 1))?), [(at, text.as_str())], "a read right behind the append");
    }
    Ok(())
}

fn read_elsewhere(subject: &dyn LogSubject) -> Verdict {
    let (one, two) = (subject.open()?, subject.open()?);
    for at in 1..=20 {
        let (writer, reader) = if at % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let text = format!("number {at}");
        append(&**writer, at, &text)?;
        let read = block_on(reader.read(at - 1, 1))?;
        ensure_eq!(shown(&read), [(at, text.as_str())], "a read of another instance right behind the append");
    }
    Ok(())
}

fn texts(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    let texts = [
        "",
        " ",
        " spaces at both ends ",
        "7",
        "1 2 3",
        r#"{"quotes":"\"","backslash":"\\","escape":"\u0000\n"}"#,
        "'; DROP TABLE entries; --",
        "100% %s %n %d",
        "tab-free, but with \u{7f} and \u{85} and \u{2028}",
        "Grüße, 你好, 🦀, e\u{301}",
        "\u{feff}begins with a mark",
    ];
    append_all(&*log, 1, &texts)?;
    let read = read_all(&*log, 0, 3)?;
    for (entry, (text, at)) in read.iter().zip(texts.iter().zip(1..)) {
        ensure_eq!((entry.position, entry.text.as_str()), (at, *text), "an entry as it reads back");
    }
    ensure_eq!(read.len(), texts.len(), "the number of entries");
    Ok(())
}

fn large(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    // As large as an entry for the largest message, and small ones around it.
    let size = log.facts().max_message_bytes.min(1 << 20);
    let large = "0123456789abcdef".repeat(size / 16);
    append_all(&*log, 1, &["before", &large, "behind"])?;
    let read = read_all(&*log, 0, 10)?;
    ensure_eq!(read.len(), 3, "the number of entries");
    ensure!(read[1].text == large, "an entry of {} bytes came back with {}", large.len(), read[1].text.len());
    ensure_eq!((read[0].text.as_str(), read[2].text.as_str()), ("before", "behind"), "the entries around it");
    Ok(())
}
