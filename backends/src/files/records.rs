//! Records as files: `agents/<name>.json`, `project.json`, and all others below `records/`.
//!
//! The revision is a hash of the file, so that an edit by hand counts as a change.

use std::borrow::Cow;
use std::io;

use fmail_api::{Error, ErrorKind, Expect, Record, RecordKey, Result, Revision};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::Value;

use super::fs::{Dir, Kind, ensure_dir, failure, if_there, read_file};
use super::layout::{self, UNFINISHED_RECORD as UNFINISHED};
use super::publish::leave_mark;
use super::session::Session;

/// The largest record that is read, and so the largest that is written.
const MAX_RECORD: u64 = 16 * 1024 * 1024;

impl Session {
    /// Reads a record.
    pub fn get(&self, key: &RecordKey) -> Result<Option<Record>> {
        let Some(top) = self.top()? else { return Ok(None) };
        let found = self.record_dir(&top, key).and_then(|dir| self.record_bytes(&dir, key));
        match found {
            Ok(bytes) => decode(key, &bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(key, &error)),
        }
    }

    fn record_dir(&self, top: &Dir, key: &RecordKey) -> io::Result<Dir> {
        let (dirs, _) = layout::record_path(key);
        dirs.iter().try_fold(top.clone(), |dir, name| self.fs().open_dir(&dir, name))
    }

    fn record_bytes(&self, dir: &Dir, key: &RecordKey) -> io::Result<Vec<u8>> {
        read_file(self.fs(), dir, &layout::record_path(key).1, MAX_RECORD)
    }

    /// Writes a record if it is as the caller expects.
    pub fn put(&self, key: &RecordKey, expect: &Expect, value: &Value, durable: bool) -> Result<Revision> {
        let top = self.top_for_writing()?;
        let _lock = self.lock(&top)?;
        let (_, file) = layout::record_path(key);
        let dir = self.record_dir_for_writing(&top, key).map_err(|error| unwritable(key, &error))?;
        self.check_expectation(&dir, key, expect)?;
        let value = self.with_format(key, value);
        let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
        text.push('\n');
        if text.len() as u64 > MAX_RECORD {
            return Err(too_large(key, text.len()));
        }
        self.replace(&top, &file, &dir, text.as_bytes(), layout::record_mode(key), durable)?;
        Ok(Revision::of_content(text.as_bytes()))
    }

    /// The directory of a record, made when it is missing. What a dead process made and did not sync is synced now.
    fn record_dir_for_writing(&self, top: &Dir, key: &RecordKey) -> io::Result<Dir> {
        let fs = self.fs();
        let left = fs.open_dir(top, layout::TEMPORARY).and_then(|temporary| fs.stat(&temporary, UNFINISHED));
        if left.is_ok() {
            // Whether or not this record is to be durable: the mark goes with it, and the next one may be.
            fs.sync_dir(top)?;
            self.sync_below(top, layout::AGENTS)?;
            self.sync_below(top, layout::RECORDS)?;
        }
        match self.record_dir(top, key) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                leave_mark(fs, top, UNFINISHED)?;
                let (dirs, _) = layout::record_path(key);
                dirs.iter().try_fold(top.clone(), |dir, name| ensure_dir(fs, &dir, name, layout::parent_mode(name)))
            }
            found => found,
        }
    }

    /// Makes the names of all directories below one durable.
    fn sync_below(&self, at: &Dir, name: &str) -> io::Result<()> {
        let Some(dir) = if_there(self.fs().open_dir(at, name))? else { return Ok(()) };
        self.fs().sync_dir(&dir)?;
        let mut below = Vec::new();
        self.fs().list(&dir, &mut |name, kind| {
            below.extend((kind == Kind::Directory).then(|| name.to_string()));
            true
        })?;
        below.iter().try_for_each(|name| self.sync_below(&dir, name))
    }

    /// The project's record always tells the layout of its files.
    fn with_format<'v>(&self, key: &RecordKey, value: &'v Value) -> Cow<'v, Value> {
        let mut value = Cow::Borrowed(value);
        if *key == RecordKey::project()
            && let Some(fields) = value.to_mut().as_object_mut()
        {
            fields.insert("format".into(), fmail_api::FORMAT_VERSION.into());
        }
        value
    }

    fn check_expectation(&self, dir: &Dir, key: &RecordKey, expect: &Expect) -> Result<()> {
        if *expect == Expect::Anything {
            return Ok(());
        }
        let current = match self.record_bytes(dir, key) {
            Ok(bytes) => Some(Revision::of_content(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable(key, &error)),
        };
        match (expect, current) {
            (Expect::Absent, None) => Ok(()),
            (Expect::Revision(wanted), Some(found)) if *wanted == found => Ok(()),
            (_, None) => Err(Error::new(ErrorKind::Conflict, format!("the record `{key}` is gone"))),
            _ => Err(Error::new(ErrorKind::Conflict, format!("the record `{key}` was changed by someone else"))),
        }
    }

    /// Removes a record if it is as the caller expects.
    pub fn delete(&self, key: &RecordKey, expect: &Expect) -> Result<()> {
        let Some(top) = self.top()? else {
            return match expect {
                Expect::Revision(_) => Err(Error::new(ErrorKind::Conflict, format!("the record `{key}` is gone"))),
                _ => Ok(()),
            };
        };
        let _lock = self.lock(&top)?;
        let dir = match self.record_dir(&top, key) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !matches!(expect, Expect::Revision(_)) => {
                return Ok(());
            }
            Err(error) => return Err(unreadable(key, &error)),
        };
        self.check_expectation(&dir, key, expect)?;
        match self.fs().unlink(&dir, &layout::record_path(key).1) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unwritable(key, &error)),
            Err(_) => Ok(()),
            Ok(()) => self.fs().sync_dir(&dir).map_err(|error| unwritable(key, &error)),
        }
    }

    /// Lists the records under a prefix, in order of their keys.
    pub fn list(self: &std::sync::Arc<Self>, prefix: &str) -> Result<BoxStream<'static, Result<Record>>> {
        let Some(top) = self.top()? else { return Ok(stream::empty().boxed()) };
        let mut keys = Vec::new();
        let prefix = prefix.trim_end_matches('/');
        self.collect(&top, layout::AGENTS, layout::AGENTS, prefix, &mut keys)?;
        self.collect(&top, layout::RECORDS, "", prefix, &mut keys)?;
        if RecordKey::project().is_under(prefix) {
            keys.push(Ok(RecordKey::project()));
        }
        keys.sort_by(|one, two| one.as_ref().ok().cmp(&two.as_ref().ok()));
        let session = self.clone();
        let records = keys.into_iter().filter_map(move |key| match key {
            Ok(key) => session.get(&key).transpose(),
            Err(error) => Some(Err(error)),
        });
        Ok(stream::iter(records).boxed())
    }

    /// Gathers the keys below a directory. A file whose name is no key is told, not passed over.
    fn collect(&self, at: &Dir, name: &str, path: &str, prefix: &str, keys: &mut Vec<Result<RecordKey>>) -> Result<()> {
        let failed = |error: io::Error| {
            for_owner(failure(format!(".fmail: the records below `{name}` cannot be listed"), &error))
        };
        let dir = match self.fs().open_dir(at, name) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        let mut found: Vec<(String, Kind)> = Vec::new();
        self.fs()
            .list(&dir, &mut |name, kind| {
                found.push((name.to_string(), kind));
                true
            })
            .map_err(failed)?;
        let join = |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}/{name}") };
        for (name, kind) in found {
            let below = join(&name);
            if kind == Kind::Directory && name.ends_with(".json") {
                // Something stands where a record should: what it held is not known, and that is not nothing.
                let error = Error::new(ErrorKind::Corrupt, format!("{below} is a directory in place of a record"));
                keys.push(Err(error.help("move it away; fmail leaves it as it is")));
                continue;
            }
            if kind == Kind::Directory {
                let related =
                    prefix.is_empty() || below.starts_with(prefix) || prefix.starts_with(&format!("{below}/"));
                if related {
                    self.collect(&dir, &name, &below, prefix, keys)?;
                }
                continue;
            }
            let Some(stem) = name.strip_suffix(".json") else { continue };
            match join(stem).parse::<RecordKey>() {
                Ok(key) if key.is_under(prefix) => keys.push(Ok(key)),
                Ok(_) => {}
                Err(error) => keys.push(Err(Error::new(ErrorKind::Corrupt, format!("{below}: {}", error.message())))),
            }
        }
        Ok(())
    }
}

fn decode(key: &RecordKey, bytes: &[u8]) -> Result<Record> {
    let value = serde_json::from_slice(bytes).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("{} is not JSON: {error}", place(key)))
            .help("repair the file, or move it away; fmail leaves it as it is")
    })?;
    Ok(Record { key: key.clone(), revision: Revision::of_content(bytes), value })
}

fn too_large(key: &RecordKey, bytes: usize) -> Error {
    let message = format!("{} would have {bytes} bytes, and no record may have more than {MAX_RECORD}", place(key));
    Error::new(ErrorKind::TooLarge, message).help("`fmail gc` and `fmail delete` make room")
}

/// A record's path as people write it.
fn place(key: &RecordKey) -> String {
    let (dirs, file) = layout::record_path(key);
    format!(".fmail/{}{}{file}", dirs.join("/"), if dirs.is_empty() { "" } else { "/" })
}

fn unreadable(key: &RecordKey, error: &io::Error) -> Error {
    let odd = error.kind() == io::ErrorKind::InvalidData
        || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
        || error.raw_os_error() == Some(rustix::io::Errno::NOTDIR.raw_os_error());
    if odd {
        return Error::new(ErrorKind::Corrupt, format!("{} cannot be read: {error}", place(key)))
            .help("fmail follows no link below .fmail and reads only regular files; move it away");
    }
    for_owner(Error::io(format!("{} cannot be read", place(key)), error))
}

/// Says what to do about a record that this user may not read.
fn for_owner(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Denied if error.help_text().is_none() => error.help(
            "only the user who owns the project may read it; run fmail as that user, or set FMAIL_ROOT to use another",
        ),
        _ => error,
    }
}

fn unwritable(key: &RecordKey, error: &io::Error) -> Error {
    failure(format!("{} cannot be written", place(key)), error)
}
