//! `fmail-gc-mail`: the mail of Gas City on any store of fmail's.
//!
//! Gas City runs one program for each operation on mail, `<program> <operation> [<argument>]`, and reads its standard
//! output and exit code. This is that program: docs/gas-city.md is the contract as it is kept here.
//!
//! The contract names no reader. An id is all that `read` or `archive` gets, and what they change belongs to the message's
//! recipient. So the message is found first ([`office`]), and then its recipient acts, through the same operations as
//! everywhere ([`answers`]).
//!
//! A caller takes exit code 2 for "done, nothing to tell". It is given for an operation that has no name here and for nothing
//! else: whatever fails ends with 1 and prints no data.

mod answers;
mod input;
mod letter;
mod office;
mod usage;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use fmail_api::{Error, ErrorKind};
use fmail_host::Environment;

use crate::output::{advise, note, report};
use crate::session::Place;
use office::Office;
use usage::Asked;

/// What a caller takes for an operation that this program does not know.
const UNKNOWN_OPERATION: u8 = 2;

/// By this line callers tell an unknown message from other failures.
const NOT_FOUND: &str = "gc-mail-error:not-found";

/// Why an operation gave no answer.
#[derive(Debug)]
enum Failure {
    /// There is no such message.
    NoMessage(Error),
    /// It was archived before.
    AlreadyArchived(String),
    /// Anything else.
    Other(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Other(error)
    }
}

/// Runs the operation that `args` (with the program's name first) describe.
pub fn gc_mail(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let answer = match usage::asked(args.into_iter().skip(1)) {
        Asked::Help => Ok(usage::text()),
        Asked::Version => Ok(format!("fmail-gc-mail {}\n", env!("CARGO_PKG_VERSION"))),
        Asked::Unknown(name) => {
            note(&format!("there is no operation `{name}`"));
            // When even standard error is gone there is nowhere left to say so.
            let _ = write!(io::stderr().lock(), "{}", usage::text());
            return ExitCode::from(UNKNOWN_OPERATION);
        }
        Asked::Wrong(error) => Err(error.into()),
        Asked::Operation(operation, argument) => {
            opened().and_then(|office| answers::answer(&office, operation, &argument))
        }
    };
    match answer.and_then(|answer| print(&answer)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tell(&failure);
            ExitCode::FAILURE
        }
    }
}

fn opened() -> Result<Office, Failure> {
    let environment = Environment::from_process()?;
    Ok(Office::open(Place::find(environment, &[])?)?)
}

/// Prints an answer in one piece: half of one would be taken for something else.
fn print(answer: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(answer.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        let what = format!("what was asked for is done, but standard output cannot be written: {error}");
        Failure::Other(Error::new(ErrorKind::Unavailable, what).help("do not send a message again for this"))
    })
}

fn tell(failure: &Failure) {
    match failure {
        Failure::NoMessage(error) => {
            note(error.message());
            let _ = writeln!(io::stderr().lock(), "{NOT_FOUND}");
            if let Some(help) = error.help_text() {
                advise(help);
            }
        }
        Failure::AlreadyArchived(id) => note(&format!("{id} is already archived")),
        Failure::Other(error) => report(error),
    }
}
