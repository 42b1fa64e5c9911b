//! Writing a line.
//!
//! What is written must be read as it was meant, so everything that the format would change is refused here, with the
//! reason. [`fit`] gives the nearest message that the format can hold, for callers who would rather change it.

use std::borrow::Cow;

use fmail_api::{Error, ErrorKind, Result};

use crate::line::{ChatLine, SEPARATOR, is_name_byte};

/// What stands before every line of a message but its first.
pub const INDENTATION: &str = "  ";

impl ChatLine {
    /// The message as it stands in the file, with its final newline. The lines of the message after the first are
    /// indented by two spaces, also empty ones: an empty line would end the message.
    ///
    /// Refuses what would be read otherwise than it was written.
    ///
    /// ```
    /// # use fmail_chat_file::ChatLine;
    /// let line = ChatLine {
    ///     sender: "coder".into(),
    ///     recipient: "reviewer".into(),
    ///     broadcast: vec!["manager".into()],
    ///     message: "Ready\n- src/auth.rs".into(),
    /// };
    /// assert_eq!(line.to_line().unwrap(), "[coder-to-reviewer] @ [manager]: Ready\n  - src/auth.rs\n");
    /// ```
    pub fn to_line(&self) -> Result<String> {
        check_name(&self.sender, "sender")?;
        check_recipient(&self.recipient)?;
        self.broadcast.iter().try_for_each(|target| check_name(target, "target"))?;
        check_message(&self.message)?;
        let mut text = format!("[{}{SEPARATOR}{}]", self.sender, self.recipient);
        if !self.broadcast.is_empty() {
            text.extend([" @ [", &self.broadcast.join(", "), "]"]);
        }
        text.push_str(": ");
        for (number, line) in self.message.split('\n').enumerate() {
            if number > 0 {
                text.push_str(INDENTATION);
            }
            text.extend([line, "\n"]);
        }
        Ok(text)
    }
}

/// Refuses a name that a line cannot hold, or that would be read as two; `role` says whose it is.
pub fn check_name(name: &str, role: &str) -> Result<()> {
    let refused = |why: String| Err(Error::new(ErrorKind::InvalidAgent, format!("{role} {name:?} {why}")));
    if name.is_empty() {
        return refused("is empty; a chat line needs a name".into());
    }
    if let Some(found) = name.chars().find(|found| !u8::try_from(*found).is_ok_and(is_name_byte)) {
        return refused(format!("has {found:?}; names in a chat file have letters, digits, - and _ only"));
    }
    if name.contains(SEPARATOR) {
        return refused(format!("has {SEPARATOR:?} in it, which divides the two names of a chat line"));
    }
    Ok(())
}

/// Refuses a name that cannot be a recipient. Beside what [`check_name`] refuses that is one that begins with `to-`:
/// `[a-to-to-b]` is read as `a-to` to `b`.
pub fn check_recipient(name: &str) -> Result<()> {
    check_name(name, "recipient")?;
    if name.starts_with(&SEPARATOR[1..]) {
        let text =
            format!("recipient {name:?} begins with \"to-\": the chat line would be read as a message to another name");
        return Err(Error::new(ErrorKind::InvalidAgent, text));
    }
    Ok(())
}

/// Refuses a message that would not be read as it is.
pub fn check_message(message: &str) -> Result<()> {
    let refused = |why| Err(Error::invalid(format!("a chat line cannot hold this message: {why}")));
    match message.chars().next() {
        None => refused("it is empty"),
        Some(first) if first.is_whitespace() => refused("it begins with white space, which readers skip"),
        _ if message.ends_with('\r') || message.contains("\r\n") => {
            refused("it has a carriage return at the end of a line, which readers take for part of the line's end")
        }
        _ => Ok(()),
    }
}

/// The nearest message that [`check_message`] lets pass: without white space at its start, and with `\n` for `\r\n`. Only
/// a message of nothing but white space has none, and comes out empty.
pub fn fit(message: &str) -> Cow<'_, str> {
    let start = message.trim_start();
    if !start.ends_with('\r') && !start.contains("\r\n") {
        return Cow::Borrowed(start);
    }
    let lines = start.split('\n').map(|line| line.trim_end_matches('\r'));
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}
