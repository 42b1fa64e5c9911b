//! What was recorded: everything that was done to a disk, in order, with what was begun and answered.

use std::collections::{BTreeSet, HashMap};

use crate::account::{Answer, Deed};
use crate::disk::Disk;
use crate::sites::Site;

/// What a file system keeps track of.
const BLOCK: u64 = 4096;

/// A file or directory, by a number that is never used twice.
pub type Node = usize;

/// One thing that was done.
#[derive(Clone)]
pub enum Action {
    MakeDir {
        dir: Node,
        name: String,
        node: Node,
        mode: u32,
    },
    Create {
        dir: Node,
        name: String,
        node: Node,
        mode: u32,
    },
    /// A file that no name stands for.
    CreateUnnamed {
        node: Node,
        mode: u32,
    },
    Link {
        node: Node,
        dir: Node,
        name: String,
    },
    Unlink {
        dir: Node,
        name: String,
    },
    Rename {
        node: Node,
        from: Node,
        old: String,
        dir: Node,
        name: String,
    },
    Write {
        node: Node,
        offset: u64,
        bytes: Vec<u8>,
    },
    Truncate {
        node: Node,
        size: u64,
    },
    SyncData {
        node: Node,
    },
    SyncDir {
        node: Node,
    },
    /// Everything on the disk is synced.
    SyncAll,
    /// Somebody has asked for this.
    Begun(Deed),
    /// This was answered: from here on it is promised.
    Answered(Answer),
}

/// What was recorded: the disk at the beginning, and what was done to it.
pub struct Recording {
    pub before: Disk,
    pub actions: Vec<Action>,
    /// Power cuts before this action are of no interest.
    pub from: usize,
    /// The syncs that were seen.
    pub sites: BTreeSet<Site>,
}

impl Recording {
    /// What was done last, and what before it, for a person who looks for the reason of a failure.
    pub fn describe(&self, number: usize) -> String {
        let text = |action: &Action| match action {
            Action::MakeDir { dir, name, node, .. } => format!("make {name} ({node}) in {dir}"),
            Action::Create { dir, name, node, .. } => format!("create {name} ({node}) in {dir}"),
            Action::CreateUnnamed { node, .. } => format!("create {node} without a name"),
            Action::Link { node, dir, name } => format!("link {node} as {name} in {dir}"),
            Action::Unlink { dir, name } => format!("unlink {name} in {dir}"),
            Action::Rename { node, from, old, dir, name } => {
                format!("rename {node} {old} in {from} to {name} in {dir}")
            }
            Action::Write { node, offset, bytes } => format!("write {} bytes at {offset} of {node}", bytes.len()),
            Action::Truncate { node, size } => format!("truncate {node} to {size}"),
            Action::SyncData { node } => format!("sync file {node}"),
            Action::SyncDir { node } => format!("sync directory {node}"),
            Action::SyncAll => "sync everything".into(),
            Action::Begun(_) => "something is begun".into(),
            Action::Answered(_) => "it is answered".into(),
        };
        let first = number.saturating_sub(30);
        let before: Vec<String> = self.actions[first..=number].iter().map(text).collect();
        format!("action {number}:\n  {}", before.join("\n  "))
    }
}

impl Recording {
    /// Every sync of the journal in its place is a write of blocks that are there and were written before, and nothing else:
    /// otherwise it is a commit of the file system, which the journal is there to avoid.
    pub fn journal_is_written_in_place(&self) -> Result<(), String> {
        let mut journals: HashMap<Node, Blocks> = HashMap::new();
        for (number, action) in self.actions.iter().enumerate() {
            match action {
                Action::Create { name, node, .. } if name == "journal" => {
                    drop(journals.insert(*node, Blocks::default()))
                }
                Action::Rename { node, name, .. } if name == "journal" => {
                    journals.entry(*node).and_modify(|blocks| blocks.in_place = true);
                }
                Action::Write { node, offset, bytes } if !bytes.is_empty() => {
                    let written = offset / BLOCK..(offset + bytes.len() as u64).div_ceil(BLOCK);
                    journals.entry(*node).and_modify(|blocks| blocks.written.extend(written));
                }
                Action::SyncData { node } => {
                    let Some(blocks) = journals.get_mut(node) else { continue };
                    let new = blocks.written.iter().any(|block| !blocks.synced.contains(block));
                    if blocks.in_place && new {
                        let done = self.describe(number);
                        return Err(format!("a sync of the journal was a commit of the file system: {done}"));
                    }
                    blocks.synced.append(&mut blocks.written);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The blocks of a journal.
#[derive(Default)]
struct Blocks {
    in_place: bool,
    written: BTreeSet<u64>,
    synced: BTreeSet<u64>,
}
