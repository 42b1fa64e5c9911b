//! The counters of the project: which id and which arrival come next.

use fmail_api::{Clock, Error, ErrorKind, MessageId, Result, TICKS_PER_SECOND, Timestamp};
use rusqlite::Connection;

/// How far ids may run ahead of the clock before appends are turned away.
const MAX_AHEAD: u64 = 60 * TICKS_PER_SECOND;
/// How far ahead an imported id may lie. One further ahead would drag every later id into the future.
const MAX_IMPORT_AHEAD: u64 = 10 * TICKS_PER_SECOND;

/// What the row of `state` says, read at the start of each transaction that writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Counters {
    /// The highest id that counts for the next one.
    last_id: u64,
    /// The place of the latest message in the order of arrival.
    pub(crate) last_arrival: i64,
    /// What the clock that never steps showed when the ids' clock was last looked at; nothing in another run of the
    /// machine.
    boot_ticks: Option<u64>,
    /// What the ids' clock showed then.
    clock_ticks: u64,
}

impl Counters {
    /// The counters as they stand.
    pub(crate) fn load(connection: &Connection, boot: &str) -> rusqlite::Result<Self> {
        let sql = "SELECT last_id, last_arrival, boot, boot_ticks, clock_ticks FROM state";
        connection.prepare_cached(sql)?.query_row((), |row| {
            let same_boot = row.get_ref(2)?.as_str()? == boot && !boot.is_empty();
            Ok(Counters {
                last_id: row.get::<_, i64>(0)?.unsigned_abs(),
                last_arrival: row.get(1)?,
                boot_ticks: if same_boot { Some(row.get::<_, i64>(3)?.unsigned_abs()) } else { None },
                clock_ticks: row.get::<_, i64>(4)?.unsigned_abs(),
            })
        })
    }

    /// Writes the counters back.
    pub(crate) fn save(&self, connection: &Connection, boot: &str) -> rusqlite::Result<()> {
        let sql = "UPDATE state SET last_id = ?, last_arrival = ?, boot = ?, boot_ticks = ?, clock_ticks = ?";
        let boot_ticks = self.boot_ticks.unwrap_or(0);
        let values = (signed(self.last_id), self.last_arrival, boot, signed(boot_ticks), signed(self.clock_ticks));
        connection.prepare_cached(sql)?.execute(values).map(drop)
    }

    /// The next id: the tick that the clock shows, or the one behind the last id.
    ///
    /// The ids' clock does not step back while the machine runs: ids would have to wait until the time has come again.
    pub(crate) fn allocate(&mut self, clock: &dyn Clock) -> Result<MessageId> {
        let boot = u64::try_from(clock.since_boot().as_micros() / 100).unwrap_or(u64::MAX);
        let passed = self.boot_ticks.and_then(|before| boot.checked_sub(before));
        let steady = passed.map_or(0, |passed| self.clock_ticks.saturating_add(passed));
        let now = MessageId::at(clock.now()).ticks().max(steady);
        let next = now.max(self.last_id + 1);
        let ahead = || {
            let last = MessageId::from_ticks(self.last_id).unwrap_or(MessageId::MAX);
            Error::new(
                ErrorKind::Backpressure,
                format!("ids have run ahead of the clock ({}) up to {last}; nothing was stored", clock.now()),
            )
            .help("try again in a minute; if it persists, look whether the clock was set back")
        };
        if next - now > MAX_AHEAD {
            return Err(ahead());
        }
        let id = MessageId::from_ticks(next).ok_or_else(ahead)?;
        (self.boot_ticks, self.clock_ticks, self.last_id) = (Some(boot), now, next);
        Ok(id)
    }

    /// Whether the id of a message from elsewhere is near enough to the present to be kept.
    pub(crate) fn accepts_foreign(id: MessageId, now: Timestamp) -> bool {
        id.ticks() <= MessageId::at(now).ticks().saturating_add(MAX_IMPORT_AHEAD)
    }

    /// Counts an id that another store has given.
    pub(crate) fn count_foreign(&mut self, id: MessageId) {
        self.last_id = self.last_id.max(id.ticks());
    }

    /// The place of the next message in the order of arrival.
    pub(crate) fn next_arrival(&mut self) -> i64 {
        self.last_arrival += 1;
        self.last_arrival
    }
}

/// Ticks as SQLite keeps them. Ids end far below the sign bit.
fn signed(ticks: u64) -> i64 {
    i64::try_from(ticks).unwrap_or(i64::MAX)
}
