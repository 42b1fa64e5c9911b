//! Reading message files.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use fmail_api::{Error, ErrorKind, Message, MessageId, Notice, NoticeKind, Result, Target};

use super::fs::{Dir, Fs, read_file};
use super::head::MAX_FILE;
use super::layout;
use super::session::Session;

/// Handles kept open at a time.
const MAX_HANDLES: usize = 64;

/// Reads messages of a project and keeps their directories open.
pub struct Reader {
    fs: Arc<dyn Fs>,
    top: Dir,
    dirs: HashMap<Target, Dir>,
}

/// What a message file turned out to be.
pub enum Found {
    /// The message, and what was odd about its file.
    Message(Box<Message>, Option<Notice>),
    /// The file is gone.
    Gone,
    /// The file cannot be understood.
    Broken(Notice),
}

impl Found {
    /// The message, if there is one.
    pub fn into_message(self) -> Option<Message> {
        match self {
            Found::Message(message, _) => Some(*message),
            _ => None,
        }
    }
}

impl Reader {
    pub fn new(session: &Session, top: &Dir) -> Self {
        Reader { fs: session.options.fs.clone(), top: top.clone(), dirs: HashMap::new() }
    }

    /// Opens a target's directory.
    pub fn open(&self, target: &Target) -> io::Result<Dir> {
        let (parent, name, _) = layout::target_dir(target);
        self.fs.open_dir(&self.fs.open_dir(&self.top, parent)?, name)
    }

    /// Reads the message `id` of a target.
    pub fn read(&mut self, target: &Target, id: MessageId) -> Result<Found> {
        if !self.dirs.contains_key(target) {
            let dir = match self.open(target) {
                Ok(dir) => dir,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Gone),
                Err(error) => {
                    let (parent, name, _) = layout::target_dir(target);
                    return Err(unusable_dir(parent, name, &error));
                }
            };
            if self.dirs.len() >= MAX_HANDLES {
                self.dirs.clear();
            }
            self.dirs.insert(target.clone(), dir);
        }
        let dir = &self.dirs[target];
        let bytes = match read_file(self.fs.as_ref(), dir, &layout::file_name(id), MAX_FILE) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Gone),
            Err(error) => return unreadable(target, id, &error),
        };
        Ok(match parse(&bytes, target, id) {
            Ok((message, odd)) => Found::Message(Box::new(message), odd),
            Err(error) => Found::Broken(broken(&layout::place(target, id), error.message())),
        })
    }
}

/// An error of the machine is an error; a file that is a link, a pipe or too large is a broken file.
fn unreadable(target: &Target, id: MessageId, error: &io::Error) -> Result<Found> {
    let place = layout::place(target, id);
    let odd = error.kind() == io::ErrorKind::InvalidData
        || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
        || error.kind() == io::ErrorKind::PermissionDenied;
    if odd {
        Ok(Found::Broken(broken(&place, &error.to_string())))
    } else {
        Err(Error::io(format!(".fmail/{place}"), error))
    }
}

/// What is said of a file that is skipped.
pub fn broken(place: &str, reason: &str) -> Notice {
    let text = format!("skipped .fmail/{place}: {reason} (see `fmail quarantine list`)");
    Notice::new(NoticeKind::Broken, text)
}

/// Reads a message; its directory and its name are right where the file says otherwise.
pub fn parse(bytes: &[u8], target: &Target, id: MessageId) -> Result<(Message, Option<Notice>)> {
    let value = serde_json::from_slice(bytes).map_err(|error| Error::invalid(format!("it is not JSON: {error}")))?;
    let mut message = Message::from_value(value, Some(id), Some(target))?;
    let mut odd = Vec::new();
    if message.id != id {
        odd.push(format!("says id {}", message.id));
        message.id = id;
    }
    if !message.targets().contains(target) {
        odd.push(format!("says to {}", message.to));
        message.to = target.clone();
    }
    let notice = (!odd.is_empty()).then(|| {
        let text = format!(".fmail/{} {}; its place counts", layout::place(target, id), odd.join(" and "));
        Notice::new(NoticeKind::Mismatch, text)
    });
    Ok((message, notice))
}

/// The error of a topic's or mailbox's directory that cannot be opened.
pub fn unusable_dir(parent: &str, name: &str, error: &io::Error) -> Error {
    unusable(&format!("{parent}/{name}"), error)
}

/// The error of a directory below `.fmail` that cannot be opened.
pub fn unusable(path: &str, error: &io::Error) -> Error {
    let place = format!(".fmail/{path}");
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
            let text = format!("{place} is not a directory of this project; it may be a symbolic link");
            Error::new(ErrorKind::Denied, text).help("fmail follows no link below .fmail; remove it")
        }
        _ => Error::io(place, error),
    }
}
