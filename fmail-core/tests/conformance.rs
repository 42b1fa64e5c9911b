//! The store around a store is a store: it is held to the same contract.

#[path = "../src/testing/bare.rs"]
mod bare;
#[path = "../src/testing/memory_log.rs"]
mod memory_log;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bare::Bare;
use fmail_api::{DEFAULT_MAX_MESSAGE_BYTES, Error, Filters, Result, Store};
use fmail_backends::{FilesOptions, FilesStore, MemoryStore, SystemClock};
use fmail_conformance::{Subject, trials};
use fmail_core::{Blocking, Fanout, LayerOptions, LogStore, layered};
use libtest_mimic::Arguments;
use memory_log::MemoryLog;
use tempfile::TempDir;

fn fanout(inner: Arc<dyn Store>) -> Arc<dyn Store> {
    let threads: Blocking = Arc::new(|work| drop(std::thread::spawn(work)));
    Arc::new(Fanout::new(inner, threads))
}

/// Around the store in memory.
struct AroundMemory(Arc<MemoryStore>);

impl Subject for AroundMemory {
    fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(fanout(self.0.clone()))
    }
}

/// Around the store in files.
struct AroundFiles(TempDir);

impl Subject for AroundFiles {
    fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(fanout(Arc::new(FilesStore::open(FilesOptions::new(self.0.path()))?)))
    }
}

/// Over a log that is this process's own: every instance is the same one.
struct OverLog(Arc<LogStore>);

impl Subject for OverLog {
    fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(self.0.clone())
    }
}

/// Over a log that several processes share: every instance knows only what is in the log.
struct OverSharedLog(Arc<MemoryLog>);

impl Subject for OverSharedLog {
    fn open(&self) -> Result<Arc<dyn Store>> {
        let store = LogStore::new(self.0.clone(), Arc::new(SystemClock));
        Ok(Arc::new(store.poll_interval(Duration::from_millis(5))))
    }
}

/// All layers around a store in memory that evaluates only some parts of a query.
struct Layered(Arc<dyn Store>);

impl Layered {
    fn around(filters: Filters) -> Result<Box<dyn Subject>> {
        let store = MemoryStore::new(DEFAULT_MAX_MESSAGE_BYTES, Arc::new(SystemClock));
        let bare = Bare::new(Arc::new(store), filters);
        Ok(Box::new(Layered(layered(Arc::new(bare), &LayerOptions::default()))))
    }
}

impl Subject for Layered {
    fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(self.0.clone())
    }
}

fn main() -> ExitCode {
    let mut tests = trials("fanout-memory", || {
        let store = MemoryStore::new(DEFAULT_MAX_MESSAGE_BYTES, Arc::new(SystemClock));
        Ok(Box::new(AroundMemory(Arc::new(store))) as Box<dyn Subject>)
    });
    let files = trials("fanout-files", || {
        let root = tempfile::tempdir().map_err(|error| Error::io("a directory for the case", &error))?;
        Ok(Box::new(AroundFiles(root)) as Box<dyn Subject>)
    });
    // What survives a kill is decided by the store inside, and shown there.
    let survives = |name: &str| name.contains("::a5::") || name.contains("::r5::");
    tests.extend(files.into_iter().filter(|trial| !survives(trial.name())));
    tests.extend(trials("log", || {
        let store = LogStore::new(Arc::new(MemoryLog::new(false)), Arc::new(SystemClock));
        Ok(Box::new(OverLog(Arc::new(store))) as Box<dyn Subject>)
    }));
    let shared =
        trials("log-shared", || Ok(Box::new(OverSharedLog(Arc::new(MemoryLog::new(true)))) as Box<dyn Subject>));
    tests.extend(shared.into_iter().filter(|trial| !survives(trial.name())));
    tests.extend(trials("layers-bare", || Layered::around(Filters::default())));
    let unordered = Filters { order: false, limit: false, ..Filters::ALL };
    tests.extend(trials("layers-unordered", move || Layered::around(unordered)));
    let some = Filters { scope: true, order: true, limit: true, ..Filters::default() };
    tests.extend(trials("layers-some", move || Layered::around(some)));
    tests.extend(trials("layers-all", || Layered::around(Filters::ALL)));
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}
