//! Removing messages, a batch at a time, so that writers get their turn in between.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use fmail_api::{Error, Expect, RecordKey, Removed, Result, Selection, Target, Timestamp};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::json;

use super::census::newest_left;
use super::fs::Dir;
use super::index::{Entry, Index, Row, Slot, is_damage};
use super::layout;
use super::publish::own_change;
use super::session::Session;

/// How many messages are removed under one lock.
const BATCH: usize = 256;
/// An index is rebuilt without its removed entries when they are more than this, and more than half.
const WORTH_REBUILDING: u32 = 4096;

/// A removal that goes on as its answers are asked for.
struct Removal {
    session: Arc<Session>,
    selection: Selection,
    ready: VecDeque<Removed>,
    epoch: u64,
    next: u32,
    finished: bool,
}

impl Session {
    /// Removes what is selected, or tells what would be removed.
    pub fn remove(self: &Arc<Self>, selection: Selection) -> Result<BoxStream<'static, Result<Removed>>> {
        let Some(top) = self.top()? else { return Ok(stream::empty().boxed()) };
        match selection.dry_run {
            // By someone who sees only half of it, it would tell too little.
            true => self.check_sees_all(&top)?,
            false => self.check_owner(&top)?,
        }
        // With ids, not everything before the time goes: no horizon.
        let sweeps = !selection.dry_run && selection.ids.is_empty();
        if let Some(before) = selection.before.filter(|_| sweeps) {
            self.raise_horizon(before)?;
        }
        let removal =
            Removal { session: self.clone(), selection, ready: VecDeque::new(), epoch: 0, next: 1, finished: false };
        let batches = stream::unfold(removal, |mut removal| {
            let next = removal.next();
            futures::future::ready(next.map(|item| (item, removal)))
        });
        Ok(batches.boxed())
    }

    /// Says first what will be gone, so that no peer brings it back in the meantime.
    fn raise_horizon(&self, before: Timestamp) -> Result<()> {
        if self.horizon()?.is_some_and(|horizon| horizon >= before) {
            return Ok(());
        }
        let value = json!({ "before": before });
        self.put(&RecordKey::horizon(), &Expect::Anything, &value, true).map(drop)
    }
}

impl Removal {
    fn next(&mut self) -> Option<Result<Removed>> {
        while self.ready.is_empty() && !self.finished {
            let mut batch = self.batch();
            if batch.as_ref().is_err_and(is_damage) {
                batch = self.session.clone().heal().and_then(|()| self.batch());
            }
            if let Err(error) = batch {
                self.finished = true;
                return Some(Err(error));
            }
        }
        self.ready.pop_front().map(Ok)
    }

    fn batch(&mut self) -> Result<()> {
        if self.selection.dry_run { self.tell() } else { self.remove_batch() }
    }

    /// The next entries that are selected, from where the last batch ended.
    fn select(&mut self, index: &Index) -> Result<Vec<(u32, Entry)>> {
        let state = index.state()?;
        if index.epoch != self.epoch {
            (self.epoch, self.next) = (index.epoch, 1);
        }
        let mut slots = index.sweep(&state);
        let mut found = Vec::new();
        while self.next <= state.committed && found.len() < BATCH {
            match slots.get(self.next)? {
                Slot::Entry(entry)
                    if !entry.removed && self.selection.selects(entry.id, Timestamp::from_unix_nanos(entry.time)) =>
                {
                    found.push((self.next, entry));
                }
                _ => {}
            }
            self.next += 1;
        }
        self.finished = self.next > state.committed;
        Ok(found)
    }

    fn tell(&mut self) -> Result<()> {
        let Some(top) = self.session.top()? else {
            self.finished = true;
            return Ok(());
        };
        let index = match self.epoch {
            0 => self.session.look(&top, &fmail_api::Scope::All, &[], self.session.patience())?.index,
            _ => self.session.index(&top)?,
        };
        for (_, entry) in self.select(&index)? {
            self.ready.push_back(removed(&entry, index.row(entry.row)?.target));
        }
        Ok(())
    }

    fn remove_batch(&mut self) -> Result<()> {
        let session = self.session.clone();
        let Some(top) = session.top()? else {
            self.finished = true;
            return Ok(());
        };
        if self.epoch == 0 {
            session.look(&top, &fmail_api::Scope::All, &[], session.patience())?;
        }
        let lock = session.lock(&top)?;
        let writing = session.writing_with(&top, lock)?;
        // What is removed must not come back out of the journal.
        session.checkpoint(&top, &writing)?;
        let selected = self.select(&writing.index)?;
        if !selected.is_empty() {
            let mut changes = writing.changes()?;
            changes.set_busy(true)?;
            let mut mailboxes: HashMap<u32, Mailbox> = HashMap::new();
            for (slot, entry) in selected {
                let mailbox = match mailboxes.entry(entry.row) {
                    std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                    std::collections::hash_map::Entry::Vacant(new) => {
                        new.insert(Mailbox::open(&session, &top, writing.index.row(entry.row)?)?)
                    }
                };
                mailbox.unlink(&session, &entry)?;
                changes.mark_removed(slot, entry)?;
                self.ready.push_back(removed(&entry, mailbox.row.target.clone()));
            }
            for (number, mut mailbox) in mailboxes {
                newest_left(&writing.index, &changes.state, &mut mailbox.row)?;
                mailbox.stamp(&session);
                changes.set_row(number, &mailbox.row)?;
            }
            changes.set_busy(false)?;
        }
        let state = writing.index.state()?;
        if self.finished && state.removed > WORTH_REBUILDING && state.removed > state.committed / 2 {
            session.rebuild(&top)?;
        }
        Ok(())
    }
}

/// A mailbox from which messages are being removed.
struct Mailbox {
    row: Row,
    dir: Option<Dir>,
    in_step: bool,
}

impl Mailbox {
    fn open(session: &Session, top: &Dir, row: Row) -> Result<Mailbox> {
        let (parent, name, _) = layout::target_dir(&row.target);
        let fs = session.fs();
        // Only a mailbox that is gone has nothing to remove; any other failure must not be told as a removal.
        let dir = match fs.open_dir(top, parent).and_then(|dir| fs.open_dir(&dir, name)) {
            Ok(dir) => Some(dir),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::io(format!(".fmail/{parent}/{name} cannot be opened"), &error)),
        };
        let stamp = dir.as_ref().and_then(|dir| fs.stat_dir(dir).ok()).map(|stat| stat.modified);
        let in_step = stamp == Some(row.stamp);
        Ok(Mailbox { row, dir, in_step })
    }

    fn unlink(&mut self, session: &Session, entry: &Entry) -> Result<()> {
        if let Some(dir) = &self.dir {
            match session.fs().unlink(dir, &layout::file_name(entry.id)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    let place = layout::place(&self.row.target, entry.id);
                    return Err(Error::io(format!(".fmail/{place} cannot be removed"), &error));
                }
                _ => {}
            }
        }
        self.row.live = self.row.live.saturating_sub(1);
        Ok(())
    }

    fn stamp(&mut self, session: &Session) {
        let stat = self.dir.as_ref().and_then(|dir| session.fs().stat_dir(dir).ok());
        own_change(&mut self.row, self.in_step, stat.map_or(0, |stat| stat.modified), session.now());
    }
}

fn removed(entry: &Entry, target: Target) -> Removed {
    let place = layout::place(&target, entry.id);
    Removed { id: entry.id, target, place }
}
