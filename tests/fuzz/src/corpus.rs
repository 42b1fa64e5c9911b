//! Valid lines to start from. Every example of PROTOCOL.md is among them, and each command with all its fields.

const REQUESTS: &str = include_str!("../corpus/requests.jsonl");
const ANSWERS: &str = include_str!("../corpus/answers.jsonl");

/// What clients say, each line without its end.
pub fn requests() -> Vec<&'static str> {
    REQUESTS.lines().collect()
}

/// What daemons say, each line without its end.
pub fn answers() -> Vec<&'static str> {
    ANSWERS.lines().collect()
}
