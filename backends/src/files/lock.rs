//! The project's lock: one writer at a time, whatever process it is in.
//!
//! An flock on `.fmail/lock`. The kernel frees it when its holder dies, even by kill -9. It is held for a few file
//! operations, never while waiting for anything else.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use fmail_api::{Error, ErrorKind, Result};

use super::fs::{Dir, Fs, Open, failure};
use super::layout;

/// The lock, until it is dropped.
pub struct Lock {
    _file: File,
}

/// How a writer takes its place among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Takes the lock when it is free, whoever else is about to.
    AtOnce,
    /// Lets those go first who wait for it. A process that takes the lock over and over must do this: it would be back
    /// before the kernel has woken anyone else.
    InLine,
}

impl Lock {
    /// Takes the lock, waiting for at most `timeout`.
    pub fn acquire(fs: &Arc<dyn Fs>, top: &Dir, manner: Manner, timeout: Duration) -> Result<Lock> {
        let refused = |error: io::Error| failure(".fmail/lock cannot be taken", &error);
        let file = fs.open(top, layout::LOCK, Open::Create(0o600)).map_err(refused)?;
        let turn = Turn::of(fs, top, manner);
        let free = match turn {
            Turn::Taken => Err(io::ErrorKind::WouldBlock.into()),
            _ => fs.lock(&file, false),
        };
        let file = match free {
            Ok(()) => file,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(fs, top, file, turn, timeout)?,
            Err(error) => return Err(refused(error)),
        };
        // The next one in line is told who holds it; nothing depends on this, so a failure does not matter.
        let _ = fs.write_at(&file, format!("{:<10}\n", std::process::id()).as_bytes(), 0);
        Ok(Lock { _file: file })
    }
}

/// The right to be the next: an flock on the directory of temporaries, held while waiting for the lock itself. It is
/// courtesy only. Where it cannot be had, nobody is let in before, and nothing else changes.
enum Turn {
    /// It was not asked for, or cannot be had.
    None,
    /// It is ours until this is dropped.
    Ours(#[allow(dead_code, reason = "held, not read")] File),
    /// Somebody waits already.
    Taken,
}

impl Turn {
    fn of(fs: &Arc<dyn Fs>, top: &Dir, manner: Manner) -> Turn {
        if manner == Manner::AtOnce {
            return Turn::None;
        }
        let Ok(file) = fs.open(top, layout::TEMPORARY, Open::Read) else { return Turn::None };
        match fs.lock(&file, false) {
            Ok(()) => Turn::Ours(file),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Turn::Taken,
            Err(_) => Turn::None,
        }
    }

    /// Waits until it is ours.
    fn wait(self, fs: &Arc<dyn Fs>, top: &Dir) -> Turn {
        if matches!(self, Turn::Ours(_)) {
            return self;
        }
        let file = fs.open(top, layout::TEMPORARY, Open::Read).and_then(|file| fs.lock(&file, true).map(|()| file));
        file.map_or(Turn::None, Turn::Ours)
    }
}

/// Waits in the kernel's queue on a thread of its own, because an flock has no timeout. When we give up, the thread still
/// gets the lock at some time, finds nobody to hand it to, and lets it go.
fn wait(fs: &Arc<dyn Fs>, top: &Dir, file: File, turn: Turn, timeout: Duration) -> Result<File> {
    let reader = file.try_clone().map_err(|error| Error::io(".fmail/lock", &error))?;
    if timeout.is_zero() {
        return Err(busy(fs, &reader, timeout));
    }
    let (sender, receiver) = sync_channel(1);
    let (blocking, top) = (fs.clone(), top.clone());
    let spawned = std::thread::Builder::new().name("fmail-lock".into()).spawn(move || {
        let _turn = turn.wait(&blocking, &top);
        let result = blocking.lock(&file, true).map(|()| file);
        // Nobody waits any more: dropping the file frees the lock.
        let _ = sender.send(result);
    });
    spawned.map_err(|error| Error::io("no thread to wait for .fmail/lock", &error))?;
    match receiver.recv_timeout(timeout) {
        Ok(result) => result.map_err(|error| Error::io(".fmail/lock cannot be taken", &error)),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(busy(fs, &reader, timeout)),
    }
}

fn busy(fs: &Arc<dyn Fs>, file: &File, timeout: Duration) -> Error {
    let mut bytes = [0; 10];
    let holder = match fs.read_at(file, &mut bytes, 0) {
        Ok(10) => std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse::<u32>().ok()),
        _ => None,
    };
    let who = match holder {
        Some(pid) => match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
            Ok(name) => format!("process {pid} ({})", name.trim()),
            Err(_) => format!("process {pid}"),
        },
        None => "another process".into(),
    };
    let text =
        format!(".fmail/lock is held by {who} for more than {:.1} s; nothing was written", timeout.as_secs_f64());
    Error::new(ErrorKind::Backpressure, text)
        .help("try again; if that process is stopped, continue or end it, and the lock is free at once")
}

#[cfg(test)]
mod tests {
    use super::super::fs::RealFs;
    use super::*;

    #[test]
    fn who_stands_in_line_is_never_before_one_who_waits() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join(".fmail/tmp")).unwrap();
        let fs: Arc<dyn Fs> = Arc::new(RealFs);
        let top = fs.open_top(dir.path(), layout::TOP).unwrap();
        for _ in 0..20 {
            let held = Lock::acquire(&fs, &top, Manner::AtOnce, Duration::ZERO).unwrap();
            let ((taken, is_taken), (done, is_done)) = (sync_channel(1), sync_channel(1));
            let (other, at) = (fs.clone(), top.clone());
            let waiter = std::thread::spawn(move || {
                let lock = Lock::acquire(&other, &at, Manner::AtOnce, Duration::from_secs(60)).unwrap();
                taken.send(()).unwrap();
                is_done.recv().unwrap();
                drop(lock);
            });
            while !matches!(Turn::of(&fs, &top, Manner::InLine), Turn::Taken) {
                std::thread::yield_now();
            }
            drop(held);
            let overtaking = Lock::acquire(&fs, &top, Manner::InLine, Duration::ZERO);
            assert!(overtaking.is_err(), "the lock was free, but somebody waited for it");
            is_taken.recv().unwrap();
            done.send(()).unwrap();
            waiter.join().unwrap();
        }
    }
}
