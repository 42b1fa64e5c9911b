//! `fmail store export`

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use fmail_api::{Error, ErrorKind, Result};
use fmail_core::transfer::{Exported, export};
use fmail_host::{Environment, Project, SystemClock};
use futures::executor::block_on;
use serde_json::json;

use super::opened::open;
use super::progress::{counted, teller};
use crate::output::{Outcome, Output, note, stopped};

#[derive(Args)]
pub(crate) struct Export {
    /// Into this file; without it, or with -, to standard output
    file: Option<PathBuf>,

    /// From this store instead of mail.store
    #[arg(long, value_name = "STORE")]
    store: Option<String>,

    /// Replace the file if it is there
    #[arg(long)]
    force: bool,

    /// Print what was written as JSON; needs FILE
    #[arg(long, requires = "file")]
    json: bool,
}

impl Export {
    pub(crate) fn run(self, environment: &Environment, set: &[String]) -> Outcome {
        let project = Project::discover(environment)?;
        let store = open(environment, &project, set, self.store.as_deref())?;
        let write = |to: &mut dyn Write| block_on(export(&*store, &SystemClock, to, &mut teller()));
        let Some(path) = self.file.as_deref().filter(|path| *path != Path::new("-")) else {
            if self.json {
                return Err(Error::invalid("--json is about a file, and standard output gets the export itself").into());
            }
            let mut out = Standard { out: BufWriter::new(io::stdout().lock()), failed: None };
            let written = write(&mut out);
            // A reader that has gone is no failure of ours, and what it did not read is no export.
            if let Some(error) = out.failed {
                return Err(stopped(error));
            }
            tell(&written?, "standard output");
            return Ok(());
        };
        let exported = self.write_file(path, write)?;
        let file = path.display().to_string();
        tell(&exported, &file);
        if self.json {
            let mut output = Output::stdout();
            output.json(&json!({"file": file, "exported": exported}))?;
            output.flush()?;
        }
        Ok(())
    }

    /// Writes beside the file and puts it in its place when it is whole.
    fn write_file(&self, path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<Exported>) -> Result<Exported> {
        let failed = |error: io::Error| Error::io(format_args!("cannot write `{}`", path.display()), &error);
        if !self.force && fs::symlink_metadata(path).is_ok() {
            return Err(there_already(path));
        }
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}.part", std::process::id()));
        let beside = PathBuf::from(beside);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).map_err(failed)?;
        let written = (|| {
            let mut out = BufWriter::new(file);
            let exported = write(&mut out)?;
            let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
            file.sync_all().map_err(failed)?;
            // A link replaces nothing, also what came meanwhile.
            let placed = if self.force { fs::rename(&beside, path) } else { fs::hard_link(&beside, path) };
            match placed {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(there_already(path)),
                placed => placed.map(|()| exported).map_err(failed),
            }
        })();
        // After a rename there is nothing to remove.
        let _ = fs::remove_file(&beside);
        written
    }
}

fn there_already(path: &Path) -> Error {
    Error::new(ErrorKind::Conflict, format!("`{}` is there already", path.display()))
        .help("name another file, or replace it with --force")
}

fn tell(exported: &Exported, to: &str) {
    let (messages, records) = (counted(exported.messages, "message"), counted(exported.records, "record"));
    note(&format!("exported {messages} and {records} to {to}"));
}

/// Standard output, which remembers why it could not be written.
struct Standard<W> {
    out: W,
    failed: Option<io::Error>,
}

impl<W: Write> Standard<W> {
    fn kept<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            let again = io::Error::from(error.kind());
            self.failed = Some(error);
            again
        })
    }
}

impl<W: Write> Write for Standard<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.kept(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.flush();
        self.kept(done)
    }
}
