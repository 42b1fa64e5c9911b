//! A file into a store.

use std::io::BufRead;

use fmail_api::{Clock, Error, ErrorKind, Imported, Message, Result, Store};
use serde::Serialize;

use super::inventory::{Found, Inventory, STEP};
use super::lines::{Entry, Line, Reader, at};
use super::writing::{Records, Wanted};
use super::{Count, Progress, Tell, is_local};

/// So many lines that cannot be used are named.
const NAMED: usize = 20;

/// The import of a file into a store.
///
/// The file is read twice: [`Import::check`] reads all of it and writes nothing, [`Import::run`] writes.
pub struct Import<'a> {
    /// Into which store.
    pub to: &'a dyn Store,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Only messages; one whose id is taken gets a new one.
    pub no_records: bool,
    /// Lines that cannot be used are passed over.
    pub skip_bad: bool,
    /// The file may end anywhere.
    pub partial: bool,
    /// A record that no rule merges replaces the one in the store.
    pub overwrite: bool,
}

/// What a file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Messages: all, to be written, there already.
    pub messages: Count,
    /// Records: all, to be written, there already.
    pub records: Count,
    /// Lines that are passed over, or the first of them.
    pub bad: Vec<String>,
    /// How many lines are passed over.
    pub bad_count: u64,
    /// The file has no end: it was cut off.
    pub cut_off: bool,
}

/// What became of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// Messages that are new here.
    pub new: u64,
    /// Messages that were here.
    pub duplicate: u64,
    /// Messages that have another id now, since theirs was taken or lies in the future.
    pub relocated: u64,
    /// Messages that the store does not take.
    pub refused: u64,
    /// Records that were written.
    pub records_written: u64,
    /// Records that were here.
    pub records_present: u64,
    /// Lines that were passed over.
    pub bad: u64,
}

impl Import<'_> {
    /// Reads the whole file and finds out whether all of it can be imported.
    pub async fn check(&self, file: impl BufRead, tell: Tell<'_>) -> Result<Checked> {
        if !self.to.capabilities().import {
            let name = self.to.capabilities().name;
            return Err(Error::new(ErrorKind::Unsupported, format!("the store `{name}` cannot import messages")));
        }
        let known = Inventory::of(self.to, tell, Progress::Planned).await?;
        let mut reader = Reader::new(file)?;
        let mut checked = Checked { cut_off: reader.is_export(), ..Checked::default() };
        while let Some(numbered) = reader.next()? {
            let number = numbered.number;
            if reader.is_export() && !checked.cut_off {
                return Err(at(number, Error::invalid("there is something behind the end of the export")));
            }
            let verdict = match numbered.line {
                Ok(Line::Message(message)) => self.check_message(&message, &known, &mut checked),
                Ok(Line::Record(entry)) => self.check_record(&entry, &mut checked).await?,
                Ok(Line::End(end)) => {
                    checked.cut_off = false;
                    let bad = checked.bad_count > 0;
                    let counted = (checked.messages.total, checked.records.total) == (end.messages, end.records) || bad;
                    if !counted || reader.sum() != end.sha256 {
                        return Err(at(number, damaged()));
                    }
                    Ok(())
                }
                Err(error) => Err(error),
            };
            let Err(error) = verdict.map_err(|error| placed(number, error)) else { continue };
            if !self.skip_bad {
                return Err(error);
            }
            checked.bad_count += 1;
            if checked.bad.len() < NAMED {
                checked.bad.push(error.to_string());
            }
        }
        if checked.cut_off && !self.partial {
            return Err(Error::invalid(
                "the export was cut off: its last line, with the counts and the sum, is missing",
            )
            .help("nothing was imported; --partial takes what is there"));
        }
        Ok(checked)
    }

    fn check_message(&self, message: &Message, known: &Inventory, checked: &mut Checked) -> Result<()> {
        checked.messages.total += 1;
        match known.find_line(message.id, &message.to_line()) {
            Found::Same => checked.messages.present += 1,
            Found::Other if !self.no_records => {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!("another message has the id {} in the store, or another form of this one", message.id),
                )
                .help(
                    "records name messages by their ids: import into an empty store, or only the messages, with \
                     --no-records, where this one gets a new id",
                ));
            }
            Found::Nothing if !self.no_records && !message.id.is_importable(self.clock.now()) => {
                return Err(Error::new(ErrorKind::Conflict, format!("the id {} lies in the future", message.id))
                    .help("wait until then, or import only the messages, with --no-records, where it gets a new id"));
            }
            _ => checked.messages.written += 1,
        }
        Ok(())
    }

    async fn check_record(&self, entry: &Entry, checked: &mut Checked) -> Result<Result<()>> {
        checked.records.total += 1;
        if self.no_records || is_local(&entry.key) {
            return Ok(Ok(()));
        }
        match self.writer().wanted(&entry.key, &entry.value, None).await? {
            Wanted::Same => checked.records.present += 1,
            Wanted::Put(..) => checked.records.written += 1,
            Wanted::Conflict => return Ok(Err(super::writing::conflict(&entry.key))),
        }
        Ok(Ok(()))
    }

    fn writer(&self) -> Records<'_> {
        Records { to: self.to, now: self.clock.now(), overwrite: self.overwrite }
    }

    /// Writes what the file holds. It has been checked, and is read again from its beginning.
    pub async fn run(&self, file: impl BufRead, tell: Tell<'_>) -> Result<ImportReport> {
        let mut reader = Reader::new(file)?;
        let mut report = ImportReport::default();
        let mut horizon = None;
        if let Some(project) = reader.project().filter(|_| !self.no_records) {
            report.records_written += u64::from(self.writer().found_project(project).await?);
        }
        while let Some(numbered) = reader.next()? {
            let number = numbered.number;
            let written = match numbered.line {
                Ok(Line::Message(message)) => self.message(message, &mut report).await,
                Ok(Line::Record(entry)) if self.no_records || is_local(&entry.key) => Ok(()),
                // Behind the horizon no old message is taken.
                Ok(Line::Record(entry)) if entry.key == fmail_api::RecordKey::horizon() => {
                    horizon = Some((number, entry));
                    Ok(())
                }
                Ok(Line::Record(entry)) => self.record(&entry, &mut report).await,
                Ok(Line::End(_)) => Ok(()),
                Err(error) => Err(error),
            };
            self.passed(written.map_err(|error| placed(number, error)), &mut report)?;
            if number.is_multiple_of(STEP) {
                tell(Progress::Messages(report.new + report.duplicate + report.relocated));
            }
        }
        if let Some((number, entry)) = horizon {
            let written = self.record(&entry, &mut report).await;
            self.passed(written.map_err(|error| placed(number, error)), &mut report)?;
        }
        if report.records_written > 0 {
            self.writer().drop_tallies().await?;
        }
        Ok(report)
    }

    /// Lets a line that is wrong pass where that is wanted; a failure of the store never.
    fn passed(&self, written: Result<()>, report: &mut ImportReport) -> Result<()> {
        use ErrorKind::{Conflict, InvalidAgent, InvalidRequest, InvalidTopic};
        let wrong = |error: &Error| matches!(error.kind(), InvalidRequest | Conflict | InvalidAgent | InvalidTopic);
        match written {
            Err(error) if self.skip_bad && wrong(&error) => {
                report.bad += 1;
                Ok(())
            }
            written => written,
        }
    }

    async fn message(&self, message: Message, report: &mut ImportReport) -> Result<()> {
        let id = message.id;
        match self.to.import(message).await? {
            Imported::New => report.new += 1,
            Imported::Duplicate => report.duplicate += 1,
            Imported::Relocated(got) if !self.no_records => {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!("the message {id} was stored as {got}: its id was taken meanwhile, or lies in the future"),
                )
                .help(format!("delete {got}, stop whoever writes to the store, and import again")));
            }
            Imported::Relocated(_) => report.relocated += 1,
            Imported::Refused(_) => report.refused += 1,
        }
        Ok(())
    }

    async fn record(&self, entry: &Entry, report: &mut ImportReport) -> Result<()> {
        match self.writer().put(&entry.key, &entry.value, None).await? {
            true => report.records_written += 1,
            false => report.records_present += 1,
        }
        Ok(())
    }
}

/// The error with its line, unless the line stands in it already.
fn placed(number: u64, error: Error) -> Error {
    if error.to_string().starts_with("line ") { error } else { at(number, error) }
}

fn damaged() -> Error {
    Error::invalid("the export is damaged: its counts or its sum are not those of its last line")
        .help("nothing was imported; take another copy of the file")
}
