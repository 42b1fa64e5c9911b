//! The lines that wait to be written to a child: bounded, and in order.

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd;

use rustix::io::Errno;

/// So much is put together for one write.
const BATCH: usize = 64 * 1024;

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Lines.
    pub(super) lines: usize,
    /// Bytes.
    pub(super) bytes: usize,
}

/// What a line is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum About {
    /// It begins a call of ours: its number and method.
    Call(u64, Box<str>),
    /// It goes on with that call.
    Follows(u64),
    /// It answers a call of the child with this number.
    Answer(u64),
    /// It is about the child itself.
    Child,
}

/// The lines that wait, and the one that is on its way.
#[derive(Debug)]
pub(super) struct Outbox {
    bounds: Bounds,
    waiting: VecDeque<(About, Vec<u8>)>,
    /// The bytes of `waiting`.
    bytes: usize,
    /// What is being written, of which so much is.
    writing: Vec<u8>,
    written: usize,
    /// The calls that the child may have seen, with their methods. Who is in here gets an answer when it dies.
    pub(super) sent: HashMap<u64, Box<str>>,
    /// The bytes that this child was given.
    pub(super) given: u64,
}

/// How a write ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flushed {
    /// Nothing is left.
    All,
    /// The child does not read at present.
    Blocked,
    /// The child does not read any more.
    Closed,
}

impl Outbox {
    pub(super) fn new(bounds: Bounds) -> Self {
        Outbox {
            bounds,
            waiting: VecDeque::new(),
            bytes: 0,
            writing: Vec::new(),
            written: 0,
            sent: HashMap::new(),
            given: 0,
        }
    }

    /// Whether a line that can be refused still fits. One alone always does: its size is limited elsewhere.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.waiting.is_empty() || self.within(self.bounds, bytes)
    }

    /// Whether a line that cannot be refused still fits: one that a call under way depends on. There is as much room again
    /// for those.
    pub(super) fn has_reserve(&self, bytes: usize) -> bool {
        let Bounds { lines, bytes: limit } = self.bounds;
        self.waiting.is_empty() || self.within(Bounds { lines: 2 * lines, bytes: 2 * limit }, bytes)
    }

    fn within(&self, bounds: Bounds, bytes: usize) -> bool {
        self.waiting.len() < bounds.lines && self.bytes + bytes <= bounds.bytes
    }

    pub(super) fn push(&mut self, about: About, mut line: Vec<u8>) {
        line.push(b'\n');
        self.bytes += line.len();
        self.waiting.push_back((about, line));
    }

    /// Takes back a call that the child has not seen, and what follows it; whether there was one.
    pub(super) fn take_back(&mut self, id: u64) -> bool {
        let before = self.waiting.len();
        if !self.waiting.iter().any(|(about, _)| matches!(about, About::Call(call, _) if *call == id)) {
            return false;
        }
        self.retain(|about| !matches!(about, About::Call(call, _) | About::Follows(call) if *call == id));
        self.waiting.len() < before
    }

    /// Whether a call waits for a child.
    pub(super) fn wanted(&self) -> bool {
        self.waiting.iter().any(|(about, _)| matches!(about, About::Call(..)))
    }

    /// Whether everything is written.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.written == self.writing.len()
    }

    /// Writes what can be written without waiting.
    pub(super) fn flush(&mut self, to: impl AsFd) -> Flushed {
        loop {
            self.fill();
            if self.written == self.writing.len() {
                return Flushed::All;
            }
            match rustix::io::write(&to, &self.writing[self.written..]) {
                Ok(count) => {
                    self.written += count;
                    self.given += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Flushed::Blocked,
                Err(_) => return Flushed::Closed,
            }
        }
    }

    /// Puts the next lines together. From here on the child may see them.
    fn fill(&mut self) {
        if self.written < self.writing.len() {
            return;
        }
        self.writing.clear();
        self.written = 0;
        while self.writing.len() < BATCH {
            let Some((about, line)) = self.waiting.pop_front() else { break };
            self.bytes -= line.len();
            if let About::Call(id, method) = about {
                self.sent.insert(id, method);
            }
            self.writing.extend_from_slice(&line);
        }
    }

    /// The child is gone: gives back the calls that it may have seen, and keeps those that it has not.
    pub(super) fn lost(&mut self) -> HashMap<u64, Box<str>> {
        self.writing = Vec::new();
        (self.written, self.given) = (0, 0);
        let unseen: Vec<u64> = self.waiting.iter().filter_map(|(about, _)| about.call()).collect();
        self.retain(|about| match about {
            About::Call(..) => true,
            About::Follows(call) => unseen.contains(call),
            About::Answer(_) | About::Child => false,
        });
        std::mem::take(&mut self.sent)
    }

    /// Gives back the calls that wait; nothing waits afterwards.
    pub(super) fn give_up(&mut self) -> Vec<u64> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting).into_iter().filter_map(|(about, _)| about.call()).collect()
    }

    fn retain(&mut self, keep: impl Fn(&About) -> bool) {
        self.waiting.retain(|(about, _)| keep(about));
        self.bytes = self.waiting.iter().map(|(_, line)| line.len()).sum();
    }
}

impl About {
    /// The call that it begins.
    fn call(&self) -> Option<u64> {
        match self {
            About::Call(id, _) => Some(*id),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    fn outbox(lines: usize, bytes: usize) -> Outbox {
        Outbox::new(Bounds { lines, bytes })
    }

    fn call(id: u64) -> About {
        About::Call(id, "append".into())
    }

    #[test]
    fn it_is_bounded_by_lines_and_by_bytes() {
        let mut by_lines = outbox(2, 1000);
        by_lines.push(call(1), vec![b'x'; 9]);
        assert!(by_lines.has_room(9));
        by_lines.push(call(2), vec![b'x'; 9]);
        assert!(!by_lines.has_room(9) && by_lines.has_reserve(9));
        let mut by_bytes = outbox(100, 20);
        assert!(by_bytes.has_room(1000), "one alone always fits");
        by_bytes.push(call(1), vec![b'x'; 14]);
        assert!(by_bytes.has_room(5) && !by_bytes.has_room(6) && by_bytes.has_reserve(25) && !by_bytes.has_reserve(26));
    }

    #[test]
    fn what_the_child_may_have_seen_is_told_from_what_it_has_not() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
        let mut outbox = outbox(100, 10 << 20);
        outbox.push(call(1), vec![b'a'; 10]);
        outbox.push(About::Follows(1), b"pull".to_vec());
        // Larger than what a pipe holds: it is begun and not finished.
        outbox.push(call(2), vec![b'b'; 1 << 20]);
        assert_eq!(outbox.flush(&writer), Flushed::Blocked);
        outbox.push(About::Follows(2), b"pull".to_vec());
        outbox.push(call(3), b"third".to_vec());
        outbox.push(About::Follows(3), b"pull".to_vec());
        outbox.push(About::Answer(1), b"done".to_vec());
        let mut seen: Vec<u64> = outbox.lost().into_keys().collect();
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
        // The next child gets the rest, from the beginning of a line.
        let mut all = vec![0; 1 << 20];
        let read = reader.read(&mut all).unwrap();
        assert!(read > 15);
        assert_eq!(outbox.flush(&writer), Flushed::All);
        let read = reader.read(&mut all).unwrap();
        assert_eq!(&all[..read], b"third\npull\n");
    }

    #[test]
    fn a_call_that_was_given_up_in_time_is_never_sent() {
        let mut outbox = outbox(100, 1000);
        outbox.push(call(1), b"one".to_vec());
        outbox.push(About::Follows(1), b"pull".to_vec());
        assert!(outbox.take_back(1) && outbox.is_empty() && outbox.bytes == 0);
        assert!(!outbox.take_back(1));
    }
}
