//! Examples of a command's use. They stand beside the command's definition, once, and appear in its help, in the man
//! page and in `--robot-help`.

use std::fmt::Write;

/// A line to type, and what it does.
pub(crate) struct Example {
    /// The line.
    pub(crate) line: &'static str,
    /// What it does.
    pub(crate) does: &'static str,
}

/// An example.
pub(crate) const fn example(line: &'static str, does: &'static str) -> Example {
    Example { line, does }
}

/// The end of a command's help.
pub(crate) fn help(examples: &[Example]) -> String {
    let width = examples.iter().map(|example| example.line.chars().count()).max().unwrap_or(0);
    let mut text = String::from("Examples:");
    for Example { line, does } in examples {
        // Writing into a string does not fail.
        let _ = write!(text, "\n  {line:width$}  # {does}");
    }
    text
}
