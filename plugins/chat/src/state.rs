//! Up to where the file was read, and what was about to be done.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use fmail_api::{ContentHash, Draft, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// How long a last line without its end must have rested before it counts as whole.
pub(crate) const AT_REST: Duration = Duration::from_secs(1);
/// So many lines that cannot be messages are told one by one.
pub(crate) const TOLD: usize = 20;

/// How long commands that list messages say what was found when the file and the sidecar were compared. The command that
/// found it need not be one that can say it.
const NEWS: Duration = Duration::from_secs(60);

/// What the sidecar knows about the file. Kept as a record of the sidecar.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// What the file looked like when it was read.
    pub(crate) seen: Option<Seen>,
    /// Up to where it was read.
    pub(crate) end: u64,
    /// The last message before that.
    pub(crate) last: Option<Last>,
    /// Somebody is changing the sidecar. Found by the next holder of the lock, it says that he died over it, and everything
    /// is compared anew.
    pub(crate) busy: bool,
    /// The message whose line was about to be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<Pending>,
    /// Lines of the file that look like messages and cannot be any.
    #[serde(default)]
    pub(crate) skipped: Vec<String>,
    /// How many more of them there are.
    #[serde(default)]
    pub(crate) skipped_more: u64,
    /// What the last comparison of everything has found, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) news: Option<News>,
}

/// What is to be told for a while.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct News {
    /// In seconds since 1970.
    at: u64,
    texts: Vec<String>,
}

impl News {
    pub(crate) fn new(texts: Vec<String>) -> Self {
        News { at: seconds(), texts }
    }

    /// What is still to be told.
    pub(crate) fn told(&self) -> &[String] {
        if seconds().abs_diff(self.at) <= NEWS.as_secs() { &self.texts } else { &[] }
    }
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}

/// By what a change of the file is noticed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seen {
    device: u64,
    inode: u64,
    size: u64,
    seconds: i64,
    nanos: i64,
}

/// A message's place in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Last {
    pub(crate) offset: u64,
    pub(crate) mark: ContentHash,
}

/// A message whose line is being written. Everything that the line has no room for is here, so that it is not lost when
/// the writer is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) mark: ContentHash,
    /// Its JSON, as a text: the numbers of a body keep the form in which they were written.
    draft: String,
}

impl Pending {
    pub(crate) fn new(draft: &Draft, mark: ContentHash) -> Result<Self> {
        let draft = serde_json::to_string(draft).map_err(|error| Error::internal(error.to_string()))?;
        Ok(Pending { mark, draft })
    }

    pub(crate) fn draft(&self) -> Result<Draft> {
        serde_json::from_str(&self.draft).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("the message being written cannot be read: {error}"))
        })
    }
}

impl State {
    /// Whether the file, which looks like this, has nothing new to say.
    pub(crate) fn is_current(&self, metadata: &Metadata) -> bool {
        let waits = self.end < metadata.len() && rests(metadata);
        !self.busy && !waits && self.seen.as_ref() == Some(&Seen::of(metadata))
    }

    /// Whether the file was only appended to, as far as its metadata can tell.
    pub(crate) fn may_have_grown(&self, metadata: &Metadata) -> bool {
        !self.busy && self.end <= metadata.len() && self.is_in(metadata)
    }

    /// Whether this is the file that was read, and not another one in its place.
    pub(crate) fn is_in(&self, metadata: &Metadata) -> bool {
        let same = |seen: &Seen| (seen.device, seen.inode) == (metadata.dev(), metadata.ino());
        self.seen.as_ref().is_some_and(same)
    }

    /// Notes a line that cannot be a message.
    pub(crate) fn skip(&mut self, what: String) {
        if self.skipped.len() < TOLD {
            self.skipped.push(what);
        } else {
            self.skipped_more += 1;
        }
    }
}

impl Seen {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Seen {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            seconds: metadata.mtime(),
            nanos: metadata.mtime_nsec(),
        }
    }
}

/// Whether nobody has written to the file for a while.
pub(crate) fn rests(metadata: &Metadata) -> bool {
    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    SystemTime::now().duration_since(modified).is_ok_and(|passed| passed >= AT_REST)
}
