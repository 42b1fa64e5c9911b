//! Message ids: `YYYYMMDD-HHMMSS-NNNN`, UTC.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, de};

use crate::{Error, ErrorKind, Result, Timestamp};

/// Ids per second: NNNN counts ticks of 100 microseconds.
pub const TICKS_PER_SECOND: u64 = 10_000;

/// Ticks from 1970 to 2020-01-01T00:00:00Z, where the numbers of ids begin.
const TICKS_OF_2020: i64 = 1_577_836_800 * TICKS_PER_SECOND as i64;

/// How far ids may run ahead of the clock before appends are turned away.
const MAX_AHEAD: u64 = 60 * TICKS_PER_SECOND;
/// How far ahead an imported id may lie. One further ahead would drag every later id into the future.
const MAX_IMPORT_AHEAD: u64 = 10 * TICKS_PER_SECOND;

/// The id of a message. It orders; the message's `time` tells the time.
///
/// Kept as one number, ticks of 100 microseconds since 1970, so that comparing, counting up and storing are plain
/// arithmetic. The range is the years 1970 to 9999, in which the text form sorts as the number does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(u64);

impl MessageId {
    /// The first id of all.
    pub const MIN: MessageId = MessageId(0);
    /// The last id that has a text form: `99991231-235959-9999`.
    pub const MAX: MessageId = MessageId(253_402_300_799 * TICKS_PER_SECOND + 9_999);

    /// The id at this many ticks since 1970, or nothing past the year 9999.
    pub fn from_ticks(ticks: u64) -> Option<Self> {
        (ticks <= Self::MAX.0).then_some(MessageId(ticks))
    }

    /// The first id of the tick that contains `time`.
    pub fn at(time: Timestamp) -> Self {
        let seconds = u64::try_from(time.unix_seconds()).unwrap_or(0);
        let ticks = seconds.saturating_mul(TICKS_PER_SECOND) + u64::from(time.subsec_nanos() / 100_000);
        MessageId(ticks.min(Self::MAX.0))
    }

    /// Ticks since 1970.
    pub const fn ticks(self) -> u64 {
        self.0
    }

    /// The id as a number, for neighbours whose ids are numbers: ticks since 2020, below 2^53 for the next 28,000 years, so
    /// that every JSON reader keeps it exactly. Negative for what is older.
    pub const fn number(self) -> i64 {
        self.0 as i64 - TICKS_OF_2020
    }

    /// The id that has this number, if it is one of the years 1970 to 9999.
    pub fn from_number(number: i64) -> Option<Self> {
        let ticks = number.checked_add(TICKS_OF_2020)?;
        u64::try_from(ticks).ok().and_then(Self::from_ticks)
    }

    /// The next id.
    #[must_use]
    pub fn next(self) -> Self {
        MessageId((self.0 + 1).min(Self::MAX.0))
    }

    /// The id that a store assigns behind `last`: the tick that the clock shows, or the one behind the last id.
    ///
    /// Ids may run a minute ahead of the clock, when messages come faster than ticks or the clock was set back; behind
    /// that it is `backpressure`.
    pub fn allocate(last: MessageId, now: Timestamp) -> Result<Self> {
        let clock = MessageId::at(now);
        let id = clock.max(last.next());
        if id.0 - clock.0 <= MAX_AHEAD && id > last {
            return Ok(id);
        }
        Err(Error::new(ErrorKind::Backpressure, format!("ids have run ahead of the clock ({now}) up to {last}"))
            .help("try again in a minute; if it persists, look whether the clock was set back"))
    }

    /// Whether an imported message may keep this id, as far as the clock is concerned: it is at most 10 s ahead.
    pub fn is_importable(self, now: Timestamp) -> bool {
        self.0 <= MessageId::at(now).0.saturating_add(MAX_IMPORT_AHEAD)
    }

    /// Whether the text form ends like this.
    ///
    /// Up to four digits, the usual case, are compared as a number: a look through a million ids then costs
    /// milliseconds.
    pub fn ends_with(self, suffix: &str) -> bool {
        if (1..=4).contains(&suffix.len()) && suffix.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = suffix.bytes().fold(0, |sum, byte| sum * 10 + u64::from(byte - b'0'));
            return self.0 % 10_u64.pow(suffix.len() as u32) == number;
        }
        self.to_string().ends_with(suffix)
    }

    /// The day that the id spells, as `YYYYMMDD`.
    pub fn day(self) -> String {
        let mut text = self.to_string();
        text.truncate(8);
        text
    }

    /// The time that the id spells.
    pub fn time(self) -> Timestamp {
        let nanos = (self.0 % TICKS_PER_SECOND) as u32 * 100_000;
        Timestamp::from_unix((self.0 / TICKS_PER_SECOND) as i64, nanos)
    }
}

impl MessageId {
    /// The text form. Every message is named by it several times over, so its digits are not left to the formatter.
    fn text(self) -> [u8; 20] {
        let seconds = (self.0 / TICKS_PER_SECOND) as i64;
        let (year, month, day) = civil_from_days(seconds / 86_400);
        let clock = seconds % 86_400;
        let mut text = *b"00000000-000000-0000";
        let mut put = |end: usize, digits: usize, number: i64| {
            let mut rest = number;
            for byte in text[end - digits..end].iter_mut().rev() {
                *byte = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        };
        put(4, 4, year);
        put(6, 2, month);
        put(8, 2, day);
        put(11, 2, clock / 3_600);
        put(13, 2, clock / 60 % 60);
        put(15, 2, clock % 60);
        put(20, 4, (self.0 % TICKS_PER_SECOND) as i64);
        text
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.text()).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MessageId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!("`{text}` is not a message id"))
                .help("an id is YYYYMMDD-HHMMSS-NNNN, for example 20260110-153000-0001")
        };
        let bytes = text.as_bytes();
        if bytes.len() != 20 || bytes[8] != b'-' || bytes[15] != b'-' {
            return Err(wrong());
        }
        let number = |range: std::ops::Range<usize>| -> Option<i64> {
            bytes[range]
                .iter()
                .try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
        };
        let parts = || {
            Some((
                number(0..4)?,
                number(4..6)?,
                number(6..8)?,
                number(9..11)?,
                number(11..13)?,
                number(13..15)?,
                number(16..20)?,
            ))
        };
        let (year, month, day, hour, minute, second, tick) = parts().ok_or_else(wrong)?;
        if year < 1970 || hour > 23 || minute > 59 || second > 59 {
            return Err(wrong());
        }
        let days = days_from_civil(year, month, day);
        if civil_from_days(days) != (year, month, day) {
            return Err(wrong());
        }
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
        Ok(MessageId(seconds as u64 * TICKS_PER_SECOND + tick as u64))
    }
}

impl Serialize for MessageId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(str::from_utf8(&self.text()).map_err(serde::ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Days since 1970 to a proleptic Gregorian date. Written out because an index rebuild parses a million ids, and the
/// arithmetic is four lines each way.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * month_shifted + 2) / 5 + 1)
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_shifted = (month + 9) % 12;
    let day_of_year = (153 * month_shifted + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_number_agree() {
        for text in ["20260110-153000-0001", "19700101-000000-0000", "20240229-235959-9999", "99991231-235959-9999"] {
            let id: MessageId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
            assert_eq!(MessageId::from_ticks(id.ticks()), Some(id));
        }
    }

    #[test]
    fn the_spelled_time_agrees_with_the_calendar_library() {
        for days in (0..2_900_000).step_by(997) {
            let id = MessageId::from_ticks(days * 86_400 * TICKS_PER_SECOND).unwrap();
            let time = id.time().to_string();
            let spelled = id.to_string();
            assert_eq!(time[..10].replace('-', ""), spelled[..8]);
            assert_eq!(spelled.parse::<MessageId>().unwrap(), id);
            assert_eq!(MessageId::at(id.time()), id);
        }
    }

    #[test]
    fn order_of_text_is_order_of_ids() {
        let first: MessageId = "20260110-153000-9999".parse().unwrap();
        assert_eq!(first.next().to_string(), "20260110-153001-0000");
        assert!(first < first.next() && first.to_string() < first.next().to_string());
    }

    #[test]
    fn an_id_is_known_by_its_end() {
        let id: MessageId = "20260110-153000-0042".parse().unwrap();
        for end in ["", "2", "42", "0042", "-0042", "00-0042", "153000-0042", "20260110-153000-0042"] {
            assert!(id.ends_with(end), "{end}");
        }
        for other in ["43", "1042", "10042", "153001-0042", "x", "120260110-153000-0042"] {
            assert!(!id.ends_with(other), "{other}");
        }
    }

    #[test]
    fn an_id_and_its_number_lead_to_each_other() {
        for (text, number) in
            [("20200101-000000-0003", 3), ("20260110-153000-0042", 1_902_222_000_042), ("20191231-235959-9999", -1)]
        {
            let id: MessageId = text.parse().unwrap();
            assert_eq!((id.number(), MessageId::from_number(number)), (number, Some(id)));
        }
        assert!(MessageId::MAX.number() < 1 << 53);
        for wrong in [i64::MIN, i64::MAX, MessageId::MAX.number() + 1, MessageId::MIN.number() - 1] {
            assert_eq!(MessageId::from_number(wrong), None);
        }
    }

    #[test]
    fn wrong_ids_are_refused() {
        for text in [
            "",
            "0042",
            "20260110-153000-001",
            "20260110-153000-00010",
            "20261310-153000-0001",
            "20260230-153000-0001",
            "20260110-243000-0001",
            "20260110-153060-0001",
            "20260110_153000_0001",
            "+0260110-153000-0001",
            "19691231-235959-0000",
            "2026011é-153000-001",
        ] {
            assert!(text.parse::<MessageId>().is_err(), "{text}");
        }
    }
}
