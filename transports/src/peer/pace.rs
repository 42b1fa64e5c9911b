//! How often, how long and how many.

use std::time::Duration;

/// The measures of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How often the other end is asked whether it is there.
    pub ping: Duration,
    /// How long the other end is left without what has become of its messages.
    pub report: Duration,
    /// An end that has not answered for so long is gone.
    pub dead: Duration,
    /// How often all messages are compared although nothing points to a difference.
    pub compare: Duration,
    /// How often the records that travel are compared.
    pub records: Duration,
    /// How long to wait before something that failed is tried again.
    pub again: Duration,
    /// How long what is on its way may take before it counts as missing.
    pub settle: Duration,
    /// How many batches of messages are under way in each direction at most. Few: what comes while they are on their way
    /// goes together with the next one.
    pub batches: usize,
    /// How many messages are in a batch for an end that takes each in a request of its own. All batches together are less
    /// than an end serves at a time, so that a question whether it is there never waits for its turn behind them.
    pub alone: usize,
    /// How many bytes they may have together. A message that is larger goes alone.
    pub bytes: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            ping: Duration::from_secs(2),
            report: Duration::from_millis(200),
            dead: Duration::from_secs(10),
            compare: Duration::from_secs(30),
            records: Duration::from_secs(3),
            again: Duration::from_secs(2),
            settle: Duration::from_secs(1),
            batches: 4,
            alone: 12,
            bytes: 8 * 1024 * 1024,
        }
    }
}
