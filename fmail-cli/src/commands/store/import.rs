//! `fmail store import`

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use fmail_api::{Error, ErrorKind, Result};
use fmail_core::transfer::{self, Checked, ImportReport};
use fmail_host::{Environment, Project, SystemClock};
use futures::executor::block_on;
use serde_json::json;

use super::opened::open;
use super::progress::{counted, teller};
use crate::output::{Outcome, Output, note};

#[derive(Args)]
pub(crate) struct Import {
    /// The file; - is standard input
    #[arg(value_name = "FILE|-")]
    file: PathBuf,

    /// Into this store instead of mail.store
    #[arg(long, value_name = "STORE")]
    store: Option<String>,

    /// Check the file and tell what would be new
    #[arg(long)]
    dry_run: bool,

    /// Pass over lines that cannot be used, and tell them
    #[arg(long)]
    skip_bad: bool,

    /// Take a file that was cut off
    #[arg(long)]
    partial: bool,

    /// Only the messages; one whose id is taken gets a new one
    #[arg(long)]
    no_records: bool,

    /// A record that the store has in another form, and that cannot be merged, is replaced
    #[arg(long)]
    overwrite: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Import {
    pub(crate) fn run(self, environment: &Environment, set: &[String]) -> Outcome {
        let project = Project::discover(environment)?;
        let mut file = self.opened()?;
        let store = open(environment, &project, set, self.store.as_deref())?;
        let import = transfer::Import {
            to: &*store,
            clock: &SystemClock,
            no_records: self.no_records,
            skip_bad: self.skip_bad,
            partial: self.partial,
            overwrite: self.overwrite,
        };
        let mut tell = teller();
        let named = |error: Error| error.context("file", self.file.display());
        let checked = block_on(import.check(BufReader::new(&file), &mut tell)).map_err(named)?;
        self.tell_bad(&checked);
        if self.dry_run {
            return self.tell_checked(&checked);
        }
        file.rewind().map_err(|error| named(Error::io("cannot be read again", &error)))?;
        let report = block_on(import.run(BufReader::new(&file), &mut tell)).map_err(named)?;
        block_on(store.close())?;
        self.tell(&report)
    }

    /// The file, which is read twice. What comes through a pipe is kept in a file without a name meanwhile.
    fn opened(&self) -> Result<File> {
        if self.file != Path::new("-") {
            let failed = |error| Error::io(format_args!("cannot read `{}`", self.file.display()), &error);
            let file = File::open(&self.file).map_err(failed)?;
            if file.metadata().map_err(failed)?.is_file() {
                return Ok(file);
            }
            return kept(file);
        }
        kept(io::stdin().lock())
    }

    fn tell_bad(&self, checked: &Checked) {
        for bad in &checked.bad {
            note(&format!("passed over: {bad}"));
        }
        if checked.bad_count > checked.bad.len() as u64 {
            note(&format!("passed over: {} more", checked.bad_count - checked.bad.len() as u64));
        }
        if checked.cut_off {
            note("the file was cut off: there was more when it was written");
        }
    }

    fn tell_checked(&self, checked: &Checked) -> Outcome {
        let mut output = Output::stdout();
        if self.json {
            output.json(&json!({"dry_run": true, "checked": checked}))?;
        } else {
            output.line(&format!(
                "to import: {} of {}, {} of {}; nothing was written",
                checked.messages.written,
                counted(checked.messages.total, "message"),
                checked.records.written,
                counted(checked.records.total, "record"),
            ))?;
        }
        output.flush()
    }

    fn tell(&self, report: &ImportReport) -> Outcome {
        let mut output = Output::stdout();
        if self.json {
            output.json(&json!({"dry_run": false, "imported": report}))?;
        } else {
            output.line(&format!(
                "imported {}: {} were there, {} have a new id, {} were refused; {} written",
                counted(report.new, "message"),
                report.duplicate,
                report.relocated,
                report.refused,
                counted(report.records_written, "record"),
            ))?;
        }
        output.flush()?;
        if report.refused > 0 {
            let text = format!("the store does not take {}", counted(report.refused, "message"));
            let help = "they are larger than its limit, or older than what `fmail gc` has removed there";
            return Err(Error::new(ErrorKind::Conflict, text).help(help).into());
        }
        Ok(())
    }
}

/// All of a source that cannot be read twice.
fn kept(mut source: impl io::Read) -> Result<File> {
    let path = std::env::temp_dir().join(format!("fmail-import-{}", std::process::id()));
    let failed = |error| Error::io(format_args!("cannot keep what is to be imported in `{}`", path.display()), &error);
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    fs::remove_file(&path).map_err(failed)?;
    io::copy(&mut source, &mut file).map_err(failed)?;
    file.rewind().map_err(failed)?;
    Ok(file)
}
