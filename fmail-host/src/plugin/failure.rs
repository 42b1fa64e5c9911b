//! From what a plugin answers to the error that everyone else sees.

use fmail_abi::{Answer, status};
use fmail_api::{Error, ErrorKind};
use serde_json::Value;

/// The error that an answer means. `doing` is what was asked, as in "the plugin `sqlite`, `append`".
///
/// The body says more than the status does: JSON with a `code` is fmail's own error and stays what it is. A plain
/// sentence gets the kind that the status stands for.
pub fn failure(doing: &str, answer: &Answer) -> Error {
    let Ok(body) = std::str::from_utf8(&answer.body) else {
        return Error::internal(format!("{doing}: the reason (status {}) is not UTF-8 text", answer.status));
    };
    let Some(kind) = kind_of(answer.status) else {
        let got = answer.status;
        return Error::internal(format!("{doing}: answered with the status {got}; expected 0, 1 or -1 to -9"))
            .help("this is a defect of the plugin; tell its author");
    };
    if let Ok(error) = serde_json::from_str::<Error>(body) {
        return error.context("plugin", doing);
    }
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let reason = match value["message"].as_str().unwrap_or(body).trim() {
        "" if answer.status == status::PANIC => "panicked without saying why",
        "" => "gave no reason",
        reason => reason,
    };
    let error = Error::new(kind, reason).context("plugin", doing);
    match value["help"].as_str() {
        Some(help) => error.help(help),
        None if answer.status == status::PANIC => error.help("this is a defect of the plugin; its log says where"),
        None => error,
    }
}

/// The kind that a negative status stands for when the body names none.
fn kind_of(status: i32) -> Option<ErrorKind> {
    Some(match status {
        status::INVALID => ErrorKind::InvalidRequest,
        status::NOT_FOUND => ErrorKind::NotFound,
        status::CONFLICT => ErrorKind::Conflict,
        status::DENIED => ErrorKind::Denied,
        status::UNSUPPORTED => ErrorKind::Unsupported,
        status::UNAVAILABLE => ErrorKind::Unavailable,
        status::CANCELLED => ErrorKind::Cancelled,
        status::INTERNAL | status::PANIC => ErrorKind::Internal,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: i32, body: &str, kind: ErrorKind, text: &str, help: Option<&str>) {
        let error = failure("p, `get`", &Answer { status, body: body.as_bytes().into() });
        assert_eq!((error.kind(), error.to_string().as_str(), error.help_text()), (kind, text, help));
    }

    #[test]
    fn a_code_says_more_than_the_status_and_a_sentence_gets_the_kind_of_the_status() {
        let full = r#"{"code":"too_large","message":"no","help":"less"}"#;
        check(-1, full, ErrorKind::TooLarge, "p, `get`: no", Some("less"));
        check(-3, "taken", ErrorKind::Conflict, "p, `get`: taken", None);
        check(-6, r#"{"message":"later","help":"wait"}"#, ErrorKind::Unavailable, "p, `get`: later", Some("wait"));
        check(-2, "", ErrorKind::NotFound, "p, `get`: gave no reason", None);
        check(-8, r#"{"odd":1}"#, ErrorKind::Internal, r#"p, `get`: {"odd":1}"#, None);
    }

    #[test]
    fn every_status_has_the_kind_that_its_kind_has_as_status() {
        for status in status::PANIC..0 {
            let kind = kind_of(status).unwrap();
            assert!(kind.status() == status || status == status::PANIC, "{status} is {kind}");
        }
    }

    #[test]
    fn statuses_that_do_not_exist_and_bytes_that_are_no_text_are_defects() {
        let made_up = failure("p, `get`", &Answer { status: -77, body: b"x".as_slice().into() });
        assert!(made_up.to_string().contains("status -77; expected"), "{made_up}");
        let bytes = failure("p, `get`", &Answer { status: -1, body: b"\xff".as_slice().into() });
        assert!(bytes.kind() == ErrorKind::Internal && bytes.to_string().contains("UTF-8"), "{bytes}");
    }
}
