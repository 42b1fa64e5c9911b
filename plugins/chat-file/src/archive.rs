//! Moving the oldest messages of a file to an archive.
//!
//! `echo >>` knows no lock, so a writer may come at any moment. What is promised:
//!
//! * A message is durable in the archive before it leaves the file, and the file is exchanged in one step (`rename`):
//!   there is always a file of this name, and it is whole.
//! * A writer that opens the file, writes and closes it loses nothing. Before the exchange its line is copied; one that had
//!   the old file open during the exchange wrote there, and what it wrote is brought over behind it. The old file keeps a
//!   name until that is done and nobody has it open, so that a crash in between loses nothing either: the next archiving
//!   finishes it.
//! * A process that *keeps* the file open for writing would go on writing to the old one. Where the kernel tells who has
//!   what open (`/proc`), such a process is a reason to refuse.
//!
//! What stands above the first message stays in the file; everything below a message goes with it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fmail_api::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, flock};

use crate::append::{Appender, Options};
use crate::join::Joiner;
use crate::lock::{Identity, Locked};
use crate::writers::writers;

/// How long somebody may have the file open before he counts as one who keeps it open.
const PASSING: Duration = Duration::from_secs(1);
/// How long late writers are waited for.
const LATE: Duration = Duration::from_secs(10);
/// How often it is looked who has the file open.
const LOOK: Duration = Duration::from_millis(20);

/// Which messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All but the last so many.
    AllBut(u64),
    /// The first so many.
    First(u64),
}

/// What was moved, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
    /// How many messages.
    pub moved: u64,
    /// How many stay.
    pub kept: u64,
    /// Where they are now; nothing when there were none, or it was only asked.
    pub archive: Option<PathBuf>,
    /// How many bytes came late and were brought over.
    pub late: u64,
    /// Who still has the old file open, against all expectation: what it writes from now on is brought over by the next
    /// archiving.
    pub still_open: Option<String>,
}

/// What to do.
#[derive(Debug, Clone)]
pub struct Job<'a> {
    /// The chat file.
    pub file: &'a Path,
    /// The directory of the archives.
    pub into: &'a Path,
    /// What makes the archive's name: `chat-<stamp>.md`.
    pub stamp: &'a str,
    /// Which messages go.
    pub which: Which,
    /// Only tell.
    pub dry_run: bool,
    /// How long to wait for the file's lock.
    pub timeout: Duration,
}

/// Where the file is divided.
struct Cut {
    /// Where the first message begins.
    first: u64,
    /// Where the first message that stays begins.
    at: u64,
    /// How much of the file was looked at.
    end: u64,
    moved: u64,
    kept: u64,
}

/// Moves messages to the archive.
pub fn archive(job: &Job<'_>) -> Result<Archived> {
    let none = |cut: &Cut| Archived { moved: cut.moved, kept: cut.kept, archive: None, late: 0, still_open: None };
    if job.dry_run {
        let file = File::open(job.file).map_err(|error| failed(job.file, "be opened", &error))?;
        return Ok(none(&cut(job, &file)?));
    }
    fs::create_dir_all(job.into).map_err(|error| failed(job.into, "be made", &error))?;
    let turn = File::open(job.into).map_err(|error| failed(job.into, "be opened", &error))?;
    if let Err(error) = flock(&turn, FlockOperation::NonBlockingLockExclusive) {
        let text = format!("another archiving into {} is under way ({error})", job.into.display());
        return Err(Error::new(ErrorKind::Backpressure, text).help("try again when it has ended"));
    }
    let brought = settle(job)?;
    let locked = Locked::open(job.file, false, job.timeout)?;
    let cut = cut(job, locked.file())?;
    if cut.moved == 0 {
        return Ok(Archived { late: brought, ..none(&cut) });
    }
    refuse_keepers(job.file, locked.identity())?;
    let names = Names::new(job, cut.end, cut.first + (cut.end - cut.at))?;
    let archive = exchange(job, &locked, &cut, &names)?;
    // Those who wait for the lock have the old file open, and turn to the new one as soon as they get it.
    let identity = locked.identity();
    drop(locked);
    let (late, still_open) = bring_over(job, &names, identity)?;
    Ok(Archived { archive: Some(archive), late: brought + late, still_open, ..none(&cut) })
}

/// Finds where to divide the file.
fn cut(job: &Job<'_>, mut file: &File) -> Result<Cut> {
    let read_failed = |error: io::Error| failed(job.file, "be read", &error);
    file.seek(SeekFrom::Start(0)).map_err(read_failed)?;
    let (mut reader, mut joiner) = (BufReader::new(file), Joiner::new(1));
    let (mut starts, mut line, mut end, mut number) = (Vec::new(), Vec::new(), 0, 0);
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(read_failed)?;
        // A last line without its end may be in the making: it stays.
        if length == 0 || !line.ends_with(b"\n") {
            break;
        }
        number += 1;
        starts.extend(joiner.push(number, end, &line).map(|entry| entry.offset));
        end += length as u64;
    }
    starts.extend(joiner.finish().map(|entry| entry.offset));
    let total = starts.len() as u64;
    let moved = match job.which {
        Which::AllBut(kept) => total.saturating_sub(kept),
        Which::First(moved) => moved.min(total),
    };
    let at = usize::try_from(moved).ok().and_then(|moved| starts.get(moved)).copied().unwrap_or(end);
    Ok(Cut { first: starts.first().copied().unwrap_or(end), at, end, moved, kept: total - moved })
}

/// The names of what is there while messages are moved.
struct Names {
    /// The old file, until nobody has it open. Its name says how much of it was copied.
    old: PathBuf,
    /// The new file, before it has its name.
    new: PathBuf,
    /// The archive, before it has its name.
    part: PathBuf,
    archive: PathBuf,
    copied: u64,
}

fn hidden(file: &Path, what: &str) -> PathBuf {
    file.with_file_name(format!(".{}.{what}", file.file_name().unwrap_or_default().to_string_lossy()))
}

impl Names {
    fn new(job: &Job<'_>, copied: u64, length: u64) -> Result<Names> {
        let stem = job.file.file_stem().unwrap_or_default().to_string_lossy();
        let name = (0..1000)
            .map(|number| match number {
                0 => format!("{stem}-{}.md", job.stamp),
                number => format!("{stem}-{}-{number}.md", job.stamp),
            })
            .find(|name| !job.into.join(name).exists())
            .ok_or_else(|| Error::internal("no name is left for the archive"))?;
        Ok(Names {
            old: hidden(job.file, &format!("archiving-{copied}-{length}")),
            new: hidden(job.file, "archiving-new"),
            part: job.into.join(format!(".{name}.part")),
            archive: job.into.join(name),
            copied,
        })
    }
}

/// Copies, and exchanges the file.
fn exchange(job: &Job<'_>, locked: &Locked, cut: &Cut, names: &Names) -> Result<PathBuf> {
    let mode = locked.file().metadata().map_or(0o600, |metadata| metadata.permissions().mode() & 0o777);
    let copy = |to: &Path, ranges: &[(u64, u64)]| -> io::Result<()> {
        let mut target = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(to)?;
        for (from, end) in ranges {
            let mut source = locked.file();
            source.seek(SeekFrom::Start(*from))?;
            io::copy(&mut source.take(end - from), &mut target)?;
        }
        target.sync_all()
    };
    copy(&names.part, &[(cut.first, cut.at)]).map_err(|error| failed(&names.part, "be written", &error))?;
    sync_directory(job.into)?;
    copy(&names.new, &[(0, cut.first), (cut.at, cut.end)]).map_err(|error| failed(&names.new, "be written", &error))?;
    fs::hard_link(job.file, &names.old).map_err(|error| failed(&names.old, "be linked", &error))?;
    sync_directory(parent(job.file))?;
    fs::rename(&names.new, job.file).map_err(|error| failed(job.file, "be exchanged", &error))?;
    sync_directory(parent(job.file))?;
    fs::rename(&names.part, &names.archive).map_err(|error| failed(&names.archive, "be named", &error))?;
    sync_directory(job.into)?;
    Ok(names.archive.clone())
}

/// Waits until nobody has the old file open, brings over what was written to it late, and lets go of it.
fn bring_over(job: &Job<'_>, names: &Names, identity: Identity) -> Result<(u64, Option<String>)> {
    let still_open = still(identity, LATE);
    let read_failed = |error: io::Error| failed(&names.old, "be read", &error);
    let mut old = File::open(&names.old).map_err(read_failed)?;
    old.seek(SeekFrom::Start(names.copied)).map_err(read_failed)?;
    let mut late = Vec::new();
    old.read_to_end(&mut late).map_err(read_failed)?;
    append_raw(job, &late)?;
    let copied = names.copied + late.len() as u64;
    match &still_open {
        // The name says how much is done, and the next archiving goes on from there.
        Some(_) => {
            let length = fs::metadata(job.file).map_or(0, |metadata| metadata.len());
            let next = hidden(job.file, &format!("archiving-{copied}-{length}"));
            fs::rename(&names.old, &next).map_err(|error| failed(&next, "be named", &error))?;
        }
        None => fs::remove_file(&names.old).map_err(|error| failed(&names.old, "be removed", &error))?,
    }
    Ok((late.len() as u64, still_open))
}

fn append_raw(job: &Job<'_>, late: &[u8]) -> Result<()> {
    if late.is_empty() {
        return Ok(());
    }
    let options = Options { timeout: job.timeout, ..Options::default() };
    Appender::new(job.file, options).append_lines(late)
}

/// Finishes what an archiving that was killed has left. Gives how many bytes were brought over.
fn settle(job: &Job<'_>) -> Result<u64> {
    let prefix = hidden(job.file, "archiving-");
    let prefix = prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let list_failed = |error: io::Error| failed(parent(job.file), "be listed", &error);
    let mut brought = 0;
    for entry in fs::read_dir(parent(job.file)).map_err(list_failed)? {
        let name = entry.map_err(list_failed)?.file_name().to_string_lossy().into_owned();
        let numbers = name.strip_prefix(&prefix).and_then(|rest| rest.split_once('-'));
        let Some((copied, length)) = numbers.and_then(|(one, two)| Some((one.parse().ok()?, two.parse().ok()?))) else {
            continue;
        };
        let old = parent(job.file).join(name);
        let metadata = fs::metadata(&old).map_err(|error| failed(&old, "be looked at", &error))?;
        let exchanged = fs::metadata(job.file).map_or(true, |now| Identity::of(&now) != Identity::of(&metadata));
        let names = Names { old, copied, ..Names::new(job, copied, length)? };
        if !exchanged {
            fs::remove_file(&names.old).map_err(|error| failed(&names.old, "be removed", &error))?;
            for part in parts(job.into)? {
                fs::remove_file(&part).map_err(|error| failed(&part, "be removed", &error))?;
            }
            continue;
        }
        for part in parts(job.into)? {
            let name = part.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let whole = job.into.join(name.trim_start_matches('.').trim_end_matches(".part"));
            fs::rename(&part, &whole).map_err(|error| failed(&whole, "be named", &error))?;
        }
        if is_brought(job.file, &names, length)? {
            fs::remove_file(&names.old).map_err(|error| failed(&names.old, "be removed", &error))?;
            continue;
        }
        brought += bring_over(job, &names, Identity::of(&metadata))?.0;
    }
    Ok(brought)
}

/// Whether what came late stands in the file already: killed right behind it, we would bring it over again.
fn is_brought(file: &Path, names: &Names, length: u64) -> Result<bool> {
    let tail = |path: &Path, from: u64| -> Result<Vec<u8>> {
        let read_failed = |error: io::Error| failed(path, "be read", &error);
        let mut file = File::open(path).map_err(read_failed)?;
        file.seek(SeekFrom::Start(from)).map_err(read_failed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(read_failed)?;
        Ok(bytes)
    };
    let late = tail(&names.old, names.copied)?;
    let since = tail(file, length)?;
    Ok(!late.is_empty() && memchr::memmem::find(&since, late.trim_ascii_end()).is_some())
}

/// The archives that have no name yet.
fn parts(directory: &Path) -> Result<Vec<PathBuf>> {
    let list_failed = |error: io::Error| failed(directory, "be listed", &error);
    let mut parts = Vec::new();
    for entry in fs::read_dir(directory).map_err(list_failed)? {
        let path = entry.map_err(list_failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') && name.ends_with(".md.part") {
            parts.push(path.clone());
        }
    }
    Ok(parts)
}

/// Refuses while a process keeps the file open for writing.
fn refuse_keepers(path: &Path, identity: Identity) -> Result<()> {
    match still(identity, PASSING) {
        None => Ok(()),
        Some(who) => {
            let text =
                format!("{} is kept open for writing by {who}; its lines would go to the archive", path.display());
            Err(Error::new(ErrorKind::Unavailable, text)
                .help("end it, or have it open the file for each line, as `echo >>` does"))
        }
    }
}

/// Waits until no other process has the file open for writing, seen twice; tells who has when the time is over.
fn still(identity: Identity, patience: Duration) -> Option<String> {
    let end = Instant::now() + patience;
    let mut free = 0;
    loop {
        match writers(identity) {
            None => {
                free += 1;
                if free == 2 {
                    return None;
                }
            }
            Some(who) if Instant::now() >= end => return Some(who),
            Some(_) => free = 0,
        }
        std::thread::sleep(LOOK);
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sync_directory(path: &Path) -> Result<()> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(|error| failed(path, "be made durable", &error))
}

fn failed(path: &Path, what: &str, error: &io::Error) -> Error {
    Error::io(format!("{} cannot {what}", path.display()), error)
}
