//! Holds the store to the contract, one test for each case of the suite.
//!
//! This binary is also the process that writes until it is killed: it starts itself again with [`WORK`] set.

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use fmail_api::{Error, Result, Store};
use fmail_chat::{ChatOptions, ChatStore};
use fmail_conformance::{Subject, Work, trials, write_until_killed};
use libtest_mimic::Arguments;
use tempfile::TempDir;

/// What the writing process is to write.
const WORK: &str = "FMAIL_CONFORMANCE_WORK";
/// The chat file that it writes to.
const FILE: &str = "FMAIL_CONFORMANCE_FILE";

/// A chat file in a directory of its own.
struct InChat(TempDir);

impl InChat {
    fn fresh() -> Result<Box<dyn Subject>> {
        let root = tempfile::tempdir().map_err(|error| Error::io("a directory for the case", &error))?;
        Ok(Box::new(InChat(root)))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join(".workplace/chat.md")
    }
}

impl Subject for InChat {
    fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(ChatStore::open(ChatOptions::new(self.file()))?))
    }

    fn writer(&self, work: Work) -> Option<Command> {
        let mut command = Command::new(env::current_exe().ok()?);
        command.env(WORK, work.to_string()).env(FILE, self.file());
        Some(command)
    }
}

/// The writing process.
fn write(work: &str) -> Result<()> {
    let file = env::var_os(FILE).ok_or_else(|| Error::invalid(format!("{WORK} is set, {FILE} is not")))?;
    let store = ChatStore::open(ChatOptions::new(PathBuf::from(file)))?;
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
    libtest_mimic::run(&Arguments::from_args(), trials("chat", InChat::fresh)).exit_code()
}
