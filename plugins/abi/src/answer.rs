//! Answers as fmail's errors, and back.

use fmail_api::{Error, ErrorKind, Result};

use crate::calls::Answer;
use crate::status;

impl Answer {
    /// An answer that is well.
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Answer { status: status::OK, body: body.into() }
    }

    /// The body of an answer that is well, or the error. [`status::END`] is well, with whatever body it has.
    pub fn into_result(self) -> Result<Vec<u8>> {
        match self.status {
            status::OK | status::END => Ok(self.body),
            _ => Err(self.error()),
        }
    }

    /// The answer as an error: the one in the body if it has the form of one, otherwise the sentence that the body is, with
    /// the kind that the status stands for.
    pub fn error(&self) -> Error {
        if self.body.first() == Some(&b'{')
            && let Ok(error) = serde_json::from_slice::<Error>(&self.body)
        {
            return error;
        }
        let text = String::from_utf8_lossy(&self.body);
        let kind = match self.status {
            status::INVALID => ErrorKind::InvalidRequest,
            status::NOT_FOUND => ErrorKind::NotFound,
            status::CONFLICT => ErrorKind::Conflict,
            status::DENIED => ErrorKind::Denied,
            status::UNSUPPORTED => ErrorKind::Unsupported,
            status::UNAVAILABLE => ErrorKind::Unavailable,
            status::CANCELLED => ErrorKind::Cancelled,
            status::INTERNAL | status::PANIC => ErrorKind::Internal,
            unknown => {
                let message = format!("the status {unknown} has no meaning (0, 1 and -1 to -9 have): {text}");
                return Error::internal(message);
            }
        };
        let text = text.trim();
        Error::new(
            kind,
            if text.is_empty() { format!("no reason was given (status {})", self.status) } else { text.into() },
        )
    }
}

impl From<Error> for Answer {
    fn from(error: Error) -> Self {
        let body = serde_json::to_vec(&error).expect("an error is always JSON");
        Answer { status: error.kind().status(), body }
    }
}

impl From<Result<Vec<u8>>> for Answer {
    fn from(result: Result<Vec<u8>>) -> Self {
        result.map_or_else(Answer::from, Answer::ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: i32, body: &str) -> Answer {
        Answer { status, body: body.as_bytes().into() }
    }

    #[test]
    fn an_error_survives_the_boundary() {
        let error = Error::new(ErrorKind::Expired, "too old").help("start again");
        let answer = Answer::from(error);
        assert_eq!(answer.status, status::NOT_FOUND);
        let back = answer.into_result().unwrap_err();
        assert_eq!(
            (back.kind(), back.message(), back.help_text()),
            (ErrorKind::Expired, "too old", Some("start again"))
        );
    }

    #[test]
    fn every_kind_keeps_its_status_and_returns() {
        for kind in ErrorKind::ALL {
            let answer = Answer::from(Error::new(*kind, "x"));
            assert!((status::PANIC..=status::INVALID).contains(&answer.status));
            assert_eq!(answer.error().kind(), *kind);
        }
    }

    #[test]
    fn a_plain_sentence_has_the_kind_of_its_status() {
        assert_eq!(answer(status::CONFLICT, "taken").error().kind(), ErrorKind::Conflict);
        assert_eq!(answer(status::PANIC, "panicked: x").error().to_string(), "panicked: x");
        assert!(answer(status::DENIED, "").error().to_string().contains("-4"));
        assert!(answer(status::INVALID, "{\"a\":1}").error().to_string().contains("{\"a\":1}"));
    }

    #[test]
    fn a_status_that_was_made_up_is_internal() {
        let error = answer(-77, "what").error();
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(error.to_string().contains("-77") && error.to_string().contains("what"), "{error}");
    }
}
