//! What is told while a transfer is under way.

use std::time::{Duration, Instant};

use fmail_core::transfer::Progress;

use crate::output::{note, notice};

/// So often the progress is told. A transfer that ends sooner says nothing.
const EVERY: Duration = Duration::from_secs(2);

/// Tells the progress on standard error, now and then, and what the stores have to say at once.
pub(super) fn teller() -> impl FnMut(Progress) {
    let mut last = Instant::now();
    let mut heard = Vec::new();
    move |progress| {
        let text = match progress {
            // Both stores are read more than once.
            Progress::Notice(told) => {
                if !heard.contains(&told) {
                    notice(&told);
                    heard.push(told);
                }
                return;
            }
            Progress::Planned(count) => format!("looked at {count} messages"),
            Progress::Messages(count) => format!("{count} messages so far"),
            Progress::Records(count) => format!("{count} records so far"),
            Progress::Verified(count) => format!("compared {count} messages"),
        };
        if last.elapsed() >= EVERY {
            note(&text);
            last = Instant::now();
        }
    }
}

/// The number with the word, in the singular where it is one.
pub(super) fn counted(count: u64, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}
