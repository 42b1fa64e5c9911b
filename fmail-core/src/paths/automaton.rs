//! A pattern as an automaton that reads a path character by character.
//!
//! A path is read with a `/` after each segment, also after the last: `src/main.rs` is read as `src/main.rs/`. So the
//! end of a segment is always a character, and "everything below" is simply "anything may follow".

use super::charset::CharSet;
use super::syntax::{Part, Problem, Syntax, absolute, lone_stars};

/// The most states that a pattern may need. A path of 1024 plain characters needs 1027; only patterns that are made to
/// be difficult need more than one state for each of their bytes.
pub(super) const MAX_STATES: usize = 1200;

/// A state, by its place in the list of states.
pub(super) type StateId = u16;

/// What one step may read.
#[derive(Debug, Clone)]
pub(super) enum Label {
    /// This character, which may be `/`.
    Char(char),
    /// Any character of a segment.
    Any,
    /// One of these characters of a segment.
    Class(CharSet),
}

impl Label {
    fn reads(&self, character: char) -> bool {
        match self {
            Label::Char(own) => *own == character,
            Label::Any => character != '/',
            Label::Class(set) => set.contains(character),
        }
    }

    /// A character that both labels read, a dot only when there is no other.
    pub(super) fn meet(&self, other: &Label) -> Option<char> {
        match (self, other) {
            (Label::Char(character), label) | (label, Label::Char(character)) => {
                label.reads(*character).then_some(*character)
            }
            (Label::Any, Label::Any) => Some('a'),
            (Label::Any, Label::Class(set)) | (Label::Class(set), Label::Any) => set.example(),
            (Label::Class(set), Label::Class(other)) => set.meet(other).example(),
        }
    }
}

/// Where reading can go from a state.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// States that are reached without reading anything.
    pub(super) free: Vec<StateId>,
    /// States that are reached by reading a character.
    pub(super) edges: Vec<(Label, StateId)>,
}

/// The automaton of a pattern. It starts in state 0.
#[derive(Debug, Clone)]
pub(super) struct Automaton {
    pub(super) states: Vec<State>,
}

/// The state in which everything may follow: the path is covered, with all below it.
const TREE: StateId = 1;
/// The state after which nothing may follow: only the path itself is covered.
const LEAF: StateId = 2;

impl Automaton {
    /// The automaton of this pattern, and whether the `/` at its end changed what it covers.
    pub(super) fn of(syntax: &Syntax) -> Result<(Self, bool), Problem> {
        let mut builder = Builder { states: vec![State::default(); 3] };
        builder.states[TREE as usize].edges = vec![(Label::Any, TREE), (Label::Char('/'), TREE)];
        let mut start = Cursors::default();
        start.0[Place::Root as usize] = Some(0);
        let end = builder.sequence(start, &syntax.parts)?;
        let slash_matters = builder.finish(&end, syntax.names_directory)?;
        Ok((Automaton { states: builder.states }, slash_matters))
    }

    /// Whether a path that ends in this state is covered.
    pub(super) fn covers(state: StateId) -> bool {
        state == TREE || state == LEAF
    }

    /// Whether the path that these characters spell is covered. Each character looks at each state at most once.
    pub(super) fn accepts(&self, path: impl Iterator<Item = char>) -> bool {
        let mut current = Reached::new(self.states.len());
        let mut next = Reached::new(self.states.len());
        current.add(self, 0);
        for character in path {
            for &state in &current.list {
                for (label, target) in &self.states[state as usize].edges {
                    if label.reads(character) {
                        next.add(self, *target);
                    }
                }
            }
            std::mem::swap(&mut current, &mut next);
            next.clear();
        }
        current.list.iter().any(|&state| Automaton::covers(state))
    }
}

/// The states that reading has reached.
struct Reached {
    list: Vec<StateId>,
    present: Vec<bool>,
}

impl Reached {
    fn new(states: usize) -> Self {
        Reached { list: Vec::new(), present: vec![false; states] }
    }

    /// Adds a state, and all that are reached from it without reading.
    fn add(&mut self, automaton: &Automaton, state: StateId) {
        let mut found = vec![state];
        while let Some(state) = found.pop() {
            if !std::mem::replace(&mut self.present[state as usize], true) {
                self.list.push(state);
                found.extend(&automaton.states[state as usize].free);
            }
        }
    }

    fn clear(&mut self) {
        for state in self.list.drain(..) {
            self.present[state as usize] = false;
        }
    }
}

/// What stands to the left of a place in a pattern, as far as it decides what may follow there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing at all.
    Root,
    /// A slash.
    Start,
    /// `.`, as the whole segment so far.
    Dot,
    /// `..`, as the whole segment so far.
    DotDot,
    /// A part of a name.
    Name,
    /// A part of a name that has a dot after its first character, and so looks like a file's.
    FileName,
    /// `**`
    Stars,
}

impl Place {
    const ALL: [Place; 7] =
        [Place::Root, Place::Start, Place::Dot, Place::DotDot, Place::Name, Place::FileName, Place::Stars];

    /// The place after this character, which is not `/`.
    fn after(self, character: char) -> Result<Place, Problem> {
        match (self, character) {
            (Place::Root | Place::Start, '.') => Ok(Place::Dot),
            (Place::Dot, '.') => Ok(Place::DotDot),
            (Place::Name, '.') => Ok(Place::FileName),
            _ => self.after_wildcard(),
        }
    }

    /// The place after something that stands for a character that is not known.
    fn after_wildcard(self) -> Result<Place, Problem> {
        match self {
            Place::Root | Place::Start | Place::Dot | Place::Name => Ok(Place::Name),
            Place::DotDot | Place::FileName => Ok(Place::FileName),
            Place::Stars => Err(lone_stars()),
        }
    }

    /// Refuses the segments `.` and `..`.
    fn check_segment(self) -> Result<(), Problem> {
        match self {
            Place::Dot => Err(Problem::new("one of its alternatives has the segment `.`", "leave that segment out")),
            Place::DotDot => Err(absolute("it has the segment `..`, and patterns cannot lead upwards")),
            _ => Ok(()),
        }
    }
}

/// The states that the pattern may be in after some part of it, one for each place. There are several only after braces
/// whose alternatives end differently.
#[derive(Debug, Clone, Copy, Default)]
struct Cursors([Option<StateId>; Place::ALL.len()]);

impl Cursors {
    fn each(&self) -> impl Iterator<Item = (Place, StateId)> + use<> {
        let states = self.0;
        Place::ALL.into_iter().filter_map(move |place| Some((place, states[place as usize]?)))
    }
}

struct Builder {
    states: Vec<State>,
}

impl Builder {
    fn add_state(&mut self) -> Result<StateId, Problem> {
        if self.states.len() == MAX_STATES {
            return Err(Problem::new(
                format!("it is too complex: it needs more than {MAX_STATES} states"),
                "write several shorter patterns instead",
            ));
        }
        self.states.push(State::default());
        Ok((self.states.len() - 1) as StateId)
    }

    /// The state of a place among the cursors, made when there is none yet.
    fn state_at(&mut self, cursors: &mut Cursors, place: Place) -> Result<StateId, Problem> {
        match cursors.0[place as usize] {
            Some(state) => Ok(state),
            None => Ok(*cursors.0[place as usize].insert(self.add_state()?)),
        }
    }

    fn edge(&mut self, from: StateId, label: Label, to: StateId) {
        self.states[from as usize].edges.push((label, to));
    }

    fn free(&mut self, from: StateId, to: StateId) {
        self.states[from as usize].free.push(to);
    }

    fn sequence(&mut self, mut cursors: Cursors, parts: &[Part]) -> Result<Cursors, Problem> {
        for part in parts {
            cursors = self.part(&cursors, part)?;
        }
        Ok(cursors)
    }

    /// Adds one part after the cursors. No part adds a way back to a cursor's own state, so alternatives can share it.
    fn part(&mut self, cursors: &Cursors, part: &Part) -> Result<Cursors, Problem> {
        match part {
            Part::Slash => self.slash(cursors),
            Part::DoubleStar => self.double_star(cursors),
            Part::Alternatives(alternatives) => self.alternatives(cursors, alternatives),
            _ => self.within_segment(cursors, part),
        }
    }

    /// Adds a part that stands for characters of a segment.
    fn within_segment(&mut self, cursors: &Cursors, part: &Part) -> Result<Cursors, Problem> {
        let mut next = Cursors::default();
        for (place, from) in cursors.each() {
            let after = if let Part::Char(own) = part { place.after(*own)? } else { place.after_wildcard()? };
            let known = next.0[after as usize].is_some();
            let to = self.state_at(&mut next, after)?;
            match part {
                Part::Char(own) => self.edge(from, Label::Char(*own), to),
                Part::Class { set, text } => {
                    self.edge(from, Label::Class(set.clone()), to);
                    self.text(from, text, to)?;
                }
                Part::Star => {
                    self.free(from, to);
                    if !known {
                        self.edge(to, Label::Any, to);
                    }
                }
                _ => self.edge(from, Label::Any, to),
            }
        }
        Ok(next)
    }

    /// Adds a way that reads exactly this text.
    fn text(&mut self, mut from: StateId, text: &str, to: StateId) -> Result<(), Problem> {
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let next = if characters.peek().is_some() { self.add_state()? } else { to };
            self.edge(from, Label::Char(character), next);
            from = next;
        }
        Ok(())
    }

    /// Repeated slashes, which alternatives can still make (`a/{,b}/c`), count as one.
    fn slash(&mut self, cursors: &Cursors) -> Result<Cursors, Problem> {
        let mut next = Cursors::default();
        for (place, from) in cursors.each() {
            place.check_segment()?;
            if place == Place::Root {
                return Err(absolute("one of its alternatives begins with `/`"));
            }
            let to = self.state_at(&mut next, Place::Start)?;
            match place {
                Place::Start | Place::Stars => self.free(from, to),
                _ => self.edge(from, Label::Char('/'), to),
            }
        }
        Ok(next)
    }

    /// `**` reads whole segments, each with its slash; so the slash that follows it in the pattern reads nothing more.
    fn double_star(&mut self, cursors: &Cursors) -> Result<Cursors, Problem> {
        let (between, within) = (self.add_state()?, self.add_state()?);
        self.edge(between, Label::Any, within);
        self.edge(within, Label::Any, within);
        self.edge(within, Label::Char('/'), between);
        for (place, from) in cursors.each() {
            if !matches!(place, Place::Root | Place::Start) {
                return Err(lone_stars());
            }
            self.free(from, between);
        }
        let mut next = Cursors::default();
        next.0[Place::Stars as usize] = Some(between);
        Ok(next)
    }

    fn alternatives(&mut self, cursors: &Cursors, alternatives: &[Vec<Part>]) -> Result<Cursors, Problem> {
        let mut next = Cursors::default();
        for alternative in alternatives {
            for (place, from) in self.sequence(*cursors, alternative)?.each() {
                let to = self.state_at(&mut next, place)?;
                self.free(from, to);
            }
        }
        Ok(next)
    }

    /// Ends the pattern; true if the name's look would have made it a file, but `names_directory` said otherwise.
    fn finish(&mut self, cursors: &Cursors, names_directory: bool) -> Result<bool, Problem> {
        let mut slash_matters = false;
        for (place, from) in cursors.each() {
            place.check_segment()?;
            match place {
                Place::Root => return Err(Problem::new("one of its alternatives is empty", "leave it out")),
                Place::Start | Place::Stars => self.free(from, TREE),
                Place::FileName if !names_directory => self.edge(from, Label::Char('/'), LEAF),
                _ => self.edge(from, Label::Char('/'), TREE),
            }
            slash_matters |= names_directory && place == Place::FileName;
        }
        Ok(slash_matters)
    }
}
