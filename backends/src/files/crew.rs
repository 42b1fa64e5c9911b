//! Syncing several files side by side.
//!
//! A file system commits many syncs that come at the same time together, and few that come one behind the other. The
//! callers that wait for one group of messages have nothing else to do, so their threads do the waiting for the disk
//! too: no thread is started, and a caller without company syncs its own file, as it always did. Only a caller that brings
//! many messages at once, as a relay does, is given threads for the company that it lacks.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use super::fs::{Dir, Fs};
use super::queue::Step;
use super::session::relock;

/// Something that has to be on the disk before an answer.
pub enum Unsynced {
    /// A file's content.
    File(File),
    /// A directory's names.
    Dir(Dir),
}

impl Unsynced {
    fn sync(&self, fs: &dyn Fs) -> io::Result<()> {
        match self {
            Unsynced::File(file) => fs.sync_data(file),
            Unsynced::Dir(dir) => fs.sync_dir(dir),
        }
    }
}

/// The thread that leads a group, and the callers that help it.
pub struct Crew {
    fs: Arc<dyn Fs>,
    others: Vec<Sender<Step>>,
    /// So many more hands are found when there is work for them.
    absent: usize,
}

/// The most threads that are started to help.
const MOST_HIRED: usize = 15;

impl Crew {
    /// Nobody but the caller.
    pub fn alone(fs: &Arc<dyn Fs>) -> Self {
        Crew { fs: fs.clone(), others: Vec::new(), absent: 0 }
    }

    /// The caller, those behind these senders, and as many threads for those that a caller with many messages stands for.
    pub fn with(fs: &Arc<dyn Fs>, others: Vec<Sender<Step>>, absent: usize) -> Self {
        Crew { fs: fs.clone(), others, absent }
    }

    /// Syncs all of these, each exactly once, and says what became of each.
    pub fn sync(&self, things: Vec<Unsynced>) -> Vec<io::Result<()>> {
        let hands = things.len().saturating_sub(1);
        let task = Arc::new(Task::new(self.fs.clone(), things));
        for other in self.others.iter().take(hands) {
            // Whoever is gone does not help; what is left to do is done by the others.
            let _ = other.send(Step::Help(task.clone()));
        }
        let hired = hands.saturating_sub(self.others.len()).min(self.absent).min(MOST_HIRED);
        thread::scope(|scope| {
            for _ in 0..hired {
                // Where there is no thread to be had, those who are there do the work.
                let _ = thread::Builder::new().name("fmail-sync".into()).spawn_scoped(scope, || task.work());
            }
            task.work();
        });
        task.results()
    }
}

/// Things to sync, taken one by one by whoever works on them.
pub struct Task {
    fs: Arc<dyn Fs>,
    things: Vec<Unsynced>,
    next: AtomicUsize,
    progress: Mutex<Progress>,
    finished: Condvar,
}

struct Progress {
    results: Vec<io::Result<()>>,
    left: usize,
}

impl Task {
    fn new(fs: Arc<dyn Fs>, things: Vec<Unsynced>) -> Self {
        let left = things.len();
        // Until it is known better, and for good when the thread that took it panics: not synced.
        let results = (0..left).map(|_| Err(io::Error::other("the sync was interrupted"))).collect();
        let progress = Mutex::new(Progress { results, left });
        Task { fs, things, next: AtomicUsize::new(0), progress, finished: Condvar::new() }
    }

    /// Works until nothing is left to take.
    pub fn work(&self) {
        while let Some(number) = self.take() {
            let taken = Taken(self);
            let result = self.things[number].sync(self.fs.as_ref());
            relock(&self.progress).results[number] = result;
            drop(taken);
        }
    }

    fn take(&self) -> Option<usize> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.things.len()).then_some(number)
    }

    /// Waits for what others have taken.
    fn results(&self) -> Vec<io::Result<()>> {
        let mut progress = relock(&self.progress);
        while progress.left > 0 {
            progress = self.finished.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut progress.results)
    }
}

/// Counts as finished when it is dropped, also by a panic: the leader must not wait for ever.
struct Taken<'a>(&'a Task);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut progress = relock(&self.0.progress);
        progress.left -= 1;
        if progress.left == 0 {
            self.0.finished.notify_all();
        }
    }
}
