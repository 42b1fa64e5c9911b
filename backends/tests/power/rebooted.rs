//! The file system of a machine that was started again. Nothing is recorded there.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fmail_backends::files::fs::{Dir, Fs, Kind, Open, RealFs, Stat};

/// The real file system, on the start of the machine with this number. A sync would cost time and tell nothing.
pub struct Rebooted(pub u8, pub Belief);

/// Files by their names of which a replay believes that they are what they should be, as long as it runs: what it finds at
/// such a name is shown to it as this text. So does a replay that skips the names that are there.
#[derive(Default)]
pub struct Belief {
    texts: HashMap<String, Vec<u8>>,
    over: AtomicBool,
}

impl Belief {
    /// In these texts.
    pub fn of(texts: HashMap<String, Vec<u8>>) -> Belief {
        Belief { texts, over: AtomicBool::new(false) }
    }

    fn shown(&self, name: &str) -> Option<File> {
        let text = self.texts.get(name).filter(|_| !self.over.load(Ordering::SeqCst))?;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        Some(file)
    }
}

impl Fs for Rebooted {
    fn open_top(&self, path: &Path, name: &str) -> io::Result<Dir> {
        RealFs.open_top(path, name)
    }
    fn make_top(&self, path: &Path, name: &str) -> io::Result<()> {
        RealFs.make_top(path, name)
    }
    fn sync_top(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn stat_top(&self, path: &Path, name: &str) -> io::Result<Stat> {
        RealFs.stat_top(path, name)
    }
    fn open_dir(&self, at: &Dir, name: &str) -> io::Result<Dir> {
        RealFs.open_dir(at, name)
    }
    fn make_dir(&self, at: &Dir, name: &str, mode: u32) -> io::Result<()> {
        RealFs.make_dir(at, name, mode)
    }
    fn list(&self, dir: &Dir, each: &mut dyn FnMut(&str, Kind) -> bool) -> io::Result<()> {
        RealFs.list(dir, each)
    }
    fn stat_dir(&self, dir: &Dir) -> io::Result<Stat> {
        RealFs.stat_dir(dir)
    }
    fn stat(&self, at: &Dir, name: &str) -> io::Result<Stat> {
        RealFs.stat(at, name)
    }
    fn open(&self, at: &Dir, name: &str, how: Open) -> io::Result<File> {
        let file = RealFs.open(at, name, how)?;
        Ok(if how == Open::Read { self.1.shown(name).unwrap_or(file) } else { file })
    }
    fn stat_file(&self, file: &File) -> io::Result<Stat> {
        RealFs.stat_file(file)
    }
    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        RealFs.read_at(file, buffer, offset)
    }
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        // The header of the journal: the replay is over.
        if bytes.get(8..16) == Some(b"FMAILJN1") {
            self.1.over.store(true, Ordering::SeqCst);
        }
        RealFs.write_at(file, bytes, offset)
    }
    fn truncate(&self, file: &File, size: u64) -> io::Result<()> {
        RealFs.truncate(file, size)
    }
    fn sync_data(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
    fn sync_dir(&self, _: &Dir) -> io::Result<()> {
        Ok(())
    }
    fn create_unnamed(&self, at: &Dir, mode: u32) -> io::Result<File> {
        RealFs.create_unnamed(at, mode)
    }
    fn name(&self, file: &File, to: &Dir, new: &str) -> io::Result<()> {
        RealFs.name(file, to, new)
    }
    fn link(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        RealFs.link(from, name, to, new)
    }
    fn rename(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        RealFs.rename(from, name, to, new)
    }
    fn rename_new(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        RealFs.rename_new(from, name, to, new)
    }
    fn sync_all(&self, _: &Dir) -> io::Result<()> {
        Ok(())
    }
    fn unlink(&self, at: &Dir, name: &str) -> io::Result<()> {
        RealFs.unlink(at, name)
    }
    fn lock(&self, file: &File, wait: bool) -> io::Result<()> {
        RealFs.lock(file, wait)
    }
    fn boot(&self) -> [u8; 16] {
        [self.0; 16]
    }
}
