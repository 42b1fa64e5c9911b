//! Ways in which a mailbox can be wrong.

use fmail_plugin::serde::Deserialize;

/// What the desk does wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(crate = "fmail_plugin::serde", rename_all = "kebab-case")]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Lists the newest first.
    NewestFirst,
    /// Lists the mail of everybody.
    EverybodysMail,
    /// Loses what it does not know of a message.
    LosesTheSubject,
    /// What it lists is read.
    ListingReads,
    /// A mailbox without mail is an error.
    EmptyIsAnError,
    /// What is looked at is read.
    PeekingReads,
    /// An unknown message is a defect.
    UnknownIsADefect,
    /// What is read is archived.
    ReadingArchives,
    /// What is read is not.
    ReadingIsForgotten,
    /// Every mark has changed something.
    EveryMarkChanges,
    /// A mark changes nothing, and says that it does.
    MarksAreForgotten,
    /// Counts what is archived.
    CountsTheArchive,
    /// A thread has what others wrote to each other.
    ThreadOfEverybody,
    /// An unknown thread is an error.
    NoThreadIsAnError,
    /// The state of a message is the same for everybody.
    OneStateForAll,
    /// Its mailbox never answers.
    Hangs,
}
