//! Holds the built-in stores to the contract, one test for each case of the suite.

use std::process::ExitCode;
use std::sync::Arc;

use fmail_api::{DEFAULT_MAX_MESSAGE_BYTES, Result, Store};
use fmail_backends::{MemoryStore, SystemClock};
use fmail_conformance::{Subject, trials};
use libtest_mimic::Arguments;

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

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    libtest_mimic::run(&arguments, trials("memory", InMemory::fresh)).exit_code()
}
