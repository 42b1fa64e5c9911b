//! Holds the built-in stores to the contract, one test for each case of the suite.
//!
//! This binary is also the process that writes until it is killed: it starts itself again with [`WORK`] set.

use std::env;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use fmail_api::{DEFAULT_MAX_MESSAGE_BYTES, Error, Result, Store};
use fmail_backends::{FilesOptions, FilesStore, JournalOptions, MemoryStore, SystemClock};
use fmail_conformance::{Subject, Work, trials, write_until_killed};
use libtest_mimic::Arguments;
use tempfile::TempDir;

/// What the writing process is to write.
const WORK: &str = "FMAIL_CONFORMANCE_WORK";
/// The project that it writes to.
const ROOT: &str = "FMAIL_CONFORMANCE_ROOT";
/// Set when it does so through a journal.
const JOURNAL: &str = "FMAIL_CONFORMANCE_JOURNAL";

/// A project in memory: every instance is the same one.
struct InMemory(Arc<MemoryStore>);

impl InMemory {
    fn fresh() -> Result<Box<dyn Subject>> {
        let store = MemoryStore::new(DEFAULT_MAX_MESSAGE_BYTES, Arc::new(SystemClock));
        Ok(Box::new(InMemory(Arc::new(store))))
    }
}

impl Subject for InMemory {
    fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(self.0.clone())
    }
}

/// A project in a directory of its own.
struct InFiles {
    root: TempDir,
    events: bool,
    journal: bool,
}

/// As a daemon opens it that has used it for a while.
fn journal(writes: bool) -> JournalOptions {
    JournalOptions { writes, room: 256 * 1024, after: 0, ..JournalOptions::default() }
}

impl InFiles {
    fn fresh(events: bool, journal: bool) -> Result<Box<dyn Subject>> {
        let root = tempfile::tempdir().map_err(|error| Error::io("a directory for the case", &error))?;
        Ok(Box::new(InFiles { root, events, journal }))
    }
}

impl Subject for InFiles {
    fn open(&self) -> Result<Arc<dyn Store>> {
        let options = FilesOptions { journal: journal(self.journal), ..FilesOptions::new(self.root.path()) };
        let poll_interval = if self.events { options.poll_interval } else { Duration::from_millis(5) };
        Ok(Arc::new(FilesStore::open(FilesOptions { events: self.events, poll_interval, ..options })?))
    }

    fn writer(&self, work: Work) -> Option<Command> {
        let mut command = Command::new(env::current_exe().ok()?);
        command.env(WORK, work.to_string()).env(ROOT, self.root.path());
        if self.journal {
            command.env(JOURNAL, "1");
        }
        Some(command)
    }
}

/// The writing process.
fn write(work: &str) -> Result<()> {
    let root = env::var_os(ROOT).ok_or_else(|| Error::invalid(format!("{WORK} is set, {ROOT} is not")))?;
    let journal = journal(env::var_os(JOURNAL).is_some());
    let store = FilesStore::open(FilesOptions { journal, ..FilesOptions::new(root) })?;
    write_until_killed(&store, work.parse()?)
}

fn main() -> ExitCode {
    if let Ok(work) = env::var(WORK) {
        return match write(&work) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error:?}");
                ExitCode::FAILURE
            }
        };
    }
    let mut tests = trials("memory", InMemory::fresh);
    tests.extend(trials("files", || InFiles::fresh(true, false)));
    tests.extend(trials("files-journal", || InFiles::fresh(true, true)));
    // Watching is the only thing that differs where the kernel cannot wake us.
    let polling = trials("files-polling", || InFiles::fresh(false, false));
    tests.extend(polling.into_iter().filter(|trial| trial.name().starts_with("files-polling::w")));
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}
