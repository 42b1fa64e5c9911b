//! The message that everyone carries.

use fmail_api::{Draft, Message, MessageId, Result};

/// How long it is, as JSON: what an agent says in a sentence or two, with its sender, target and time.
pub const BYTES: usize = 350;

/// The agent that sends and the topic that it sends to.
pub const NAME: &str = "bench";
/// A topic of the same length for what is timed while much is sent to the other.
pub const QUIET: &str = "quiet";

/// A body with which the stored message has exactly [`BYTES`].
pub fn body() -> Result<String> {
    let empty = message(String::new())?.to_line().len();
    Ok("x".repeat(BYTES.saturating_sub(empty)))
}

/// The whole message, for servers that take it as it is.
pub fn payload() -> Result<String> {
    Ok(message(body()?)?.to_line())
}

fn message(body: String) -> Result<Message> {
    let id: MessageId = "20260110-153000-0001".parse()?;
    Ok(Draft::new(NAME.parse()?, NAME.parse()?, body).into_message(id, id.time()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_carries_the_same_number_of_bytes() {
        assert_eq!(payload().unwrap().len(), BYTES);
    }
}
