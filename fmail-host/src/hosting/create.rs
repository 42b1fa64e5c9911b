//! Making a project where there is none.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;

use fmail_api::{Clock, Error, ErrorKind, Expect, RecordKey, Result, Store};
use fmail_backends::SystemClock;
use futures::executor::block_on;

use crate::Project;

/// Creates what has to be there before anyone can use a project: its record, and the directory for sockets and locks.
/// Nothing changes where it is there already.
pub fn create_project(project: &Project, store: &dyn Store) -> Result<()> {
    if block_on(store.get(&RecordKey::project()))?.is_none() {
        let record = project.new_record(SystemClock.now())?;
        let value = serde_json::to_value(&record)
            .map_err(|error| Error::internal(format!("the project's record has no JSON form: {error}")))?;
        match block_on(store.put(&RecordKey::project(), Expect::Absent, value, true)) {
            // A store may write the record itself when it creates the project for our first write.
            Err(error) if error.kind() != ErrorKind::Conflict => return Err(error),
            _ => {}
        }
    }
    if !project.has_record() {
        // The store keeps the record elsewhere; here is where commands find it.
        let record = project.new_record(SystemClock.now())?;
        if let Err(error) = project.write_record(&record, false)
            && error.kind() != ErrorKind::Conflict
        {
            return Err(error);
        }
    }
    Ok(())
}

/// Creates `.fmail/` and nothing in it; false when it was there. Of several who try, one is told that it was first.
pub(super) fn make_directory(project: &Project) -> Result<bool> {
    let directory = project.fmail_dir();
    match DirBuilder::new().mode(0o755).create(&directory) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Error::io(format_args!("cannot create {}", directory.display()), &error)),
    }
}
