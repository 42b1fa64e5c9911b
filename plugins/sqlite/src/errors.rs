//! What SQLite says, in the words of fmail.

use std::path::Path;

use fmail_api::{Error, ErrorKind};
use rusqlite::ErrorCode;

/// Why a piece of work on the database came to nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The work itself is refused; nothing was written for it.
    Refused(Error),
    /// The database failed; what was written before it in the same transaction is in doubt.
    Sqlite(rusqlite::Error),
}

/// The result of work on the database.
pub(crate) type Outcome<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Refused(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Sqlite(error)
    }
}

impl Failure {
    /// Whether the whole transaction could not be had, whatever was to be written in it.
    pub(crate) fn concerns_all(&self) -> bool {
        match self {
            Failure::Refused(_) => true,
            Failure::Sqlite(error) => is_busy(error),
        }
    }

    /// The error that the caller gets, with the database that it is about.
    pub(crate) fn on(self, path: &Path) -> Error {
        match self {
            Failure::Refused(error) => error,
            Failure::Sqlite(error) => sqlite(&error, path),
        }
    }
}

/// Whether somebody else holds the lock, so that waiting helps.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed)
    )
}

/// The error of fmail for one of SQLite.
pub(crate) fn sqlite(error: &rusqlite::Error, path: &Path) -> Error {
    let file = path.display();
    let said = |what: &str| format!("{file}: {what} ({error})");
    let Some(code) = error.sqlite_error_code() else {
        // A value of another type than its column has: someone else has written into the tables.
        return Error::new(ErrorKind::Corrupt, said("the database holds a value that fmail has not written"))
            .help("it was left as it is; `PRAGMA integrity_check` in the sqlite3 shell tells more");
    };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            Error::new(ErrorKind::Backpressure, said("another process holds the database's lock for too long"))
                .help("try again; see who has the file open (`fuser` shows it), or raise busy_timeout")
        }
        ErrorCode::DiskFull => Error::new(ErrorKind::Unavailable, said("no space is left; nothing was stored"))
            .help("free some space on the file's disk, or remove old messages with `fmail gc`"),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            Error::new(ErrorKind::Denied, said("the database cannot be written"))
                .help("check the owner and the mode of the file and of its directory, both have to be writable")
        }
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            Error::new(ErrorKind::Corrupt, said("the file is damaged, or is no SQLite database"))
                .help("it was left as it is; restore a backup, or save what can be read with `sqlite3 FILE .recover`")
        }
        ErrorCode::SystemIoFailure => Error::new(ErrorKind::Unavailable, said("the disk or the filesystem failed"))
            .help("look into the system's log for errors of the disk; what was not answered may not be stored"),
        ErrorCode::CannotOpen => Error::new(ErrorKind::Unavailable, said("the database cannot be opened"))
            .help("check that the file and its directory exist and may be read and written"),
        ErrorCode::OutOfMemory => Error::new(ErrorKind::Unavailable, said("there is not enough memory")),
        ErrorCode::TooBig => Error::new(ErrorKind::TooLarge, said("SQLite cannot hold a value of this size")),
        _ => Error::internal(said("SQLite refused a statement of the store")),
    }
}
