//! The body of a message: an argument, a file or standard input; JSON where it is JSON.

use std::fs::File;
use std::io::{self, IsTerminal, Read};

use fmail_api::{Error, ErrorKind, MAX_NESTING, Result, check_nesting};
use serde_json::Value;

/// JSON may shrink when it is written compactly, so a source may be larger than the message limit; this many times as
/// large it cannot become a message, and reading on would only fill the memory.
const SLACK: usize = 16;

/// Where the body comes from.
pub(crate) struct Source<'a> {
    /// The argument, when there is one.
    pub(crate) argument: Option<&'a str>,
    /// The file, when there is one; `-` is standard input.
    pub(crate) file: Option<&'a std::path::Path>,
    /// Take it as text even where it is JSON.
    pub(crate) text: bool,
    /// The largest message.
    pub(crate) limit: usize,
}

impl Source<'_> {
    /// Reads the body.
    pub(crate) fn read(&self) -> Result<Value> {
        let text = match (self.argument, self.file) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("the message is given twice, as an argument and with --file")
                    .help("leave one of them out"));
            }
            (Some(argument), None) => argument.to_string(),
            (None, Some(path)) if path.as_os_str() != "-" => self.file(path)?,
            (None, _) => self.stdin()?,
        };
        Ok(if self.text { Value::String(text) } else { detect(text)? })
    }

    fn file(&self, path: &std::path::Path) -> Result<String> {
        let name = format!("`{}`", path.display());
        let failed = |error: io::Error| Error::io(format_args!("cannot read {name}"), &error);
        let file = File::open(path).map_err(failed)?;
        self.contents(file, &name, failed)
    }

    fn stdin(&self) -> Result<String> {
        let stdin = io::stdin().lock();
        if stdin.is_terminal() {
            return Err(Error::invalid(
                "there is no message: no argument, no --file, and standard input is a terminal",
            )
            .help("fmail send <topic|@agent> <message>, or pipe the message in: echo \"message\" | fmail send …"));
        }
        self.contents(stdin, "standard input", |error| Error::io("cannot read standard input", &error))
    }

    /// The whole source as text, without one final newline.
    fn contents(&self, source: impl Read, name: &str, failed: impl Fn(io::Error) -> Error) -> Result<String> {
        let most = self.limit.saturating_mul(SLACK);
        let mut bytes = Vec::new();
        source.take(most as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > most {
            let what = format!("{name} has more than {most} bytes, and a message at most {}", self.limit);
            return Err(Error::new(ErrorKind::TooLarge, what)
                .help("write large data to a file and send its path, or raise mail.max_message_bytes"));
        }
        let mut text = String::from_utf8(bytes).map_err(|error| {
            let place = error.utf8_error().valid_up_to();
            Error::invalid(format!("{name} is not UTF-8 text: the byte at offset {place} does not belong there"))
                .help("send the path of binary data instead of the data")
        })?;
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        Ok(text)
    }
}

/// The JSON value that the text is, or the text itself.
fn detect(text: String) -> Result<Value> {
    // Most messages are sentences. A look at how they begin saves the parser, whose error would be thrown away.
    let may_be_json = |c: char| matches!(c, '{' | '[' | '"' | '-' | '0'..='9' | 't' | 'f' | 'n');
    if !text.trim_start().starts_with(may_be_json) {
        return Ok(Value::String(text));
    }
    match serde_json::from_str(&text) {
        // Here and not only by who stores it: a daemon may not be able to read the request at all.
        Ok(value) => check_nesting("body", &value).map(|()| value),
        // The parser gives up before it knows whether it is JSON. Sent as text, it would arrive as something else than it looks.
        Err(error) if error.to_string().starts_with("recursion limit exceeded") => {
            Err(Error::invalid(format!("the message's `body` is nested deeper than {MAX_NESTING} levels"))
                .help("send it as text, or write it to a file and send its path"))
        }
        Err(_) => Ok(Value::String(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn source(argument: Option<&'static str>) -> Source<'static> {
        Source { argument, file: None, text: false, limit: 10 }
    }

    #[test]
    fn what_is_json_becomes_json_and_the_rest_is_text() {
        let check = |text, expect| assert_eq!(source(Some(text)).read().unwrap(), expect);
        check("implement auth", json!("implement auth"));
        check(r#"{"action": "build"}"#, json!({"action": "build"}));
        check("true", json!(true));
        check("null", json!(null));
        check(r#""quoted""#, json!("quoted"));
        check("{not json", json!("{not json"));
        check("42 and more", json!("42 and more"));
        let forced = Source { text: true, ..source(Some("42")) };
        assert_eq!(forced.read().unwrap(), json!("42"));
    }

    #[test]
    fn what_is_nested_too_deep_does_not_become_text() {
        let nested = "[".repeat(200) + &"]".repeat(200);
        let long = Source { argument: None, limit: 1_000, ..source(None) };
        let read = |source: &Source| source.contents(nested.as_bytes(), "it", |error| Error::io("x", &error));
        assert_eq!(read(&long).unwrap(), nested);
        assert!(detect(nested.clone()).unwrap_err().message().contains("nested deeper than 100"));
        assert_eq!(detect("[".repeat(100)).unwrap(), json!("[".repeat(100)), "this is no JSON");
    }

    #[test]
    fn one_final_newline_is_dropped() {
        let check = |bytes: &[u8], expect: &str| {
            assert_eq!(source(None).contents(bytes, "x", |error| Error::io("x", &error)).unwrap(), expect);
        };
        check(b"a\n", "a");
        check(b"a\n\n", "a\n");
        check(b"a\r\n", "a");
        check(b"\n", "");
        check(b"a", "a");
    }

    #[test]
    fn what_cannot_be_a_message_is_refused() {
        let read = |bytes: &[u8]| source(None).contents(bytes, "it", |error| Error::io("x", &error)).unwrap_err();
        assert!(read(b"ab\xff").message().contains("offset 2"));
        assert_eq!(read(&[b'x'; 161]).kind(), ErrorKind::TooLarge);
        let twice = Source { file: Some("f".as_ref()), ..source(Some("x")) };
        assert_eq!(twice.read().unwrap_err().kind(), ErrorKind::InvalidRequest);
        let missing = Source { file: Some("no/such/file".as_ref()), ..source(None) };
        let error = missing.read().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.message().contains("`no/such/file`"));
    }
}
