//! From what a plugin answers to the error that everyone else sees.

use fmail_abi::{Answer, status};
use fmail_api::Error;

/// What everyone is told about a plugin that breaks a rule.
pub const DEFECT: &str = "this is a defect of the plugin; tell its author";

/// The error that an answer means. `doing` is what was asked, as in "the plugin `sqlite`, `append`".
pub fn failure(doing: &str, answer: &Answer) -> Error {
    let error = match answer.status {
        status if status >= 0 => {
            let text = format!("expected the status 0 or one of -1 to -9, got {status}");
            Error::internal(text).help(DEFECT)
        }
        _ => answer.error(),
    };
    let error = error.context("plugin", doing);
    match (answer.status, error.help_text()) {
        (status::PANIC, None) => error.help("this is a defect of the plugin; its log says where it happened"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use fmail_api::ErrorKind;

    use super::*;

    #[track_caller]
    fn check(status: i32, body: &str, kind: ErrorKind, text: &str, help: Option<&str>) {
        let error = failure("p, `get`", &Answer { status, body: body.as_bytes().into() });
        assert_eq!((error.kind(), error.to_string().as_str(), error.help_text()), (kind, text, help));
    }

    #[test]
    fn an_error_says_what_was_being_done_and_a_defect_whose_it_is() {
        let full = r#"{"code":"too_large","message":"no","help":"less"}"#;
        check(-1, full, ErrorKind::TooLarge, "p, `get`: no", Some("less"));
        check(-3, "taken", ErrorKind::Conflict, "p, `get`: taken", None);
        let where_ = Some("this is a defect of the plugin; its log says where it happened");
        check(-9, "panicked: x", ErrorKind::Internal, "p, `get`: panicked: x", where_);
        let odd = "p, `get`: expected the status 0 or one of -1 to -9, got 7";
        check(7, "", ErrorKind::Internal, odd, Some(DEFECT));
    }
}
