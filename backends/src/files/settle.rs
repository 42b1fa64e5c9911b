//! Finishing or removing what a process left that died while it held the lock.

use std::io;

use fmail_api::{Error, Message, Result};

use super::crew::Crew;
use super::fs::{Dir, if_there, read_file};
use super::head::MAX_FILE;
use super::layout;
use super::publish::Mailbox;
use super::reader::unusable;
use super::session::{Session, Writing};

/// A message that a dead process left in some of its mailboxes, and the name of its temporary.
type Left = (Message, String);

impl Session {
    /// Settles what is left. One look is enough when there is nothing: the first temporary of a group is there as long as
    /// any of them. After a power cut that does not have to be so; then the index is rebuilt, and all names are listed.
    pub fn settle(&self, top: &Dir, writing: &Writing<'_>) -> Result<()> {
        if !writing.is_shared() {
            return Ok(());
        }
        self.settle_journal(top, writing)?;
        let opened = if_there(self.open_again("", top, layout::TEMPORARY));
        let Some(temporary) = opened.map_err(|error| unusable(layout::TEMPORARY, &error))? else { return Ok(()) };
        let first = layout::unfinished_name(0);
        match self.fs().stat(&temporary, &first) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !writing.rebuilt => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unsettled(&first, &error)),
            _ => {}
        }
        let (mut names, left) = self.left(&temporary)?;
        for one in &left {
            self.finish(top, writing, &temporary, one)?;
        }
        if !names.is_empty() {
            self.sync_parents(top)?;
        }
        names.sort_by_key(|name| *name == first);
        names.iter().try_for_each(|name| self.fs().unlink(&temporary, name).map_err(|error| unsettled(name, &error)))
    }

    /// Makes the names of all mailboxes durable: the dead process may have made one and not have come to that.
    fn sync_parents(&self, top: &Dir) -> Result<()> {
        let mut dirs = vec![top.clone()];
        for parent in [layout::TOPICS, layout::DIRECT] {
            dirs.extend(if_there(self.fs().open_dir(top, parent)).map_err(|error| unusable(parent, &error))?);
        }
        self.sync_dirs(dirs, &Crew::alone(&self.options.fs)).into_iter().flatten().next().map_or(Ok(()), Err)
    }

    /// Gives messages that were left in some of their mailboxes their other names too. This comes before a rebuild, which
    /// would otherwise take the later names for other messages.
    pub fn complete_names(&self, top: &Dir) -> Result<()> {
        let opened = if_there(self.fs().open_dir(top, layout::TEMPORARY));
        let Some(temporary) = opened.map_err(|error| unusable(layout::TEMPORARY, &error))? else { return Ok(()) };
        let (_, left) = self.left(&temporary)?;
        left.iter().try_for_each(|one| self.link_missing(top, &temporary, one).map(drop))
    }

    /// The names of all temporaries, and the messages among them that are linked somewhere, in the order of their ids: they
    /// become visible in that order, also when their sender is dead.
    fn left(&self, temporary: &Dir) -> Result<(Vec<String>, Vec<Left>)> {
        let mut names = Vec::new();
        let listed = self.fs().list(temporary, &mut |name, _| {
            names.extend(layout::is_unfinished_name(name).then(|| name.to_string()));
            true
        });
        listed.map_err(|error| Error::io(".fmail/tmp cannot be listed", &error))?;
        let mut left: Vec<Left> = Vec::new();
        for name in &names {
            left.extend(self.linked_somewhere(temporary, name)?.map(|message| (message, name.clone())));
        }
        left.sort_by_key(|(message, _)| message.id);
        Ok((names, left))
    }

    /// The message of a temporary, when it has another name too.
    fn linked_somewhere(&self, temporary: &Dir, name: &str) -> Result<Option<Message>> {
        let stat = self.fs().stat(temporary, name).map_err(|error| unsettled(name, &error))?;
        if stat.links < 2 {
            return Ok(None);
        }
        let bytes = read_file(self.fs(), temporary, name, MAX_FILE).ok();
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Links an unfinished message to the names that it lacks.
    fn link_missing(&self, top: &Dir, temporary: &Dir, left: &Left) -> Result<Vec<Mailbox>> {
        let (message, unfinished) = left;
        let name = layout::file_name(message.id);
        let mut mailboxes = Vec::new();
        for target in message.targets() {
            let mailbox = self.mailbox(top, target)?;
            match self.fs().link(temporary, unfinished, &mailbox.dir, &name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io("an unfinished message cannot be settled", &error));
                }
                _ => mailboxes.push(mailbox),
            }
        }
        Ok(mailboxes)
    }

    /// Links an unfinished message to the names that it lacks, and announces it if that was not done.
    fn finish(&self, top: &Dir, writing: &Writing<'_>, temporary: &Dir, left: &Left) -> Result<()> {
        let (message, _) = left;
        let mut changes = writing.changes()?;
        let mut places = Vec::new();
        for mailbox in self.link_missing(top, temporary, left)? {
            let mut place = self.place(&mut changes, mailbox)?;
            // The dead process changed the directory without a stamp; a listing tells what else is new there.
            place.in_step = false;
            places.push(place);
        }
        if writing.index.find(&changes.state, message.id)?.is_empty() {
            let all: Vec<usize> = (0..places.len()).collect();
            self.announce(&mut changes, &mut places, &[(message, &all)])?;
        }
        let dirs = places.into_iter().map(|place| place.dir).collect();
        let failed = self.sync_dirs(dirs, &Crew::alone(&self.options.fs)).into_iter().flatten().next();
        failed.map_or(Ok(()), Err)
    }
}

fn unsettled(name: &str, error: &io::Error) -> Error {
    Error::io(format!(".fmail/tmp/{name}"), error)
}
