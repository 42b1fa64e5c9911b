//! Appends and imports of one process that are under way at the same time.
//!
//! The first caller leads: it takes the project's lock, stores its own message and those of all who have come by then,
//! and hands the lead to the next in line as soon as the lock is free. Nobody waits for company: who comes alone leads
//! at once and is a group of one.

use std::collections::{HashSet, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fmail_api::{Appended, Error, Message, MessageId, Result};

use super::crew::Task;
use super::session::relock;

/// The most messages in a group: others want the lock too, and each message holds a file open.
pub const MAX_MESSAGES: usize = 64;
/// The most bytes in a group, as compact JSON. A larger message goes alone.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// The most mailboxes in a group, each of which is held open. A message to more goes alone.
const MAX_PLACES: usize = 128;

/// What a waiting caller is asked to do, or told.
pub enum Step {
    /// Lead the next group.
    Lead,
    /// Help to sync what your group has written.
    Help(Arc<Task>),
    /// That is what became of your message of this number.
    Answer(u64, Result<Appended>),
}

/// A message that waits to be stored.
pub struct Ticket {
    /// The message. One that is appended does not have its id and its time yet.
    pub message: Message,
    /// It has its id already, from another host or store.
    pub imported: bool,
    /// Its size as compact JSON.
    pub bytes: usize,
    /// Until when its caller is willing to wait for its turn.
    pub deadline: Instant,
    /// The way to the caller.
    pub caller: Sender<Step>,
    /// The number of the caller's first message: who brings several has one number.
    pub party: u64,
    number: u64,
}

impl Ticket {
    /// Tells the caller what became of the message.
    pub fn answer(self, answer: Result<Appended>) {
        // A caller that panicked does not want to know.
        let _ = self.caller.send(Step::Answer(self.number, answer));
    }

    /// The ids of an import: its own, and the one that it was born with.
    fn ids(&self) -> impl Iterator<Item = MessageId> {
        [self.message.id, self.message.origin_id.unwrap_or(self.message.id)].into_iter()
    }
}

/// The line of those who wait.
#[derive(Default)]
pub struct Queue {
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    tickets: VecDeque<Ticket>,
    /// Somebody leads.
    led: bool,
    /// How many have joined so far.
    joined: u64,
}

impl Queue {
    /// Joins the line. The second is whether the caller leads.
    pub fn join(&self, message: Message, imported: bool, bytes: usize, deadline: Instant) -> (Caller<'_>, bool) {
        self.join_with(vec![(message, bytes)], imported, deadline)
    }

    /// Joins the line with several messages and their sizes, which stand behind each other.
    pub fn join_with(&self, messages: Vec<(Message, usize)>, imported: bool, deadline: Instant) -> (Caller<'_>, bool) {
        let (caller, steps) = channel();
        let mut line = relock(&self.line);
        let first = line.joined + 1;
        line.joined += messages.len() as u64;
        let answers = messages.iter().map(|_| None).collect();
        for (number, (message, bytes)) in (first..).zip(messages) {
            let caller = caller.clone();
            line.tickets.push_back(Ticket { message, imported, bytes, deadline, caller, party: first, number });
        }
        let leads = !line.tickets.is_empty() && !std::mem::replace(&mut line.led, true);
        (Caller { queue: self, steps, first, answers }, leads)
    }

    /// How many wait to be taken into a group.
    pub fn len(&self) -> usize {
        relock(&self.line).tickets.len()
    }

    /// Whether this process has stored nothing through the line before.
    pub fn is_first(&self) -> bool {
        relock(&self.line).joined <= 1
    }

    /// The lead, which goes to the next in line when this is dropped.
    pub fn baton(&self) -> Baton<'_> {
        Baton(self)
    }

    /// Takes as many as fit into a group, in the order in which they came. Of several appends with one key, and of several
    /// imports with one id, only the first is taken: the others have to wait for what becomes of it.
    pub fn take(&self) -> Vec<Ticket> {
        let mut line = relock(&self.line);
        let (mut keys, mut ids) = (HashSet::new(), HashSet::new());
        let (mut taken, mut left) = (Vec::new(), VecDeque::new());
        let (mut bytes, mut places) = (0, 0);
        while let Some(ticket) = line.tickets.pop_front() {
            let (all_bytes, all_places) = (bytes + ticket.bytes, places + ticket.message.targets().len());
            let large = all_bytes > MAX_BYTES || all_places > MAX_PLACES;
            if taken.len() == MAX_MESSAGES || (large && !taken.is_empty()) {
                left.push_back(ticket);
                break;
            }
            let known = match (&ticket.message.key, ticket.imported) {
                (_, true) => ticket.ids().any(|id| ids.contains(&id)),
                (Some(key), false) => !keys.insert(key.clone()),
                (None, false) => false,
            };
            if known {
                left.push_back(ticket);
                continue;
            }
            if ticket.imported {
                ids.extend(ticket.ids());
            }
            (bytes, places) = (all_bytes, all_places);
            taken.push(ticket);
        }
        left.append(&mut line.tickets);
        line.tickets = left;
        taken
    }

    /// Puts tickets back to the front, in their order.
    pub fn put_back(&self, tickets: Vec<Ticket>) {
        let mut line = relock(&self.line);
        for ticket in tickets.into_iter().rev() {
            line.tickets.push_front(ticket);
        }
    }
}

/// The right and the duty to lead. However its holder ends, the next in line gets it.
pub struct Baton<'a>(&'a Queue);

impl Drop for Baton<'_> {
    fn drop(&mut self) {
        let mut line = relock(&self.0.line);
        while let Some(next) = line.tickets.front() {
            if next.caller.send(Step::Lead).is_ok() {
                return;
            }
            line.tickets.pop_front();
        }
        line.led = false;
    }
}

/// One who waits for its answers.
pub struct Caller<'a> {
    queue: &'a Queue,
    steps: Receiver<Step>,
    /// The number of its first message. Those of the others follow.
    first: u64,
    answers: Vec<Option<Result<Appended>>>,
}

impl Caller<'_> {
    /// Waits for the answer of who came with one message.
    pub fn answer(self, lead: impl Fn()) -> Result<Appended> {
        let nothing = || Err(Error::internal("nothing is known of what became of a message"));
        self.answers(lead).pop().unwrap_or_else(nothing)
    }

    /// Waits for all answers. Leads by `lead` when it is asked to.
    pub fn answers(mut self, lead: impl Fn()) -> Vec<Result<Appended>> {
        let interrupted = || {
            Err(Error::internal("the thread that stored the message ended unexpectedly")
                .help("look whether the message is there before you send it again"))
        };
        while self.waits() {
            match self.steps.recv() {
                Ok(Step::Lead) => lead(),
                Ok(Step::Help(task)) => task.work(),
                Ok(Step::Answer(number, answer)) => {
                    let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
                    if let Some(place) = place.and_then(|place| self.answers.get_mut(place)) {
                        *place = Some(answer);
                    }
                }
                Err(_) => {
                    for answer in self.answers.iter_mut().filter(|answer| answer.is_none()) {
                        *answer = Some(interrupted());
                    }
                }
            }
        }
        std::mem::take(&mut self.answers).into_iter().map(|answer| answer.unwrap_or_else(interrupted)).collect()
    }

    fn waits(&self) -> bool {
        self.answers.iter().any(Option::is_none)
    }
}

impl Drop for Caller<'_> {
    /// A caller that panics leaves the line, and hands on the lead if it was given that meanwhile. Both happen while nobody
    /// else can give it anything.
    fn drop(&mut self) {
        if !self.waits() {
            return;
        }
        let mut line = relock(&self.queue.line);
        line.tickets.retain(|ticket| ticket.party != self.first);
        let leads = self.steps.try_iter().any(|step| matches!(step, Step::Lead));
        drop(line);
        if leads {
            drop(self.queue.baton());
        }
    }
}
