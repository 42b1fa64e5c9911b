//! Points in the past, as `--since` takes them.

use fmail_api::{Error, MessageId, Result, Since, Timestamp, parse_duration};

/// Whether nothing that is stored is meant. A time would be read to the second, and bring what was sent within this one.
pub(crate) fn is_now(text: &str) -> bool {
    text.trim().eq_ignore_ascii_case("now")
}

/// Reads `now`, a length of time before now, a message id, a date or a time.
pub(crate) fn parse(text: &str, now: Timestamp) -> Result<Since> {
    let text = text.trim();
    if is_now(text) {
        return Ok(Since::Time(now));
    }
    if let Ok(id) = text.parse::<MessageId>() {
        return Ok(Since::Id(id));
    }
    if let Ok(ago) = parse_duration(text) {
        return Ok(Since::Time(now.before(ago)));
    }
    text.parse::<Timestamp>().map(Since::Time).map_err(|_| {
        Error::invalid(format!("`{}` is {}not a point in time", text.escape_debug(), negative(text))).help(
            "use now, a length of time (90s, 30m, 1h, 2d, 1h30m), a date (2026-01-10), a time (2026-01-10T15:30:00, \
             RFC 3339 with a zone, UTC without) or a message id",
        )
    })
}

/// What is wrong first of all with a length of time that has a sign.
pub(crate) fn negative(text: &str) -> &'static str {
    if text.trim_start().starts_with('-') { "negative, and " } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fmail_api::ErrorKind;

    fn check(text: &str, expect: &str) {
        let now: Timestamp = "2026-01-10T15:30:00Z".parse().unwrap();
        let shown = match parse(text, now).unwrap() {
            Since::Time(time) => time.to_string(),
            Since::Id(id) => format!("id {id}"),
            Since::Cursor(cursor) => format!("{cursor:?}"),
        };
        assert_eq!(shown, expect, "{text}");
    }

    #[test]
    fn every_form_is_understood() {
        check("now", "2026-01-10T15:30:00Z");
        check("90s", "2026-01-10T15:28:30Z");
        check("1h30m", "2026-01-10T14:00:00Z");
        check("2d", "2026-01-08T15:30:00Z");
        check("2024-01-10", "2024-01-10T00:00:00Z");
        check("2024-01-10T12:00:00", "2024-01-10T12:00:00Z");
        check("2024-01-10T12:00:00+02:00", "2024-01-10T10:00:00Z");
        check("20260110-152500-0003", "id 20260110-152500-0003");
    }

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        for text in ["", "yesterday", "5", "2026-13-01", "0042", "-1h"] {
            let error = parse(text, Timestamp::from_unix(0, 0)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{text}");
            assert!(error.help_text().unwrap().contains("1h30m"));
        }
    }
}
