//! The file system of a machine that was started again. Nothing is recorded there.

use std::fs::File;
use std::io;
use std::path::Path;

use fmail_backends::files::fs::{Dir, Fs, Kind, Open, RealFs, Stat};

/// The real file system, on the start of the machine with this number. A sync would cost time and tell nothing.
pub struct Rebooted(pub u8);

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
        RealFs.open(at, name, how)
    }
    fn stat_file(&self, file: &File) -> io::Result<Stat> {
        RealFs.stat_file(file)
    }
    fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        RealFs.read_at(file, buffer, offset)
    }
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
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
    fn link(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        RealFs.link(from, name, to, new)
    }
    fn rename(&self, from: &Dir, name: &str, to: &Dir, new: &str) -> io::Result<()> {
        RealFs.rename(from, name, to, new)
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
