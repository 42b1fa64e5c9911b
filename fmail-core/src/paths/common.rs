//! Looking for a path that two patterns both cover.
//!
//! Both automata read the same path side by side. A *configuration* is a state of each, and what the segment that is
//! being read looks like so far; each is visited once, the nearest first.

use super::automaton::{Automaton, StateId};

/// What the segment that is being read looks like so far. Paths have no empty segments, no `.` and no `..`, whatever a
/// wildcard could read there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segment {
    /// Nothing has been read at all.
    Root,
    Empty,
    Dot,
    DotDot,
    Name,
}

impl Segment {
    const COUNT: usize = 5;

    fn after(self, character: char) -> Option<Segment> {
        match (self, character) {
            (Segment::Name, '/') => Some(Segment::Empty),
            (_, '/') => None,
            (Segment::Root | Segment::Empty, '.') => Some(Segment::Dot),
            (Segment::Dot, '.') => Some(Segment::DotDot),
            _ => Some(Segment::Name),
        }
    }
}

/// A configuration, and how the search came to it.
struct Visit {
    left: StateId,
    right: StateId,
    segment: Segment,
    from: u32,
    read: Option<char>,
}

/// The outcome of a search.
pub(super) struct Search {
    /// A path that both automata cover.
    pub(super) path: Option<String>,
    /// The configurations that were visited and the pairs of edges that were compared.
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests hold the search to its bound by it"))]
    pub(super) steps: usize,
}

/// Looks for a path that both automata cover.
///
/// One character for each pair of edges is enough to try. [`super::automaton::Label::meet`] gives a dot only when it
/// must, and what can follow after `.` or `..` can also follow after any other name.
pub(super) fn search(left: &Automaton, right: &Automaton) -> Search {
    let mut frontier = Frontier::new(left.states.len(), right.states.len());
    frontier.add(0, 0, Segment::Root, 0, None);
    let (mut at, mut steps) = (0, 0);
    while at < frontier.visits.len() {
        let Visit { left: a, right: b, segment, .. } = frontier.visits[at];
        if segment == Segment::Empty && Automaton::covers(a) && Automaton::covers(b) {
            return Search { path: Some(frontier.path_to(at)), steps };
        }
        let (from_left, from_right) = (&left.states[a as usize], &right.states[b as usize]);
        steps += 1 + from_left.edges.len() * from_right.edges.len();
        from_left.free.iter().for_each(|&next| frontier.add(next, b, segment, at, None));
        from_right.free.iter().for_each(|&next| frontier.add(a, next, segment, at, None));
        for (label, next_left) in &from_left.edges {
            for (other, next_right) in &from_right.edges {
                let Some(read) = label.meet(other) else { continue };
                let Some(segment) = segment.after(read) else { continue };
                frontier.add(*next_left, *next_right, segment, at, Some(read));
            }
        }
        at += 1;
    }
    Search { path: None, steps }
}

/// The configurations that were found, in the order in which they were.
struct Frontier {
    visits: Vec<Visit>,
    /// A bit for each configuration.
    seen: Vec<u64>,
    rights: usize,
}

impl Frontier {
    fn new(lefts: usize, rights: usize) -> Self {
        Frontier { visits: Vec::new(), seen: vec![0; (lefts * rights * Segment::COUNT).div_ceil(64)], rights }
    }

    fn add(&mut self, left: StateId, right: StateId, segment: Segment, from: usize, read: Option<char>) {
        let number = (left as usize * self.rights + right as usize) * Segment::COUNT + segment as usize;
        let (word, bit) = (number / 64, 1 << (number % 64));
        if self.seen[word] & bit == 0 {
            self.seen[word] |= bit;
            self.visits.push(Visit { left, right, segment, from: from as u32, read });
        }
    }

    /// The path that was read on the way to this visit, without the slash at its end.
    fn path_to(&self, mut at: usize) -> String {
        let mut backwards = Vec::new();
        while at > 0 {
            backwards.extend(self.visits[at].read);
            at = self.visits[at].from as usize;
        }
        backwards.iter().skip(1).rev().collect()
    }
}
