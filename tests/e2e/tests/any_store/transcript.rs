//! What commands printed, without what is never twice the same.
//!
//! Ids are numbered as they come up; times, lengths of time and tokens get one name for all. A message that went through a
//! daemon carries its host and a key, as SPEC.md and PROTOCOL.md have it; these are left out, and so is the size that they
//! add to.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use fmail_e2e::Output;

/// All that a case printed.
#[derive(Debug, Clone)]
pub struct Transcript {
    root: PathBuf,
    host: String,
    ids: HashMap<String, usize>,
    lines: Vec<String>,
}

impl Transcript {
    /// Nothing so far, in this project.
    pub fn of(root: &Path) -> Transcript {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Transcript { root: root.to_path_buf(), host, ids: HashMap::new(), lines: Vec::new() }
    }

    /// Adds what a command printed.
    pub fn add(&mut self, what: &str, output: &Output) {
        let root = self.root.display().to_string();
        for (mark, text) in [("$", what), ("1", &output.stdout), ("2", &output.stderr)] {
            let text = text.replace(&root, "<root>").replace(&format!(",\"host\":\"{}\"", self.host), "");
            for line in text.lines() {
                let line = self.settled(line);
                self.lines.push(format!("{mark} {line}"));
            }
        }
        self.lines.push(format!("= {}", output.code));
    }

    /// The line with a name in place of whatever changes.
    fn settled(&mut self, line: &str) -> String {
        let (mut settled, mut rest) = (String::new(), line);
        while !rest.is_empty() {
            let before = settled.chars().next_back();
            let at_word = !before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-');
            let (length, name) = match (at_word, found(rest)) {
                (_, Some((Changing::Key, length))) => (length, String::new()),
                (true, Some((Changing::Id, length))) => (length, self.number(&rest[..length])),
                (true, Some((Changing::Time, length))) => (length, "<time>".into()),
                (true, Some((Changing::Token, length))) => (length, "<token>".into()),
                (true, Some((Changing::While, length))) => (length, "<while>".into()),
                (true, Some((Changing::Size, length))) => (length, "<size>".into()),
                _ => {
                    let length = rest.chars().next().map_or(1, char::len_utf8);
                    (length, rest[..length].to_string())
                }
            };
            settled.push_str(&name);
            rest = &rest[length..];
        }
        settled
    }

    fn number(&mut self, id: &str) -> String {
        let next = self.ids.len() + 1;
        format!("<id {}>", self.ids.entry(id.to_string()).or_insert(next))
    }
}

/// What is never twice the same.
enum Changing {
    Id,
    Time,
    Key,
    Token,
    While,
    Size,
}

/// What changing thing the text begins with, and how long it is. `0` stands for a digit, `x` for one of a number in base 16.
fn found(text: &str) -> Option<(Changing, usize)> {
    if let Some(rest) = text.strip_prefix(",\"key\":\"") {
        let length = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        // A key that a test chose is shorter.
        let made_up = length > 20 && rest[length..].starts_with('"');
        return made_up.then_some((Changing::Key, text.len() - rest.len() + length + 1));
    }
    if begins(text, "00000000-000000-0000") {
        return Some((Changing::Id, 20));
    }
    if begins(text, "0000-00-00T00:00:00") {
        let rest = &text[19..];
        return Some((Changing::Time, 19 + rest.find('Z').map_or(0, |end| end + 1)));
    }
    if begins(text, "xxxxxxxxxxxxxxxx") {
        return Some((Changing::Token, text.bytes().take_while(u8::is_ascii_hexdigit).count()));
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 && text[digits..].starts_with(" bytes as JSON") {
        return Some((Changing::Size, digits));
    }
    let unit = text[digits..].trim_start_matches(' ');
    let behind = unit.strip_prefix(['s', 'm', 'h'])?;
    let is_while = digits > 0 && [" ago", " left"].iter().any(|word| behind.starts_with(word));
    is_while.then_some((Changing::While, text.len() - behind.len()))
}

fn begins(text: &str, pattern: &str) -> bool {
    text.len() >= pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            b'x' => byte.is_ascii_hexdigit(),
            _ => byte == wanted,
        })
}

/// The first place where two differ, with what is around it.
pub fn difference(expected: &Transcript, printed: &Transcript) -> Option<String> {
    let (expected, printed) = (&expected.lines, &printed.lines);
    let length = expected.len().max(printed.len());
    let place = (0..length).find(|place| expected.get(*place) != printed.get(*place))?;
    let around =
        |lines: &[String]| lines[place.saturating_sub(3).min(lines.len())..lines.len().min(place + 3)].join("\n  ");
    Some(format!("expected\n  {}\nbut printed\n  {}", around(expected), around(printed)))
}
