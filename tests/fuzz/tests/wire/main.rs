//! The codec and the request parser, held to their promises for a bounded time on lines that are broken in every way.

mod answers;
mod corpus;
mod lines;
mod requests;

/// The bytes as one can read them, the longest ones shortened.
fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 4_000;
    let rest = bytes.len().saturating_sub(MOST);
    let text = bytes[..bytes.len() - rest].escape_ascii();
    if rest == 0 { format!("b\"{text}\"") } else { format!("b\"{text}\" and {rest} bytes more") }
}

/// The object in a line that a daemon writes: one line, its end at its end and nowhere else.
#[track_caller]
fn object(line: &str) -> serde_json::Map<String, serde_json::Value> {
    assert_eq!(line.find('\n'), Some(line.len() - 1), "{line:?} is not one line");
    assert!(!line.trim_end().contains(|c: char| c < ' '), "{line:?} holds control characters");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?} is not a JSON object: {error}"))
}
