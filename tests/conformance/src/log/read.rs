//! Reading and dropping (G6 to G9).

use futures::executor::block_on;

use super::{LogCase, LogSubject, append, append_all, read_all, refused, shown};
use crate::Verdict;
use crate::case::{ensure, ensure_eq};

pub(super) static CASES: &[LogCase] = &[
    LogCase { rule: "G6", name: "a_read_delivers_in_order_and_leaves_none_out", needs: &[], check: in_order },
    LogCase { rule: "G6", name: "a_read_delivers_at_most_its_limit", needs: &[], check: limited },
    LogCase { rule: "G7", name: "only_an_empty_answer_is_the_end", needs: &[], check: end },
    LogCase { rule: "G8", name: "what_was_dropped_is_left_out_or_whole", needs: &[], check: dropped },
    LogCase { rule: "G8", name: "a_position_is_not_used_again", needs: &[], check: not_again },
    LogCase { rule: "G9", name: "dropping_twice_succeeds", needs: &[], check: twice },
];

const MANY: u64 = 500;

fn in_order(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    let texts: Vec<String> =
        (1..=MANY).map(|number| format!("{number} {}", "x".repeat(number as usize % 97))).collect();
    append_all(&*log, 1, &texts.iter().map(String::as_str).collect::<Vec<_>>())?;
    for (after, limit) in [(0, 1000), (0, 7), (0, 1), (123, 50), (MANY - 1, 10)] {
        let read = read_all(&*log, after, limit)?;
        let expected: Vec<(u64, &str)> = (after + 1..=MANY).map(|at| (at, texts[at as usize - 1].as_str())).collect();
        ensure!(shown(&read) == expected, "reading behind {after} in steps of {limit} gives something else");
    }
    Ok(())
}

fn limited(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    append_all(&*log, 1, &["x"; 20])?;
    for limit in [1, 2, 19, 20, 21] {
        let read = block_on(log.read(0, limit))?;
        ensure!(read.len() <= limit, "a read with the limit {limit} delivers {}", read.len());
        ensure!(!read.is_empty(), "a read with the limit {limit} delivers nothing, and there are 20 entries");
    }
    Ok(())
}

fn end(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    ensure_eq!(shown(&block_on(log.read(0, 10))?), [], "a read of an empty log");
    append_all(&*log, 1, &["one", "two", "three"])?;
    for after in [3, 4, 1_000_000] {
        ensure_eq!(shown(&block_on(log.read(after, 10))?), [], "a read behind the last entry");
    }
    // With a hole as large as an answer may be, the entry behind it is still found.
    append_all(&*log, 4, &["hole"; 300])?;
    append(&*log, 304, "behind the hole")?;
    block_on(log.discard(&(4..304).collect::<Vec<_>>()))?;
    let mut read = read_all(&*log, 3, 16)?;
    read.retain(|entry| entry.position >= 304);
    ensure_eq!(shown(&read), [(304, "behind the hole")], "what is read behind dropped entries");
    Ok(())
}

fn dropped(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    append_all(&*log, 1, &["one", "two", "three", "four", "five"])?;
    block_on(log.discard(&[2, 4]))?;
    let read = read_all(&*log, 0, 10)?;
    let mut kept = shown(&read);
    ensure!(
        kept.iter().all(|(at, text)| ["one", "two", "three", "four", "five"].get(*at as usize - 1) == Some(text)),
        "after a drop the entries are {kept:?}"
    );
    kept.retain(|(at, _)| ![2, 4].contains(at));
    ensure_eq!(kept, [(1, "one"), (3, "three"), (5, "five")], "the entries that were not dropped");
    Ok(())
}

fn not_again(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    append_all(&*log, 1, &["one", "two", "three"])?;
    block_on(log.discard(&[1, 2]))?;
    for position in [1, 2] {
        refused(&*log, position, "again")?;
    }
    append(&*log, 4, "four")
}

fn twice(subject: &dyn LogSubject) -> Verdict {
    let log = subject.open()?;
    append_all(&*log, 1, &["one", "two", "three"])?;
    for positions in [&[1][..], &[1], &[1, 2], &[2, 1]] {
        block_on(log.discard(positions))?;
    }
    ensure_eq!(shown(&read_all(&*log, 2, 10)?), [(3, "three")], "what was never dropped");
    Ok(())
}
