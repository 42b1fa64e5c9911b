//! The stamps of what a node says of itself.
//!
//! A stamp lies above that of everything that was said before about the same thing. They are not stored: after a start the
//! first stamp follows from the content, and when another host turns out to have a later one, ours goes above it. That
//! happens once or twice after a start, and is nobody's fault: what has a stamp of before we began to speak may be what we said
//! in an earlier run, under an earlier name or of what has changed since. Where it goes on and on, another host has our id and does the same: then whoever
//! spoke last is left the word, and an operator is told.

use std::collections::HashMap;
use std::time::Duration;

use fmail_api::{Fingerprint, RecordKey, Timestamp};

/// So often we say again what another host says differently, as long as we have nothing new to say.
const MOST_OUTBIDS: u32 = 8;

/// The stamps of a node, by the names of what it says.
#[derive(Default)]
pub(crate) struct Stamps {
    said: HashMap<RecordKey, Said>,
    /// How often ours had to go above what we are to have said.
    outbids: HashMap<RecordKey, u32>,
}

/// What was said last under a name.
struct Said {
    content: Fingerprint,
    stamp: Timestamp,
    /// When anything was said under that name for the first time in this run.
    since: Timestamp,
}

impl Stamps {
    /// The stamp of this content. `first` is the one that it has when nothing was said before.
    pub(super) fn stamp(
        &mut self,
        key: &RecordKey,
        content: Fingerprint,
        first: Timestamp,
        now: Timestamp,
    ) -> Timestamp {
        let known = self.said.entry(key.clone()).or_insert(Said { content, stamp: first, since: now });
        if known.content != content {
            (known.content, known.stamp) = (content, above(known.stamp).max(now));
        }
        known.stamp
    }

    /// Whether this is what we say, or may be what we said before: we have said something else since, or it is from
    /// before this run.
    pub(super) fn may_be_ours(&self, key: &RecordKey, content: Fingerprint, stamp: Timestamp) -> bool {
        let ours = |said: &Said| said.content == content || stamp < said.stamp || stamp < said.since;
        self.said.get(key).is_some_and(ours)
    }

    /// Hears from another host what we are to have said. If that was something else, and not before what we say, ours gets
    /// a later stamp. Whether anything changed.
    pub(super) fn hear(&mut self, key: &RecordKey, content: Fingerprint, stamp: Timestamp) -> bool {
        let Some(known) = self.said.get_mut(key) else { return false };
        let later = match known.content == content {
            true => known.stamp.max(stamp),
            false if stamp >= known.stamp => {
                let outbids = self.outbids.entry(key.clone()).or_default();
                *outbids += 1;
                if *outbids > MOST_OUTBIDS { known.stamp } else { above(stamp) }
            }
            false => known.stamp,
        };
        std::mem::replace(&mut known.stamp, later) != later
    }

    /// Whether another host speaks as this one.
    pub(super) fn are_contested(&self) -> bool {
        self.outbids.values().any(|outbids| *outbids > MOST_OUTBIDS)
    }
}

fn above(stamp: Timestamp) -> Timestamp {
    stamp.after(Duration::from_millis(1))
}
