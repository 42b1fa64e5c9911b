//! Points in time, as messages carry them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize, de};

use crate::{Error, Result};

/// A point in time in UTC.
///
/// Written in whole seconds (`2026-01-10T15:30:00Z`) as SPEC.md shows it, with a fraction only where one was read. Any
/// RFC 3339 offset is accepted and normalised, so that two hosts hash the same time to the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// The time `seconds` and `nanos` after the Unix epoch; times outside the years 1 to 9999 are moved to its edge.
    pub fn from_unix(seconds: i64, nanos: u32) -> Self {
        let nanos = i32::try_from(nanos.min(999_999_999)).unwrap_or(0);
        Timestamp(jiff::Timestamp::new(seconds, nanos).unwrap_or(if seconds < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        }))
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub fn unix_seconds(self) -> i64 {
        self.0.as_nanosecond().div_euclid(1_000_000_000) as i64
    }

    /// Nanoseconds within the second.
    pub fn subsec_nanos(self) -> u32 {
        self.0.as_nanosecond().rem_euclid(1_000_000_000) as u32
    }

    /// The time this many nanoseconds after the Unix epoch.
    pub fn from_unix_nanos(nanos: i64) -> Self {
        Timestamp::from_unix(nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000) as u32)
    }

    /// Nanoseconds since the Unix epoch; times outside the years 1678 to 2261 are moved to the edge of that range.
    pub fn unix_nanos(self) -> i64 {
        i64::try_from(self.0.as_nanosecond()).unwrap_or(if self.unix_seconds() < 0 { i64::MIN } else { i64::MAX })
    }

    /// The same time without its fraction of a second.
    #[must_use]
    pub fn whole_seconds(self) -> Self {
        Timestamp::from_unix(self.unix_seconds(), 0)
    }

    /// This much earlier.
    #[must_use]
    pub fn before(self, by: Duration) -> Self {
        self.shifted(-1, by)
    }

    /// This much later.
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        self.shifted(1, by)
    }

    /// How long ago `earlier` was, nothing when it lies ahead.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let nanos = self.0.as_nanosecond() - earlier.0.as_nanosecond();
        Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }

    fn shifted(self, sign: i64, by: Duration) -> Self {
        let seconds = i64::try_from(by.as_secs()).unwrap_or(i64::MAX);
        let total = self.0.as_nanosecond() + i128::from(sign) * by.as_nanos() as i128;
        match jiff::Timestamp::from_nanosecond(total) {
            Ok(time) => Timestamp(time),
            Err(_) => Timestamp::from_unix(sign.saturating_mul(seconds), 0),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    /// RFC 3339; a date alone or a date and time without a zone is UTC.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!("`{text}` is not a time"))
                .help("write RFC 3339 (2026-01-10T15:30:00Z), YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS (both UTC)")
        };
        let shape = text.as_bytes();
        if shape.len() < 10 || !shape[0].is_ascii_digit() || shape[4] != b'-' {
            return Err(wrong());
        }
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return Ok(Timestamp(time));
        }
        let civil: jiff::civil::DateTime = text.parse().map_err(|_| wrong())?;
        let time = civil.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| wrong())?;
        Ok(Timestamp(time.timestamp()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Where the time comes from, so that a test can step it back, and two hosts can disagree.
pub trait Clock: Send + Sync {
    /// The time of day.
    fn now(&self) -> Timestamp;
    /// Time since the machine started, sleep included: never steps, and is the same for every process.
    fn since_boot(&self) -> Duration;
}

/// Reads a length of time as people write it in commands and configuration: `90s`, `30m`, `1h`, `2d`, `1h30m`, `500ms`.
///
/// A number without a unit is refused: `5` could mean seconds or minutes, and a guess would be silent.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let wrong = || {
        let negative = if text.trim_start().starts_with('-') { "negative, and " } else { "" };
        Error::invalid(format!("`{text}` is {negative}not a length of time"))
            .help("write a number and a unit: 500ms, 90s, 30m, 1h, 2d, 1h30m")
    };
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let millis = match &rest[..unit] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            _ => return Err(wrong()),
        };
        rest = &rest[unit..];
        let part = number.checked_mul(millis).ok_or_else(wrong)?;
        total = total.checked_add(Duration::from_millis(part)).ok_or_else(wrong)?;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_are_written_without_a_fraction() {
        assert_eq!(Timestamp::from_unix(1_768_059_000, 0).to_string(), "2026-01-10T15:30:00Z");
    }

    #[test]
    fn every_accepted_form_means_utc_unless_it_says_otherwise() {
        let expect = Timestamp::from_unix(1_768_059_000, 0);
        for text in ["2026-01-10T15:30:00Z", "2026-01-10T16:30:00+01:00", "2026-01-10T15:30:00"] {
            assert_eq!(text.parse::<Timestamp>().unwrap(), expect, "{text}");
        }
        assert_eq!("2026-01-10".parse::<Timestamp>().unwrap().to_string(), "2026-01-10T00:00:00Z");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "yesterday", "2026-13-01", "2026-02-30T00:00:00Z", "10:00", "2026"] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        let check = |text: &str, seconds: u64| assert_eq!(parse_duration(text).unwrap(), Duration::from_secs(seconds));
        check("90s", 90);
        check("30m", 1_800);
        check("1h30m", 5_400);
        check("2d", 172_800);
        assert_eq!(parse_duration("500ms").unwrap(), Duration::from_millis(500));
        for text in ["", "5", "m", "1x", "-1h", "1h 30", "99999999999999999999s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shifting_at_the_edges_does_not_panic() {
        let time = Timestamp::from_unix(0, 0);
        assert!(time.before(Duration::MAX) < time);
        assert!(time.after(Duration::MAX) > time);
        assert_eq!(time.after(Duration::from_secs(5)).since(time), Duration::from_secs(5));
        assert_eq!(time.since(time.after(Duration::from_secs(5))), Duration::ZERO);
    }
}
