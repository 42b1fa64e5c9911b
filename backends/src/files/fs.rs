//! The seam to the file system. Everything that the files store does to a disk goes through [`Fs`], so that a test can
//! make any single operation fail and can record what a power cut would leave.
//!
//! Names are single components and directories are handles: no path is ever resolved by the kernel below `.fmail/`, so
//! that a symlink inside it, planted by a clone or a peer, leads nowhere.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use fmail_api::{Error, ErrorKind};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, Statx, StatxFlags};
use rustix::io::Errno;

/// An open directory. Copies share the handle.
#[derive(Clone)]
pub struct Dir(Arc<OwnedFd>);

impl From<OwnedFd> for Dir {
    fn from(handle: OwnedFd) -> Self {
        Dir(Arc::new(handle))
    }
}

impl Dir {
    /// The descriptor's number under `/proc/self/fd`, for interfaces that take only a path.
    pub fn proc_path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// For reading; it has to be there.
    Read,
    /// For reading and writing; it has to be there.
    ReadWrite,
    /// For writing; it must not be there. With these permissions, less what the umask takes.
    CreateNew(u32),
    /// For reading and writing, created with these permissions when missing.
    Create(u32),
}

/// What kind of thing a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; never followed.
    Symlink,
    /// Anything else: a socket, a pipe, a device.
    Other,
}

/// What is known of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// The file system that it is on.
    pub device: u64,
    /// Which one it is, on its file system.
    pub inode: u64,
    /// How many names it has.
    pub links: u64,
    /// Its size in bytes.
    pub size: u64,
    /// When its content changed, in nanoseconds since 1970.
    pub modified: u64,
    /// Who owns it.
    pub owner: u32,
}

impl Stat {
    /// Which one it is.
    pub fn identity(&self) -> Identity {
        Identity { kind: self.kind, device: self.device, inode: self.inode, size: self.size }
    }
}

/// Which file or directory one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// What it is.
    pub kind: Kind,
    /// The file system that it is on.
    pub device: u64,
    /// Which one it is, on its file system.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
}

impl Identity {
    /// Whether two looks were at the same one. What is held open cannot have given its number to another.
    pub fn is_same(&self, other: &Identity) -> bool {
        (self.device, self.inode, self.kind) == (other.device, other.inode, other.kind)
    }
}

/// Every operation on the file system that the files store uses.
pub trait Fs: Send + Sync {
    /// Opens `name` in the directory at `path`; only the last step must not be a symlink.
    fn open_top(&self, path: &Path, name: &str) -> io::Result<Dir>;
    /// Creates a directory `name` in the directory at `path`, unless it is there.
    fn make_top(&self, path: &Path, name: &str) -> io::Result<()>;
    /// Makes the names in the directory at `path` durable.
    fn sync_top(&self, path: &Path) -> io::Result<()>;
    /// What `name` in the directory at `path` is, without following a symlink.
    fn stat_top(&self, path: &Path, name: &str) -> io::Result<Stat>;
    /// Opens a directory.
    fn open_dir(&self, at: &Dir, name: &str) -> io::Result<Dir>;
    /// Creates a directory with these permissions.
    fn make_dir(&self, at: &Dir, name: &str, mode: u32) -> io::Result<()>;
    /// Calls `each` with every name in a directory, `.` and `..` apart, until it returns false.
    fn list(&self, dir: &Dir, each: &mut dyn FnMut(&str, Kind) -> bool) -> io::Result<()>;
    /// What is known of an open directory.
    fn stat_dir(&self, dir: &Dir) -> io::Result<Stat>;
    /// What is known of a name, without following it.
    fn stat(&self, at: &Dir, name: &str) -> io::Result<Stat>;
    /// Which file or directory a name stands for, without following it.
    ///
    /// For what is asked again and again of a file that is being written: whoever looks at a file's times makes the kernel
    /// note a finer one with its next write, and the next sync of that file then waits for its inode too.
    fn identity(&self, at: &Dir, name: &str) -> io::Result<Identity> {
        Ok(self.stat(at, name)?.identity())
    }
    /// The size of an open file, without looking at its times.
    fn size(&self, file: &File) -> io::Result<u64> {
        Ok(self.stat_file(file)?.size)
    }
    /// Opens a file; a symlink is an error.
    fn open(&self, at: &Dir, name: &str, how: Open) -> io::Result<File>;
    /// What is known of an open file.
    fn stat_file(&self, file: &File) -> io::Result<Stat>;
    /// Reads at an offset until the buffer is full or the file ends.
    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of it at an offset.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts or extends a file.
    fn truncate(&self, file: &File, size: u64) -> io::Result<()>;
    /// Makes a file's content durable.
    fn sync_data(&self, file: &File) -> io::Result<()>;
    /// Tells the disk to begin with a part of a file that will be made durable soon. Nothing depends on it.
    fn begin_sync(&self, _file: &File, _offset: u64, _length: u64) {}
    /// Makes a directory's names durable.
    fn sync_dir(&self, dir: &Dir) -> io::Result<()>;
    /// Makes everything durable that the file system of a directory holds, of other programs too.
    fn sync_all(&self, dir: &Dir) -> io::Result<()>;
    /// Creates a file without a name on the file system of a directory, for writing, with these permissions. It is gone with its
    /// last handle unless it is given a name. Not every file system can do that. Who watches the directory is told of it
    /// when it is closed, under a name that does not exist.
    fn create_unnamed(&self, at: &Dir, mode: u32) -> io::Result<File>;
    /// Gives a file that was created without a name its first or a further one; an existing name is an error.
    fn name(&self, file: &File, to: &Dir, new: &str) -> io::Result<()>;
    /// Gives a file a further name; an existing name is an error.
    fn link(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()>;
    /// Moves a name, replacing what is there.
    fn rename(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()>;
    /// Moves a name; an existing one is an error.
    fn rename_new(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()>;
    /// Removes a file's name.
    fn unlink(&self, at: &Dir, name: &str) -> io::Result<()>;
    /// Takes the exclusive lock on a file: waits, or fails with `WouldBlock`.
    fn lock(&self, file: &File, wait: bool) -> io::Result<()>;
    /// Which start of the machine this is: of what was not synced before another start, anything may be gone.
    fn boot(&self) -> [u8; 16];
}

/// The operating system's file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFs;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Fs for RealFs {
    fn open_top(&self, path: &Path, name: &str) -> io::Result<Dir> {
        // NOFOLLOW is about the last step, which is `name`.
        Ok(rustix::fs::open(path.join(name), DIRECTORY, Mode::empty())?.into())
    }

    fn make_top(&self, path: &Path, name: &str) -> io::Result<()> {
        let parent = open_parent(path)?;
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_top(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::fsync(open_parent(path)?)?)
    }

    fn stat_top(&self, path: &Path, name: &str) -> io::Result<Stat> {
        let parent = open_parent(path)?;
        Ok(stat_from(&rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    fn open_dir(&self, at: &Dir, name: &str) -> io::Result<Dir> {
        Ok(rustix::fs::openat(&at.0, name, DIRECTORY, Mode::empty())?.into())
    }

    fn make_dir(&self, at: &Dir, name: &str, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&at.0, name, Mode::from_raw_mode(mode))?)
    }

    fn list(&self, dir: &Dir, each: &mut dyn FnMut(&str, Kind) -> bool) -> io::Result<()> {
        // A fresh open, so that two listings of one handle do not share their position.
        let fresh = rustix::fs::openat(&dir.0, ".", DIRECTORY, Mode::empty())?;
        let mut buffer = Vec::with_capacity(64 * 1024);
        let mut entries = rustix::fs::RawDir::new(&fresh, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not say what a name stands for until it is looked at.
                FileType::Unknown => self.stat(dir, name).map_or(Kind::Other, |stat| stat.kind),
                known => kind_from(known),
            };
            if !each(name, kind) {
                break;
            }
        }
        Ok(())
    }

    fn stat_dir(&self, dir: &Dir) -> io::Result<Stat> {
        Ok(stat_from(&rustix::fs::fstat(&dir.0)?))
    }

    fn stat(&self, at: &Dir, name: &str) -> io::Result<Stat> {
        Ok(stat_from(&rustix::fs::statat(&at.0, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    fn identity(&self, at: &Dir, name: &str) -> io::Result<Identity> {
        match rustix::fs::statx(&at.0, name, AtFlags::SYMLINK_NOFOLLOW, WITHOUT_TIMES) {
            Ok(found) if identifies(&found) => Ok(identity_from(&found)),
            Ok(_) | Err(Errno::NOSYS) => Ok(self.stat(at, name)?.identity()),
            Err(error) => Err(error.into()),
        }
    }

    fn size(&self, file: &File) -> io::Result<u64> {
        match rustix::fs::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, WITHOUT_TIMES) {
            Ok(found) if identifies(&found) => Ok(found.stx_size),
            Ok(_) | Err(Errno::NOSYS) => Ok(self.stat_file(file)?.size),
            Err(error) => Err(error.into()),
        }
    }

    fn open(&self, at: &Dir, name: &str, how: Open) -> io::Result<File> {
        // NONBLOCK: a pipe that someone planted must not hold us up. It means nothing for regular files.
        let base = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let (flags, mode) = match how {
            Open::Read => (OFlags::RDONLY, 0),
            Open::ReadWrite => (OFlags::RDWR, 0),
            Open::CreateNew(mode) => (OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode),
            Open::Create(mode) => (OFlags::RDWR | OFlags::CREATE, mode),
        };
        Ok(File::from(rustix::fs::openat(&at.0, name, base | flags, Mode::from_raw_mode(mode))?))
    }

    fn stat_file(&self, file: &File) -> io::Result<Stat> {
        Ok(stat_from(&rustix::fs::fstat(file.as_fd())?))
    }

    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn truncate(&self, file: &File, size: u64) -> io::Result<()> {
        file.set_len(size)
    }

    fn sync_data(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn begin_sync(&self, file: &File, offset: u64, length: u64) {
        // What is not needed in memory any more is written at once, and nobody waits for it. It does stay in memory, since it
        // is being written; and if it did not, nothing would be lost by that.
        let _ = rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(length), rustix::fs::Advice::DontNeed);
    }

    fn sync_dir(&self, dir: &Dir) -> io::Result<()> {
        Ok(rustix::fs::fsync(&dir.0)?)
    }

    fn sync_all(&self, dir: &Dir) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&dir.0)?)
    }

    fn create_unnamed(&self, at: &Dir, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&at.0, ".", flags, Mode::from_raw_mode(mode))?))
    }

    fn name(&self, file: &File, to: &Dir, new: &str) -> io::Result<()> {
        match rustix::fs::linkat(file.as_fd(), "", &to.0, new, AtFlags::EMPTY_PATH) {
            // Before Linux 6.10 only root may name a file by its handle alone.
            Err(Errno::NOENT) => name_by_path(file, to, new),
            other => Ok(other?),
        }
    }

    fn link(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        Ok(rustix::fs::linkat(&from.0, name, &to.0, new, AtFlags::empty())?)
    }

    fn rename(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&from.0, name, &to.0, new)?)
    }

    fn rename_new(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        match rustix::fs::renameat_with(&from.0, name, &to.0, new, RenameFlags::NOREPLACE) {
            // A file system or a kernel that cannot do it in one step.
            Err(Errno::INVAL | Errno::NOSYS) => {
                self.link(from, name, to, new)?;
                self.unlink(from, name)
            }
            other => Ok(other?),
        }
    }

    fn unlink(&self, at: &Dir, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&at.0, name, AtFlags::empty())?)
    }

    fn lock(&self, file: &File, wait: bool) -> io::Result<()> {
        let how = if wait { FlockOperation::LockExclusive } else { FlockOperation::NonBlockingLockExclusive };
        loop {
            match rustix::fs::flock(file.as_fd(), how) {
                Err(rustix::io::Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    fn boot(&self) -> [u8; 16] {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        boot_from(&text)
    }
}

/// The start of the machine with this id. One that does not say which it is may be another one every time.
fn boot_from(text: &str) -> [u8; 16] {
    let digits: Vec<u8> = text.bytes().filter_map(|byte| (byte as char).to_digit(16)).map(|d| d as u8).collect();
    let mut boot = [0; 16];
    if digits.len() != 2 * boot.len() {
        // Without random bytes either, nothing here could be written: an index needs them for its name.
        let _ = rustix::rand::getrandom(&mut boot, rustix::rand::GetRandomFlags::empty());
        return boot;
    }
    for (byte, pair) in boot.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    boot
}

fn name_by_path(file: &File, to: &Dir, new: &str) -> io::Result<()> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(rustix::fs::CWD, path, &to.0, new, AtFlags::SYMLINK_FOLLOW)?)
}

fn open_parent(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn kind_from(kind: FileType) -> Kind {
    match kind {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Other,
    }
}

/// What is asked of a file that is being written.
const WITHOUT_TIMES: StatxFlags = StatxFlags::TYPE.union(StatxFlags::INO).union(StatxFlags::SIZE);

/// Whether the file system has said all that was asked.
fn identifies(found: &Statx) -> bool {
    found.stx_mask & WITHOUT_TIMES.bits() == WITHOUT_TIMES.bits()
}

fn identity_from(found: &Statx) -> Identity {
    Identity {
        kind: kind_from(FileType::from_raw_mode(found.stx_mode.into())),
        device: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        size: found.stx_size,
    }
}

fn stat_from(stat: &rustix::fs::Stat) -> Stat {
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    Stat {
        kind: kind_from(FileType::from_raw_mode(stat.st_mode)),
        device: stat.st_dev,
        inode: stat.st_ino,
        links: u64::from(stat.st_nlink as u32),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: seconds * 1_000_000_000 + u64::try_from(stat.st_mtime_nsec).unwrap_or(0),
        owner: stat.st_uid,
    }
}

/// Whether an error says something about the name itself: it is missing, not for us, or not what it should be. Any other
/// error is a failure of the machine (no descriptors, a disk that does not answer), and says nothing about what is there.
pub fn is_about_name(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidData)
        || error.raw_os_error().is_some_and(|code| {
            [Errno::LOOP, Errno::NOTDIR, Errno::ISDIR, Errno::NXIO].contains(&Errno::from_raw_os_error(code))
        })
}

/// What an operation found, or nothing when what it asked for is not there for us. A failure of the machine stays one:
/// it must never look like an empty directory.
pub fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_about_name(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a whole regular file, up to `limit` bytes; anything else is an error that says what it is.
pub fn read_file(fs: &dyn Fs, at: &Dir, name: &str, limit: u64) -> io::Result<Vec<u8>> {
    let file = fs.open(at, name, Open::Read)?;
    let stat = fs.stat_file(&file)?;
    if stat.kind != Kind::File {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file"));
    }
    if stat.size > limit {
        let text = format!("it has {} bytes, at most {limit} are read", stat.size);
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut bytes = vec![0; stat.size as usize];
    let count = fs.read_at(&file, &mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// The error of something that could not be done below `.fmail`. What stands in the way - a link, a pipe, a directory in
/// place of a file - stays there until somebody removes it: that is a refusal, and no retry helps.
pub fn failure(doing: impl std::fmt::Display, error: &io::Error) -> Error {
    use io::ErrorKind::{InvalidData, IsADirectory, NotADirectory};
    let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    if is_link || matches!(error.kind(), InvalidData | IsADirectory | NotADirectory) {
        return Error::new(ErrorKind::Denied, format!("{doing}: {error}"))
            .help("fmail follows no link below .fmail and uses only regular files and directories; move it away");
    }
    Error::io(doing, error)
}

/// Opens a directory, creating it and syncing its name when it is missing.
pub fn ensure_dir(fs: &dyn Fs, at: &Dir, name: &str, mode: u32) -> io::Result<Dir> {
    match fs.open_dir(at, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match fs.make_dir(at, name, mode) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => fs.sync_dir(at)?,
            }
            fs.open_dir(at, name)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_of_the_machine_that_has_no_id_is_taken_for_no_other() {
        let known = "0f6b1c0e-9d9e-4e0c-8f5e-0123456789ab\n";
        assert_eq!(boot_from(known)[..4], [0x0f, 0x6b, 0x1c, 0x0e]);
        assert_eq!(boot_from(known), boot_from(known));
        assert_ne!(boot_from(""), boot_from(""));
        assert_ne!(boot_from("none"), [0; 16]);
    }

    #[test]
    fn a_file_without_a_name_gets_as_many_as_it_is_given_either_way() {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::from(open_parent(place.path()).unwrap());
        let file = RealFs.create_unnamed(&dir, 0o600).unwrap();
        RealFs.write_at(&file, b"text", 0).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        RealFs.name(&file, &dir, "by-handle").unwrap();
        name_by_path(&file, &dir, "by-path").unwrap();
        for name in ["by-handle", "by-path"] {
            assert_eq!(std::fs::read(place.path().join(name)).unwrap(), b"text");
            let taken = [RealFs.name(&file, &dir, name), name_by_path(&file, &dir, name)];
            assert!(taken.iter().all(|result| result.as_ref().unwrap_err().kind() == io::ErrorKind::AlreadyExists));
        }
    }
}
