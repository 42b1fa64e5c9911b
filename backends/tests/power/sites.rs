//! Which sync is which. A sync is known by what it is about: the file or directory, and what was done there since the last
//! one. So no place in the store's code has to be marked, and a sync that nobody has thought of shows up as one more.

use std::collections::HashMap;

/// A kind of sync on the way to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Site {
    /// The content of a message.
    Message,
    /// The content of a record, before its rename.
    Record,
    /// The mailbox that a message was linked into.
    Mailbox,
    /// The mailbox of a message that an earlier process has linked, when the message is sent again.
    Repeat,
    /// The mailbox of a message that a dead process has left half linked.
    Settled,
    /// The directory of a record after its rename.
    RecordName,
    /// The directory of a record that was deleted.
    RecordRemoval,
    /// `.fmail` after the rename of `project.json`.
    Project,
    /// `.fmail` after the rename of `.gitignore`.
    Ignored,
    /// The project's own directory, in which `.fmail` was made.
    Top,
    /// `.fmail` of a project in the making, in which `topics`, `dm` or `agents` was made.
    FirstParents,
    /// `.fmail`, in which `topics` or `dm` was made later.
    Parent,
    /// `topics` or `dm`, in which a mailbox was made.
    NewMailbox,
    /// A directory in which one for records was made.
    NewRecords,
    /// `.fmail`, in which `tmp` was made.
    Temporaries,
    /// A directory in which a dead process may have made another one.
    OfTheDead,
    /// The records of a group in the journal.
    Journal,
    /// The records that another process has written to the journal, and perhaps not synced before it ended.
    JournalOfAnother,
    /// The header of the journal, which says that a part of it may be used again.
    JournalClean,
    /// A journal in the making.
    NewJournal,
    /// `.fmail`, in which a journal was put.
    NewJournalName,
    /// No sync: the zeroes that a journal is filled with. Without them its blocks are only reserved.
    Zeroes,
    /// The content of a message in its mailbox, before its record in the journal is given up.
    Safe,
    /// The mailbox of such a message.
    SafeName,
    /// The content of a message that another process has written to the journal, before its record there is given up.
    SafeOfAnother,
    /// The mailbox of such a message.
    SafeNameOfAnother,
    /// Everything at once, for very many messages that leave the journal.
    Everything,
}

/// What was done in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    Made,
    Created,
    Linked,
    Renamed,
    /// Renamed to a name that was free.
    Moved,
    Unlinked,
}

/// What was done in all directories since they were synced.
#[derive(Default)]
pub struct Surroundings {
    /// The number of the process that runs.
    pub process: usize,
    since: HashMap<String, Vec<(Changed, String, usize)>>,
    temporaries: usize,
    project: bool,
}

impl Surroundings {
    /// Notes what was done in a directory.
    pub fn changed(&mut self, dir: &str, changed: Changed, name: &str) {
        if dir == ".fmail/tmp" && name.starts_with("message") {
            match changed {
                Changed::Created => self.temporaries += 1,
                _ => self.temporaries = self.temporaries.saturating_sub(1),
            }
        }
        self.project |= name == "project.json";
        self.since.entry(dir.into()).or_default().push((changed, name.into(), self.process));
    }

    /// The project is there already.
    pub fn is_project(&mut self) {
        self.project = true;
    }

    /// Notes that a directory was synced.
    pub fn synced(&mut self, dir: &str) {
        self.since.remove(dir);
    }

    /// Notes that everything was synced.
    pub fn all_synced(&mut self) {
        self.since.clear();
    }

    /// Which sync this one of a directory is.
    pub fn site(&self, dir: &str) -> Site {
        let path: Vec<&str> = dir.split('/').collect();
        let since = self.since.get(dir).map_or(&[][..], |since| &since[..]);
        let by_us = |wanted: Changed| since.iter().any(|(found, _, by)| *found == wanted && *by == self.process);
        let made = |names: &[&str]| {
            let last = since.iter().rev().find(|(found, ..)| *found == Changed::Made);
            last.is_some_and(|(_, name, by)| *by == self.process && names.contains(&name.as_str()))
        };
        match path[..] {
            [""] if by_us(Changed::Made) => Site::Top,
            [".fmail"] => match since.last() {
                Some((Changed::Renamed, name, _)) if name == "project.json" => Site::Project,
                Some((Changed::Renamed, name, _)) if name == ".gitignore" => Site::Ignored,
                Some((Changed::Moved, name, _)) if name == "journal" => Site::NewJournalName,
                _ if made(&["tmp"]) => Site::Temporaries,
                _ if made(&["records"]) => Site::NewRecords,
                _ if made(&["topics", "dm", "agents"]) && !self.project => Site::FirstParents,
                _ if made(&["topics", "dm"]) => Site::Parent,
                _ if made(&["agents"]) => Site::NewRecords,
                _ => Site::OfTheDead,
            },
            [".fmail", "topics" | "dm"] if by_us(Changed::Made) => Site::NewMailbox,
            [".fmail", "topics" | "dm", _] if since.iter().any(|(found, ..)| *found == Changed::Moved) => {
                Site::SafeName
            }
            [".fmail", "topics" | "dm", _] if self.temporaries > 0 => Site::Settled,
            [".fmail", "topics" | "dm", _] if by_us(Changed::Linked) => Site::Mailbox,
            [".fmail", "topics" | "dm", _] => Site::Repeat,
            [".fmail", "agents" | "records", ..] => match since.last() {
                Some((Changed::Renamed, ..)) => Site::RecordName,
                Some((Changed::Unlinked, ..)) => Site::RecordRemoval,
                Some((Changed::Made, _, by)) if *by == self.process => Site::NewRecords,
                _ => Site::OfTheDead,
            },
            _ => Site::OfTheDead,
        }
    }
}

impl Site {
    /// Which sync this one of a file is.
    pub fn of_file(place: &str) -> Site {
        match place {
            ".fmail/tmp/record" => Site::Record,
            ".fmail/tmp/journal" => Site::NewJournal,
            ".fmail/journal" => Site::Journal,
            place if place.starts_with(".fmail/topics/") || place.starts_with(".fmail/dm/") => Site::Safe,
            place if place.starts_with(".fmail/tmp/message") => Site::Message,
            other => panic!("a sync of {other}, which no test knows"),
        }
    }
}
