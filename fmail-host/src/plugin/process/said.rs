//! What a child says on its standard error: a line of the log each, within bounds, and the last ones for the message when
//! it dies.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::lines::{Filled, Lines};

/// So much of a line is kept.
const LINE: usize = 2048;
/// So many lines are kept for the message.
const LAST: usize = 4;
/// So many lines go to the log in one [`WINDOW`].
const RATE: u32 = 200;
const WINDOW: Duration = Duration::from_secs(1);

/// The reading end of a child's standard error.
#[derive(Debug, Default)]
pub(super) struct Said {
    lines: Lines,
    last: VecDeque<String>,
    /// What has been thrown away of a line that is too long.
    beyond: usize,
    window: Option<Instant>,
    in_window: u32,
    left_out: u64,
}

impl Said {
    /// Reads what is there; `log` gets each line. How the read ended.
    pub(super) fn read(&mut self, from: impl AsFd, mut log: impl FnMut(&str)) -> Filled {
        let filled = self.lines.fill(from);
        while let Some(range) = self.lines.next() {
            let line = self.lines.line(range);
            let beyond = std::mem::take(&mut self.beyond) + line.len().saturating_sub(LINE);
            let text = shown(&line[..line.len().min(LINE)], beyond);
            self.say(text, &mut log);
        }
        if self.lines.rest().len() > LINE && self.beyond == 0 {
            // What is beyond is counted below; the beginning is what tells something.
            let text = shown(&self.lines.rest()[..LINE], 0);
            self.say(format!("{text} [the line goes on]"), &mut log);
        }
        if self.lines.rest().len() > LINE {
            self.beyond += self.lines.rest().len();
            self.lines.forget_rest();
        }
        if filled == Filled::End && !self.lines.rest().is_empty() {
            let text = shown(self.lines.rest(), 0);
            self.lines.forget_rest();
            self.say(text, &mut log);
        }
        filled
    }

    fn say(&mut self, text: String, log: &mut impl FnMut(&str)) {
        let now = Instant::now();
        if self.window.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            (self.window, self.in_window) = (Some(now), 0);
            self.tell_left_out(log);
        }
        self.in_window += 1;
        if self.in_window <= RATE {
            log(&text);
        } else {
            self.left_out += 1;
        }
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(text);
    }

    /// Says how many lines were not shown.
    pub(super) fn tell_left_out(&mut self, log: &mut impl FnMut(&str)) {
        match std::mem::take(&mut self.left_out) {
            0 => {}
            count => log(&format!("{count} lines more, too many at once to be shown")),
        }
    }

    /// The last lines, as the end of a sentence; empty when nothing was said.
    pub(super) fn quoted(&self) -> String {
        let rest = self.lines.rest();
        let rest = (!rest.is_empty()).then(|| shown(&rest[..rest.len().min(LINE)], 0));
        let lines: Vec<&str> = self.last.iter().map(String::as_str).chain(rest.as_deref()).collect();
        match lines.is_empty() {
            true => String::new(),
            false => format!("; it last said: {}", lines.join(" | ")),
        }
    }
}

/// A line as one reads it, and how much more of it there was.
fn shown(line: &[u8], beyond: usize) -> String {
    let text = String::from_utf8_lossy(line);
    let text: String = text.trim_end().chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    if beyond > 0 { format!("{text} [{beyond} bytes more]") } else { text }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// What is logged of this, and what is quoted.
    fn check(said: &[u8]) -> (Vec<String>, String) {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let bytes = said.to_vec();
        let writing = std::thread::spawn(move || writer.write_all(&bytes));
        let (mut said, mut log) = (Said::default(), Vec::new());
        while said.read(&reader, |line| log.push(line.to_string())) != Filled::End {}
        said.tell_left_out(&mut |line: &str| log.push(line.to_string()));
        writing.join().unwrap().unwrap();
        (log, said.quoted())
    }

    #[test]
    fn every_line_is_logged_and_the_last_are_quoted() {
        let (log, quoted) = check(b"a\nb\nc\nd\ne\nlast without break");
        assert_eq!(log, ["a", "b", "c", "d", "e", "last without break"]);
        assert_eq!(quoted, "; it last said: c | d | e | last without break");
        assert_eq!(check(b""), (vec![], String::new()));
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        let (log, _) = check(format!("{}\nnext\n", "x".repeat(3000)).as_bytes());
        assert!(log.concat().contains("[952 bytes more]") || log[0].ends_with("[the line goes on]"), "{log:?}");
        assert_eq!(log.last().unwrap(), "next");
        let (log, quoted) = check(&[b'x'; 1_000_000]);
        assert!(log.len() <= 2 && log.concat().len() < 3 * LINE && quoted.len() < 3 * LINE, "{}", log.concat().len());
    }

    #[test]
    fn a_flood_of_lines_is_counted_instead_of_shown() {
        let (log, quoted) = check("line\n".repeat(100_000).as_bytes());
        let left_out = |line: &String| line.split(' ').next().unwrap().parse::<usize>().unwrap_or(0);
        assert_eq!(
            log.iter().filter(|line| *line == "line").count() + log.iter().map(left_out).sum::<usize>(),
            100_000
        );
        assert!(log.len() < 50_000);
        assert_eq!(quoted, "; it last said: line | line | line | line");
    }

    #[test]
    fn what_would_move_the_cursor_is_taken_out() {
        assert_eq!(check(b"\x1b[31mred\xff\n").0, [" [31mred\u{fffd}"]);
    }
}
