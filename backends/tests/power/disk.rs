//! What a power cut may leave: the model of a file system between two syncs.
//!
//! The promises that the model keeps are the few that ext4, xfs and btrfs all make:
//!
//! * `fdatasync` of a file returns when the content and the length that the file had at its call are on the disk. It says
//!   nothing about the file's names (ext4 happens to write them too, btrfs and xfs need not).
//! * `fsync` of a directory returns when the names that were in it at its call are on the disk. It says nothing about what
//!   these names stand for: a file may be empty behind its name, and a directory may lack what was put into it.
//! * A name stands for the old thing or for the new one, never for half of it.
//! * What was read after a start of the machine is on the disk.
//!
//! Everything else may or may not have happened, each on its own, in any order:
//!
//! * Every name may show any thing that it stood for since its directory was last synced. Journals write whole
//!   transactions, but which of them got out, and what a log of single files (btrfs) put out of turn, is not ours to
//!   know; and a later version of any of them may do it differently. So no order is assumed between two names, not even
//!   between the two of a rename.
//! * Content that was not synced may be missing (delayed allocation: the name is there, the file has 0 bytes), zeroes (the
//!   length is written before the blocks: xfs, ext4 in mode `writeback`), cut short, or new in some sectors and old in
//!   others, also where writes followed each other (a disk writes sectors of 512 bytes, whole, in its own order).
//! * A directory whose name was lost takes everything in it along, also what was synced.
//!
//! What is left out: sectors that are written and read back as something else, disks that say a flush is done when it is
//! not, and file systems that lose what they have synced.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::common::Random;
use crate::recording::{Action, Node};

/// What a disk writes whole.
const SECTOR: usize = 512;

/// A file or a directory, with everything that it may be found as.
#[derive(Clone)]
enum Thing {
    /// Every name with what it has stood for: first what is on the disk for sure, last what it stands for now.
    Directory { mode: u32, names: BTreeMap<String, Vec<Option<Node>>> },
    /// The content that is on the disk for sure, and what was done to it since.
    File { mode: u32, synced: Vec<u8>, since: Vec<Change> },
}

/// A change to a file's content.
#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { size: usize },
}

/// The disk of a machine that runs.
#[derive(Clone)]
pub struct Disk {
    things: BTreeMap<Node, Thing>,
    root: Node,
}

/// Something that the power cut decides.
enum Variable {
    Name { dir: Node, name: String, options: Vec<Option<Node>> },
    Content { node: Node, options: Vec<Vec<u8>> },
}

impl Variable {
    fn len(&self) -> usize {
        match self {
            Variable::Name { options, .. } => options.len(),
            Variable::Content { options, .. } => options.len(),
        }
    }

    fn is_name(&self) -> bool {
        matches!(self, Variable::Name { .. })
    }
}

/// One way in which a disk may be found after a power cut.
pub struct Image {
    entries: BTreeMap<Vec<String>, Found>,
}

enum Found {
    Directory { mode: u32 },
    File { mode: u32, node: Node, content: Vec<u8> },
}

impl Disk {
    /// A disk on which everything below `path` is safe, and which thing has which number there.
    pub fn found_at(path: &Path) -> (Disk, BTreeMap<(u64, u64), Node>) {
        let mut disk = Disk { things: BTreeMap::new(), root: 0 };
        let mut numbers = BTreeMap::new();
        disk.take_in(path, &mut numbers);
        (disk, numbers)
    }

    fn take_in(&mut self, path: &Path, numbers: &mut BTreeMap<(u64, u64), Node>) -> Node {
        let about = std::fs::symlink_metadata(path).unwrap();
        let next = numbers.len();
        let node = *numbers.entry((about.dev(), about.ino())).or_insert(next);
        let mode = about.permissions().mode() & 0o777;
        let thing = if about.is_dir() {
            let below = |entry: std::io::Result<std::fs::DirEntry>| {
                let entry = entry.unwrap();
                (entry.file_name().into_string().unwrap(), vec![Some(self.take_in(&entry.path(), numbers))])
            };
            Thing::Directory { mode, names: std::fs::read_dir(path).unwrap().map(below).collect() }
        } else {
            Thing::File { mode, synced: std::fs::read(path).unwrap(), since: Vec::new() }
        };
        self.things.insert(node, thing);
        node
    }

    /// Follows what the machine does.
    pub fn apply(&mut self, action: &Action) {
        match action {
            Action::MakeDir { dir, name, node, mode } => {
                self.things.insert(*node, Thing::Directory { mode: *mode, names: BTreeMap::new() });
                self.name(*dir, name, Some(*node));
            }
            Action::Create { dir, name, node, mode } => {
                self.things.insert(*node, Thing::File { mode: *mode, synced: Vec::new(), since: Vec::new() });
                self.name(*dir, name, Some(*node));
            }
            Action::CreateUnnamed { node, mode } => {
                self.things.insert(*node, Thing::File { mode: *mode, synced: Vec::new(), since: Vec::new() });
            }
            Action::Link { node, dir, name } => self.name(*dir, name, Some(*node)),
            Action::Unlink { dir, name } => self.name(*dir, name, None),
            Action::Rename { node, from, old, dir, name } => {
                self.name(*dir, name, Some(*node));
                self.name(*from, old, None);
            }
            Action::Write { node, offset, bytes } => {
                self.change(*node, Change::Write { offset: *offset as usize, bytes: bytes.clone() });
            }
            Action::Truncate { node, size } => self.change(*node, Change::Truncate { size: *size as usize }),
            Action::SyncData { node } => {
                if let Some(Thing::File { synced, since, .. }) = self.things.get_mut(node) {
                    since.drain(..).for_each(|change| change.apply(synced));
                }
            }
            Action::SyncAll => {
                for thing in self.things.values_mut() {
                    match thing {
                        Thing::File { synced, since, .. } => since.drain(..).for_each(|change| change.apply(synced)),
                        Thing::Directory { names, .. } => {
                            names.values_mut().for_each(|versions| drop(versions.drain(..versions.len() - 1)));
                        }
                    }
                }
            }
            Action::SyncDir { node } => {
                if let Some(Thing::Directory { names, .. }) = self.things.get_mut(node) {
                    names.values_mut().for_each(|versions| drop(versions.drain(..versions.len() - 1)));
                }
            }
            Action::Begun(_) | Action::Answered(_) => {}
        }
    }

    fn name(&mut self, dir: Node, name: &str, stands_for: Option<Node>) {
        let Some(Thing::Directory { names, .. }) = self.things.get_mut(&dir) else { panic!("{dir} is no directory") };
        names.entry(name.to_string()).or_insert_with(|| vec![None]).push(stands_for);
    }

    fn change(&mut self, node: Node, change: Change) {
        let Some(Thing::File { since, .. }) = self.things.get_mut(&node) else { panic!("{node} is no file") };
        since.push(change);
    }

    /// Up to `most` of the ways in which the disk may be found now: all of them when they are so few. Otherwise the plain
    /// ones first (nothing or everything that was not synced is there), then each single thing that is otherwise, then what
    /// chance gives.
    pub fn after_a_power_cut(&self, most: usize, random: &mut Random) -> Vec<Image> {
        let variables = self.variables(random);
        let count = variables.iter().try_fold(1_usize, |count, variable| count.checked_mul(variable.len()));
        let picks = match count {
            Some(count) if count <= most => (0..count).map(|number| nth(&variables, number)).collect(),
            _ => some(&variables, most, random),
        };
        picks.into_iter().map(|pick| self.image(&variables, &pick)).collect()
    }

    fn variables(&self, random: &mut Random) -> Vec<Variable> {
        let mut variables = Vec::new();
        let mut named = BTreeSet::new();
        for (dir, thing) in &self.things {
            let Thing::Directory { names, .. } = thing else { continue };
            for (name, versions) in names {
                named.extend(versions.iter().flatten().copied());
                // The oldest first and the newest last, whatever came back in between.
                let newest = versions[versions.len() - 1];
                let mut options = vec![versions[0]];
                versions[1..].iter().for_each(|version| {
                    if *version != newest && !options.contains(version) {
                        options.push(*version);
                    }
                });
                if options != [newest] {
                    options.push(newest);
                }
                if options.len() > 1 {
                    variables.push(Variable::Name { dir: *dir, name: name.clone(), options });
                }
            }
        }
        for node in named {
            let Some(Thing::File { synced, since, .. }) = self.things.get(&node) else { continue };
            if !since.is_empty() {
                let options = contents(synced, since, random);
                variables.push(Variable::Content { node, options });
            }
        }
        variables
    }

    fn image(&self, variables: &[Variable], pick: &[usize]) -> Image {
        let mut names: BTreeMap<(Node, &str), Option<Node>> = BTreeMap::new();
        let mut contents: BTreeMap<Node, &[u8]> = BTreeMap::new();
        for (variable, choice) in variables.iter().zip(pick) {
            match variable {
                Variable::Name { dir, name, options } => drop(names.insert((*dir, name), options[*choice])),
                Variable::Content { node, options } => drop(contents.insert(*node, &options[*choice])),
            }
        }
        let mut image = Image { entries: BTreeMap::new() };
        let mut unseen = vec![(Vec::new(), self.root)];
        while let Some((path, node)) = unseen.pop() {
            match &self.things[&node] {
                Thing::Directory { mode, names: all } => {
                    image.entries.insert(path.clone(), Found::Directory { mode: *mode });
                    for (name, versions) in all {
                        let sure = versions[versions.len() - 1];
                        let stands_for = names.get(&(node, name.as_str())).copied().unwrap_or(sure);
                        let below = path.iter().cloned().chain([name.clone()]).collect();
                        unseen.extend(stands_for.map(|node| (below, node)));
                    }
                }
                Thing::File { mode, synced, .. } => {
                    let content = contents.get(&node).map_or(synced.clone(), |content| content.to_vec());
                    image.entries.insert(path, Found::File { mode: *mode, node, content });
                }
            }
        }
        image
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Change::Truncate { size } => content.resize(*size, 0),
            Change::Write { offset, bytes } => {
                let end = offset + bytes.len();
                content.resize(content.len().max(end), 0);
                content[*offset..end].copy_from_slice(bytes);
            }
        }
    }
}

/// As what a file may be found, the oldest first and the newest last.
fn contents(synced: &[u8], since: &[Change], random: &mut Random) -> Vec<Vec<u8>> {
    let mut newest = synced.to_vec();
    since.iter().for_each(|change| change.apply(&mut newest));
    let mut zeroes = synced.to_vec();
    zeroes.resize(newest.len(), 0);
    let half = newest[..synced.len().min(newest.len()) + newest.len().saturating_sub(synced.len()) / 2].to_vec();
    let mut options = vec![synced.to_vec()];
    for option in [zeroes, half, in_part(synced, since, random), in_part(synced, since, random)] {
        if option != newest && !options.contains(&option) {
            options.push(option);
        }
    }
    if options != [newest.clone()] {
        options.push(newest);
    }
    options
}

/// Of each change some sectors.
fn in_part(synced: &[u8], since: &[Change], random: &mut Random) -> Vec<u8> {
    let mut content = synced.to_vec();
    for change in since {
        match change {
            Change::Truncate { .. } if random.below(2) == 0 => change.apply(&mut content),
            Change::Truncate { .. } => {}
            Change::Write { offset, bytes } => {
                let mut from = *offset;
                while from < offset + bytes.len() {
                    let to = ((from / SECTOR + 1) * SECTOR).min(offset + bytes.len());
                    if random.below(2) == 0 {
                        Change::Write { offset: from, bytes: bytes[from - offset..to - offset].to_vec() }
                            .apply(&mut content);
                    }
                    from = to;
                }
            }
        }
    }
    content
}

/// One of all combinations.
fn nth(variables: &[Variable], mut number: usize) -> Vec<usize> {
    let digit = |variable: &Variable| {
        let digit = number % variable.len();
        number /= variable.len();
        digit
    };
    variables.iter().map(digit).collect()
}

/// Some of the combinations.
fn some(variables: &[Variable], most: usize, random: &mut Random) -> Vec<Vec<usize>> {
    let pick = |names: usize, data: usize| -> Vec<usize> {
        let choice = |variable: &Variable| if variable.is_name() { names } else { data }.min(variable.len() - 1);
        variables.iter().map(choice).collect()
    };
    const NEWEST: usize = usize::MAX;
    let plain = [pick(0, 0), pick(NEWEST, NEWEST), pick(NEWEST, 0), pick(NEWEST, 1), pick(0, NEWEST)];
    let mut single = Vec::new();
    for base in [&plain[0], &plain[1]] {
        for (at, variable) in variables.iter().enumerate() {
            for choice in (0..variable.len()).filter(|choice| *choice != base[at]) {
                let mut pick = base.clone();
                pick[at] = choice;
                single.push(pick);
            }
        }
    }
    for at in (1..single.len()).rev() {
        single.swap(at, random.below(at as u64 + 1) as usize);
    }
    // Half of the room is for chance.
    single.truncate(most / 2);
    let mut picks: Vec<Vec<usize>> = plain.into_iter().chain(single).take(most).collect();
    while picks.len() < most {
        let choice = |variable: &Variable| match random.below(3) {
            0 => 0,
            1 => variable.len() - 1,
            _ => random.below(variable.len() as u64) as usize,
        };
        picks.push(variables.iter().map(choice).collect());
    }
    picks
}

impl Image {
    /// Equal for images that are found alike.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (path, found) in &self.entries {
            path.hash(&mut hasher);
            if let Found::File { node, content, .. } = found {
                (node, content).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    /// Puts everything into an empty directory.
    pub fn write_to(&self, root: &Path) {
        let mut first: BTreeMap<Node, &Vec<String>> = BTreeMap::new();
        let place = |path: &[String]| path.iter().fold(root.to_path_buf(), |place, name| place.join(name));
        for (path, found) in self.entries.iter().filter(|(path, _)| !path.is_empty()) {
            match found {
                Found::Directory { mode } => std::fs::DirBuilder::new().mode(*mode).create(place(path)).unwrap(),
                Found::File { node, .. } if first.contains_key(node) => {
                    std::fs::hard_link(place(first[node]), place(path)).unwrap();
                }
                Found::File { mode, node, content } => {
                    use std::io::Write;
                    first.insert(*node, path);
                    let mut options = std::fs::OpenOptions::new();
                    let mut file = options.write(true).create_new(true).mode(*mode).open(place(path)).unwrap();
                    file.write_all(content).unwrap();
                }
            }
        }
    }

    /// What is there, a line each, for a person who looks for the reason of a failure.
    pub fn describe(&self) -> String {
        let line = |(path, found): (&Vec<String>, &Found)| match found {
            Found::Directory { .. } => format!("  {}/", path.join("/")),
            Found::File { node, content, .. } => {
                let zeroes = content.iter().all(|byte| *byte == 0) && !content.is_empty();
                let what = if zeroes { "zeroes" } else { "bytes" };
                format!("  {} (file {node}, {} {what})", path.join("/"), content.len())
            }
        };
        self.entries.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}
